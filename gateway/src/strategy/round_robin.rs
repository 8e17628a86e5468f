//! In turn, by weight, smoothly: `a a b` of weights 2 and 1 becomes `a b a`.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use contract::{
    Exchange,
    discovery::{Node, Nodes, Picker, Strategy, Tried},
};

/// The longest cycle that is written out; beyond it weights are scaled down, never to nothing.
const LONGEST_CYCLE: usize = 4096;

/// Exact over a cycle for all workers together: they share one cursor.
#[derive(Default)]
pub struct RoundRobin {
    /// Outlives a change of nodes, so that a reload does not start again with the first one.
    cursor: Arc<AtomicUsize>,
}

struct Turn {
    /// Which node's turn it is, written out for one whole cycle.
    cycle: Box<[u32]>,
    nodes: Nodes,
    cursor: Arc<AtomicUsize>,
}

impl Strategy for RoundRobin {
    fn prepare(&self, nodes: Nodes) -> Box<dyn Picker> {
        Box::new(Turn { cycle: cycle(&nodes), nodes, cursor: self.cursor.clone() })
    }
}

impl Picker for Turn {
    fn pick(&self, _: &Exchange, tried: &Tried, _: Option<u64>) -> Option<Arc<Node>> {
        let length = self.cycle.len();
        if length == 0 {
            return None;
        }
        // Another attempt of a call takes no turn: calls of even number would all begin with the same node of two.
        let start = if tried.attempts() == 0 { self.cursor.fetch_add(1, Relaxed) } else { self.cursor.load(Relaxed) };
        let at = |step: usize| &self.nodes[self.cycle[start.wrapping_add(step) % length] as usize];
        // The first that has not been tried; when all have, whose turn it is.
        (0..length).map(at).find(|it| !tried.contains(it)).or_else(|| Some(at(0))).cloned()
    }
}

/// Smooth weighted round robin, as nginx does it, run once for a whole cycle. A weight of 0 takes no part.
fn cycle(nodes: &Nodes) -> Box<[u32]> {
    let divisor = nodes.iter().map(|it| it.weight).filter(|it| *it > 0).fold(0, gcd).max(1);
    let mut weights: Vec<i64> = nodes.iter().map(|it| i64::from(it.weight / divisor)).collect();
    let total: i64 = weights.iter().sum();
    if total > LONGEST_CYCLE as i64 {
        let shrink = |it: i64| if it == 0 { 0 } else { (it * LONGEST_CYCLE as i64 / total).max(1) };
        weights.iter_mut().for_each(|it| *it = shrink(*it));
    }
    let total: i64 = weights.iter().sum();
    let mut current = vec![0i64; weights.len()];
    let mut turns = Vec::with_capacity(total as usize);
    for _ in 0..total {
        current.iter_mut().zip(&weights).for_each(|(it, weight)| *it += weight);
        // The first of equals, so that the order of the definition decides.
        let best = (0..current.len()).rev().max_by_key(|it| current[*it]).expect("the total is above zero, so there is a node");
        current[best] -= total;
        turns.push(best as u32);
    }
    turns.into()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use contract::{Body, testkit::exchange};

    use super::*;

    fn nodes(weights: &[u32]) -> Nodes {
        let node = |(at, weight): (usize, &u32)| {
            Arc::new(Node {
                authority: format!("n{at}:1").parse().unwrap(),
                address: ([127, 0, 0, 1], 1).into(),
                weight: *weight,
                metadata: Default::default(),
                in_flight: Default::default(),
            })
        };
        weights.iter().enumerate().map(node).collect()
    }
    fn check(weights: &[u32], expect: &[u32]) {
        assert_eq!(&*cycle(&nodes(weights)), expect, "weights {weights:?}");
    }

    #[test]
    fn heavy_nodes_are_spread_over_the_cycle() {
        check(&[5, 1, 1], &[0, 0, 1, 0, 2, 0, 0]);
        check(&[2, 1], &[0, 1, 0]);
        check(&[1, 1, 1], &[0, 1, 2]);
        check(&[100, 100], &[0, 1]);
        check(&[0, 3], &[1]);
        check(&[0], &[]);
        check(&[], &[]);
    }

    #[test]
    fn a_huge_weight_starves_nobody() {
        let turns = cycle(&nodes(&[1_000_003, 1]));
        assert!(turns.len() <= LONGEST_CYCLE + 1 && turns.contains(&1));
    }

    #[test]
    fn four_threads_together_share_by_weight_exactly() {
        let picker = Arc::new(RoundRobin::default().prepare(nodes(&[3, 2, 1])));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let picker = picker.clone();
                std::thread::spawn(move || {
                    let ex = exchange(http::Request::new(Body::Empty));
                    let mut seen = [0usize; 3];
                    for _ in 0..600 {
                        let node = picker.pick(&ex, &Tried::default(), None).unwrap();
                        seen[node.authority.as_str()[1..2].parse::<usize>().unwrap()] += 1;
                    }
                    seen
                })
            })
            .collect();
        let counts: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        let total = |at: usize| counts.iter().map(|it| it[at]).sum::<usize>();
        assert_eq!([total(0), total(1), total(2)], [1200, 800, 400]);
    }

    #[test]
    fn a_second_attempt_goes_to_another_node() {
        let picker = RoundRobin::default().prepare(nodes(&[5, 1]));
        let ex = exchange(http::Request::new(Body::Empty));
        for _ in 0..10 {
            let mut tried = Tried::default();
            let first = picker.pick(&ex, &tried, None).unwrap();
            tried.add(first.clone());
            let second = picker.pick(&ex, &tried, None).unwrap();
            assert!(!Arc::ptr_eq(&first, &second));
            tried.add(second);
            assert!(picker.pick(&ex, &tried, None).is_some());
        }
    }
}
