//! The ring: its keys, rates, costs and headers, and every fault of its configuration.
use contract::{Body, catalog::filter, testkit::Bench};
use http::HeaderMap;
use serde_json::{Value, json};

use super::*;

fn bench(config: Value) -> Bench {
    Bench::of(&filter::<RateLimit>(), config)
}

async fn ask(bench: &Bench, headers: &[(&str, &str)]) -> (u16, HeaderMap) {
    let mut request = http::Request::builder();
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = bench.send(request.body(Body::Empty).unwrap()).await;
    (answer.status().as_u16(), answer.headers().clone())
}

/// How many of twenty requests at once pass.
async fn passed(bench: &Bench, headers: &[(&str, &str)]) -> usize {
    let mut count = 0;
    for _ in 0..20 {
        count += usize::from(ask(bench, headers).await.0 == 200);
    }
    count
}

#[tokio::test]
async fn each_key_has_its_own_burst() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let bench = bench(json!({"rate": "6/m", "burst": 3, "key": "${headers['x-user']}"}));
            assert_eq!(passed(&bench, &[("x-user", "a")]).await, 3);
            assert_eq!(passed(&bench, &[("x-user", "b")]).await, 3);
            // Who has no key is limited by address, and never shares one empty key.
            assert_eq!(passed(&bench, &[]).await, 3);
            assert_eq!(passed(&bench, &[("x-user", "")]).await, 0);
            assert_eq!(passed(&bench.from("192.0.2.7".parse().unwrap()), &[]).await, 3);
        })
        .await;
}

#[tokio::test]
async fn every_way_of_counting_admits_its_number_and_no_more() {
    for (config, want) in [
        (json!({"rate": "5/m", "burst": 5}), 5),
        (json!({"rate": "5/m"}), 1),
        (json!({"rate": "5/m", "burst": 5, "algorithm": "gcra"}), 5),
        (json!({"rate": "5/m", "algorithm": "sliding_window"}), 5),
        (json!({"rate": "5/m", "burst": 5, "cost": 2}), 2),
        (json!({"rate": "5/m", "burst": 5, "cost": "${headers['x-cost']}"}), 5),
        (json!({"rate": "0/s"}), 0),
        (json!({"rate": "0/s", "algorithm": "gcra"}), 0),
        (json!({"rate": "0/s", "algorithm": "sliding_window"}), 0),
        (json!({"rate": "${headers['x-rate']}", "burst": 4, "default": "1/m"}), 4),
        (json!({"rate": "${headers['x-rate']}", "burst": 4}), 0),
        (json!({"rate": "6/m", "burst": "${headers['x-burst']}"}), 1),
    ] {
        assert_eq!(passed(&bench(config.clone()), &[]).await, want, "{config}");
    }
    let rated = bench(json!({"rate": "${headers['x-rate']}", "burst": "${headers['x-burst']}", "cost": "${headers['x-cost']}"}));
    assert_eq!(passed(&rated, &[("x-rate", "6/m"), ("x-burst", "8"), ("x-cost", "2")]).await, 4);
}

#[tokio::test]
async fn clients_are_told_what_is_left_and_when_to_come_back() {
    let shown =
        |it: &HeaderMap| ["ratelimit", "ratelimit-policy"].map(|name| it.get(name).map_or("", |it| it.to_str().unwrap()).to_owned());
    let bench = bench(json!({"name": "search", "rate": "2/m", "burst": 2}));
    let (status, headers) = ask(&bench, &[]).await;
    assert_eq!(status, 200);
    assert_eq!(shown(&headers), ["\"1\";r=1;t=30", "\"1\";q=2;w=60;burst=2"], "the bench numbers its only ring");
    ask(&bench, &[]).await;
    let (status, headers) = ask(&bench, &[]).await;
    assert_eq!((status, shown(&headers)), (429, ["\"1\";r=0;t=30".to_owned(), "\"1\";q=2;w=60;burst=2".to_owned()]));

    let quiet = self::bench(json!({"rate": "1/m", "headers": false}));
    assert_eq!(shown(&ask(&quiet, &[]).await.1), ["", ""]);
    assert_ne!(shown(&ask(&quiet, &[]).await.1)[0], "", "who is refused is always told");
}

#[tokio::test]
async fn what_can_never_pass_and_what_nobody_agreed_on_are_told_apart() {
    for (config, headers, status) in [
        (json!({"rate": "5/m", "burst": 5, "cost": "${headers['x-cost']}"}), &[("x-cost", "6")][..], 429),
        (json!({"rate": "5/m", "burst": 5, "cost": "${headers['x-cost']}"}), &[("x-cost", "-1")], 200),
        (json!({"rate": "${plan.rate}"}), &[], 403),
        (json!({"rate": "${headers['x-rate']}"}), &[("x-rate", "many")], 403),
        (json!({"rate": "5/m", "parent": "plan"}), &[], 403),
    ] {
        assert_eq!(ask(&bench(config.clone()), headers).await.0, status, "{config}");
    }
}

#[test]
fn every_fault_is_told_in_its_place() {
    for (config, pointers) in [
        (json!({"rate": "10"}), &["/rate"][..]),
        (json!({"rate": "10/s", "burst": 2, "cost": 3}), &["/cost"]),
        (json!({"rate": "10/m", "cost": 3}), &["/burst"]),
        (json!({"rate": "10/s", "cost": 0}), &["/cost"]),
        (json!({"rate": "10/s", "cost": "three"}), &["/cost"]),
        (json!({"rate": "10/s", "burst": 20, "algorithm": "sliding_window"}), &["/burst"]),
        (json!({"rate": "0.5/s", "algorithm": "sliding_window"}), &["/rate"]),
        (json!({"rate": "10/s", "scope": "shared"}), &["/scope"]),
        (json!({"rate": "10/s", "across": "apis"}), &["/across", "/across"]),
        (json!({"rate": "10/s", "name": "plan"}), &["/name"]),
        (json!({"rate": "10/s", "name": "outer"}), &["/name"]),
        (json!({"rate": "10/s", "parent": "nobody"}), &["/parent"]),
        (json!({"rate": "10/s", "default": "1/s"}), &["/default"]),
        (json!({"rate": "${plan.rat", "key": "${nope}"}), &["/key", "/rate"]),
    ] {
        let faults = Bench::faults(&filter::<RateLimit>(), config.clone());
        assert_eq!(faults.iter().map(|it| it.pointer.as_str()).collect::<Vec<_>>(), pointers, "{config}: {faults:?}");
    }
}
