//! The power of two choices: of two nodes drawn by weight, the one with fewer calls on their way for its weight.
use std::sync::Arc;

use contract::{
    Exchange,
    discovery::{Node, Nodes, Picker, Strategy, Tried},
};

use super::weighted::Weighted;

pub struct LeastRequest;

impl Strategy for LeastRequest {
    fn prepare(&self, nodes: Nodes) -> Box<dyn Picker> {
        Box::new(Pair(Weighted::new(nodes)))
    }
}

struct Pair(Weighted);

/// How often a second one is drawn that may be the first one again.
const DRAWS: usize = 4;

impl Picker for Pair {
    fn pick(&self, _: &Exchange, tried: &Tried, _: Option<u64>) -> Option<Arc<Node>> {
        let first = self.0.pick(tried)?;
        let other = (0..DRAWS).filter_map(|_| self.0.pick(tried)).find(|it| !Arc::ptr_eq(it, first));
        // With the call that is to come, so that an idle heavy node goes before an idle light one.
        let load = |it: &Node, other: &Node| (it.in_flight.count() as u64 + 1) * u64::from(other.weight);
        match other {
            Some(second) if load(second, first) < load(first, second) => Some(second.clone()),
            _ => Some(first.clone()),
        }
    }
}
