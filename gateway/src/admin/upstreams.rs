//! How backends stand at this moment: their nodes, and the circuits of their breakers.
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    compile::Snapshot,
    upstream::{Upstream, breaker::Stand},
};

/// JSON, by name. The parts of a breaker that no call asked yet are not in it.
pub fn report(of: &Snapshot) -> Bytes {
    let mut all: Vec<_> = of.upstreams().collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let list: Vec<Value> = all.into_iter().map(|it| one(it)).collect();
    json!({ "upstreams": list }).to_string().into()
}

fn one(it: &Upstream) -> Value {
    let nodes: Vec<Value> = it
        .standings()
        .into_iter()
        .map(|(node, standing)| {
            json!({
                "address": node.address.to_string(),
                "authority": node.authority.as_str(),
                "weight": node.weight,
                "state": standing.word(),
                "in_flight": node.in_flight.count(),
            })
        })
        .collect();
    let mut report = json!({ "name": &*it.name, "nodes": nodes });
    if let Some(breaker) = it.breaker() {
        let circuit = |it: Stand| json!({ "of": it.what, "state": it.standing.word() });
        report["breaker"] = breaker.standings().into_iter().map(circuit).collect();
    }
    report
}
