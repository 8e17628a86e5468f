//! Calls of equal value to the same node, by weighted rendezvous hashing: a node that leaves moves only its own, and one that
//! comes takes only what becomes its own, whatever the weights. Equal in every gateway that knows the same nodes.
use std::sync::Arc;

use contract::{
    Exchange,
    discovery::{Node, Nodes, Picker, Strategy, Tried},
};

use super::{chance, weighted::Weighted};

pub struct Hash;

impl Strategy for Hash {
    fn prepare(&self, nodes: Nodes) -> Box<dyn Picker> {
        let seats =
            nodes.iter().filter(|it| it.weight > 0).map(|it| Seat { seed: of(it.address.to_string().as_bytes()), node: it.clone() });
        Box::new(Rendezvous { seats: seats.collect(), any: Weighted::new(nodes) })
    }
}

/// A number for these bytes, the same in every process and of every version: FNV-1a, mixed.
pub fn of(bytes: &[u8]) -> u64 {
    chance::mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)))
}

struct Rendezvous {
    seats: Box<[Seat]>,
    /// For calls without a value.
    any: Weighted,
}

struct Seat {
    seed: u64,
    node: Arc<Node>,
}

impl Seat {
    /// The higher, the more this node is meant: its weight over an exponential draw from both.
    fn score(&self, key: u64) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        let draw = ((chance::mix(self.seed ^ key) >> 11) as f64 + 0.5) * STEP;
        f64::from(self.node.weight) / -draw.ln()
    }
}

impl Picker for Rendezvous {
    fn pick(&self, _: &Exchange, tried: &Tried, key: Option<u64>) -> Option<Arc<Node>> {
        let Some(key) = key else { return self.any.pick(tried).cloned() };
        let best = |fresh: bool| {
            let seats = self.seats.iter().filter(|it| !fresh || !tried.contains(&it.node));
            seats.map(|it| (it.score(key), &it.node)).max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, node)| node.clone())
        };
        best(true).or_else(|| best(false))
    }
}
