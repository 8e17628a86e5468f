//! What every way of choosing has to keep.
use std::{collections::HashMap, sync::Arc};

use contract::{
    Body, Exchange,
    discovery::{Node, Nodes, Picker, Strategy, Tried},
    testkit,
};

use super::{ALL, hash, least_request::LeastRequest, random::Random};

fn nodes(weights: &[u32]) -> Nodes {
    let node = |(at, weight): (usize, &u32)| {
        Arc::new(Node {
            authority: format!("n{at}:1").parse().unwrap(),
            address: ([10, 0, 0, at as u8], 80).into(),
            weight: *weight,
            metadata: Default::default(),
            in_flight: Default::default(),
        })
    };
    weights.iter().enumerate().map(node).collect()
}

fn exchange() -> Exchange {
    testkit::exchange(http::Request::new(Body::Empty))
}

fn at(it: &Node) -> usize {
    it.authority.as_str()[1..].split(':').next().unwrap().parse().unwrap()
}

/// How often each node is picked.
fn shares(picker: &dyn Picker, count: usize, calls: usize, key: impl Fn(usize) -> Option<u64>) -> Vec<usize> {
    let (ex, mut shares) = (exchange(), vec![0; count]);
    for call in 0..calls {
        shares[at(&picker.pick(&ex, &Tried::default(), key(call)).unwrap())] += 1;
    }
    shares
}

#[test]
fn a_second_attempt_goes_to_another_node_and_one_beyond_the_last_to_any() {
    for it in ALL {
        let (picker, ex) = ((it.make)().prepare(nodes(&[5, 0, 1, 3])), exchange());
        for key in [None, Some(7)] {
            let mut tried = Tried::default();
            for _ in 0..3 {
                let node = picker.pick(&ex, &tried, key).unwrap();
                assert!(!tried.contains(&node) && node.weight > 0, "{}", it.name);
                tried.add(node);
            }
            assert!(picker.pick(&ex, &tried, key).is_some(), "{}", it.name);
        }
    }
}

#[test]
fn without_a_node_that_has_weight_nobody_is_picked() {
    for it in ALL {
        for weights in [&[][..], &[0, 0]] {
            assert!((it.make)().prepare(nodes(weights)).pick(&exchange(), &Tried::default(), Some(1)).is_none(), "{}", it.name);
        }
    }
}

#[test]
fn chance_goes_by_weight() {
    let shares = shares(&*Random.prepare(nodes(&[3, 1, 0])), 3, 40_000, |_| None);
    assert!((28_800..31_200).contains(&shares[0]) && shares[0] + shares[1] == 40_000, "{shares:?}");
}

#[test]
fn the_node_with_fewer_calls_on_their_way_is_asked() {
    let all = nodes(&[1, 1]);
    (0..5).for_each(|_| all[0].in_flight.begin());
    let picker = LeastRequest.prepare(all.clone());
    // Both of the two drawn may be the busy one, seldom.
    let taken = shares(&*picker, 2, 1000, |_| None);
    assert!(taken[0] < 100, "{taken:?}");
    (0..5).for_each(|_| all[0].in_flight.end());
    let taken = shares(&*picker, 2, 1000, |_| None);
    assert!(taken[0] > 350, "{taken:?}");
}

#[test]
fn a_node_that_leaves_moves_only_its_own_keys() {
    let all = nodes(&[1, 2, 1, 4]);
    let whole = hash::Hash.prepare(all.clone());
    let ex = exchange();
    let of = |picker: &dyn Picker, key: u64| at(&picker.pick(&ex, &Tried::default(), Some(key)).unwrap());
    for lost in 0..4 {
        let left = hash::Hash.prepare(all.iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, it)| it.clone()).collect());
        let mut moved = HashMap::new();
        for key in (0..8000u64).map(|it| hash::of(&it.to_be_bytes())) {
            let (before, after) = (of(&*whole, key), of(&*left, key));
            if before == lost {
                *moved.entry(after).or_insert(0) += 1;
            } else {
                assert_eq!(before, after, "a key of node {before} moved when {lost} left");
            }
        }
        assert_eq!(moved.len(), 3, "all that are left share what was lost: {moved:?}");
    }
}

#[test]
fn keys_are_shared_by_weight() {
    let shares = shares(&*hash::Hash.prepare(nodes(&[1, 3])), 2, 40_000, |it| Some(hash::of(&(it as u64).to_be_bytes())));
    assert!((29_000..31_000).contains(&shares[1]), "{shares:?}");
}

#[test]
fn a_key_has_the_same_number_in_every_version() {
    assert_eq!(hash::of(b"user-1"), hash::of(b"user-1"));
    assert_eq!(hash::of(b""), 17_665_956_581_633_026_203);
}
