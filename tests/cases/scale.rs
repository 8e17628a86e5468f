//! Many APIs: loading, reloading and matching stay fast. The numbers hold for an optimized build: `make scale`.
use std::time::{Duration, Instant};

use tests::{
    backend::Backend,
    generate::Estate,
    harness::Gateway,
    message::PATIENCE,
    wire::{Wire, request},
};

async fn estate(apis: usize, per_file: usize) -> (Gateway, Backend, Estate, Duration) {
    let backend = Backend::echo().await;
    let estate = Estate { apis, per_file, backend: Some(backend.address) };
    let setup = Gateway::with("kind: Plan\nname: none\nrate: 1/s\n");
    estate.write(&setup.folder().join("routes/estate")).expect("an estate");
    let begun = Instant::now();
    let gateway = setup.start().await;
    (gateway, backend, estate, begun.elapsed())
}

/// Every so many-th Api answers its example.
async fn serves(gateway: &Gateway, estate: &Estate, step: usize) {
    let mut wire = gateway.wire().await;
    for n in (0..estate.apis).step_by(step) {
        let it = estate.example(n);
        let host = format!("host: {}", it.host.as_deref().unwrap_or("any.test"));
        wire.send(request(&format!("{} {}", it.method, it.target), &[&host], "")).await;
        let answer = wire.answer_to(it.method).await;
        assert_eq!(answer.status, 200, "{it:?}: {}", answer.text());
    }
}

/// Microseconds a request, the best of some rounds.
async fn pace(gateway: &Gateway, estate: &Estate) -> f64 {
    // An Api that answers by itself.
    let it = estate.example(7);
    let host = format!("host: {}", it.host.as_deref().unwrap_or("any.test"));
    let bytes = request(&format!("{} {}", it.method, it.target), &[&host], "");
    let mut wire = Wire::open(gateway.address).await;
    let mut best = f64::MAX;
    for _ in 0..10 {
        let begun = Instant::now();
        for _ in 0..300 {
            wire.send(&bytes).await;
            wire.answer_to(it.method).await.is(200);
        }
        best = best.min(begun.elapsed().as_secs_f64() * 1e6 / 300.0);
    }
    best
}

#[tokio::test]
async fn a_thousand_apis_load_and_serve() {
    let (gateway, _backend, estate, _) = estate(1000, 10).await;
    serves(&gateway, &estate, 7).await;
}

#[tokio::test]
#[ignore = "measures; meaningful in an optimized build only: make scale"]
async fn ten_thousand_apis_load_reload_and_match_as_fast_as_ten() {
    let (small, _one, ten, _) = estate(10, 1).await;
    let (gateway, _two, estate, start) = estate(10_000, 1).await;
    serves(&gateway, &estate, 101).await;
    let begun = Instant::now();
    gateway
        .reload(|it| {
            drop(it.write(
                "routes/new.yaml",
                "kind: Api\ninfo: {name: new, version: v1}\ninbound: {match: /new}\nproxy: {respond: {status: 204}}\n",
            ))
        })
        .await;
    let reload = begun.elapsed();
    gateway.get("/new").await.is(204);
    let (few, many) = (pace(&small, &ten).await, pace(&gateway, &estate).await);
    println!("10 000 APIs: start {start:?}, reload {reload:?}, {many:.1} µs a request against {few:.1} with ten");
    assert!(start < Duration::from_secs(2), "start {start:?}");
    assert!(reload < Duration::from_secs(1), "reload {reload:?}");
    assert!(many < few * 1.3 + 5.0, "{many:.1} µs against {few:.1}");
}

#[tokio::test]
#[ignore = "takes a minute and a gigabyte: make scale"]
async fn a_hundred_thousand_apis_load_and_serve() {
    let (gateway, _backend, estate, start) = estate(100_000, 100).await;
    println!("100 000 APIs: start {start:?}");
    serves(&gateway, &estate, 997).await;
    assert!(start < PATIENCE * 6);
}
