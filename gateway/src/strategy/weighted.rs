//! Nodes of which one is drawn by weight.
use std::sync::Arc;

use contract::discovery::{Node, Nodes, Tried};

use super::chance;

/// Nodes with the sums of their weights. A weight of 0 is never drawn.
pub struct Weighted {
    nodes: Nodes,
    /// The sum of the weights up to each node, itself included.
    sums: Box<[u64]>,
}

impl Weighted {
    pub fn new(nodes: Nodes) -> Self {
        let sums = nodes.iter().scan(0u64, |sum, it| {
            *sum += u64::from(it.weight);
            Some(*sum)
        });
        Self { sums: sums.collect(), nodes }
    }

    /// The place of one node, by chance; none where no node has a weight.
    fn draw(&self) -> Option<usize> {
        let total = *self.sums.last()?;
        if total == 0 {
            return None;
        }
        let at = chance::below(total);
        Some(self.sums.partition_point(|sum| *sum <= at))
    }

    /// One by chance that was not tried, while there is such a one.
    pub fn pick(&self, tried: &Tried) -> Option<&Arc<Node>> {
        const DRAWS: usize = 4;
        let mut at = self.draw()?;
        if tried.attempts() == 0 {
            return self.nodes.get(at);
        }
        for _ in 1..DRAWS {
            if !tried.contains(&self.nodes[at]) {
                break;
            }
            at = self.draw()?;
        }
        let from = |step: usize| &self.nodes[(at + step) % self.nodes.len()];
        let fresh = (0..self.nodes.len()).map(from).find(|it| it.weight > 0 && !tried.contains(it));
        fresh.or_else(|| self.nodes.get(at))
    }
}
