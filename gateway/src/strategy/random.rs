//! By chance, by weight.
use std::sync::Arc;

use contract::{
    Exchange,
    discovery::{Node, Nodes, Picker, Strategy, Tried},
};

use super::weighted::Weighted;

pub struct Random;

impl Strategy for Random {
    fn prepare(&self, nodes: Nodes) -> Box<dyn Picker> {
        Box::new(Draw(Weighted::new(nodes)))
    }
}

struct Draw(Weighted);

impl Picker for Draw {
    fn pick(&self, _: &Exchange, tried: &Tried, _: Option<u64>) -> Option<Arc<Node>> {
        self.0.pick(tried).cloned()
    }
}
