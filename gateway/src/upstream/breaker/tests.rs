//! The circuits by themselves, in virtual time.
use tokio::time::advance;

use super::*;
use crate::telemetry::metrics::GatewayMetrics;

const SECOND: Duration = Duration::from_secs(1);

fn adaptive() -> Adaptive {
    Adaptive { k: 2.0, window: 10 * SECOND, slow: None }
}

fn ratio() -> Ratio {
    Ratio { window: 10 * SECOND, failures: 0.5, min_calls: 20, open_for: 30 * SECOND, probes: 10, slow: None }
}

fn node(port: u16) -> Arc<Node> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let authority = address.to_string().parse().unwrap();
    Arc::new(Node { authority, address, weight: 1, metadata: Default::default(), in_flight: Default::default() })
}

fn metrics() -> UpstreamMetrics {
    GatewayMetrics::new(Default::default()).upstream_metrics("u")
}

fn asks(it: &Breaker, node: &Node, method: &Method, point: &str) -> Result<Permit, Refused> {
    it.ask(node, method, it.per.method.then(|| point.into()).as_ref(), Criticality::High, &metrics())
}

/// Fails so many calls.
fn fails(it: &Breaker, node: &Node, count: u32) {
    for _ in 0..count {
        if let Ok(permit) = asks(it, node, &Method::GET, "/a") {
            permit.end(CallOutcome::Transient, SECOND);
        }
    }
}

fn of_node(rule: Rule) -> Breaker {
    Breaker::new(rule, Per { node: true, method: false }, None)
}

fn stands(it: &Breaker) -> Vec<(String, &'static str)> {
    it.standings().into_iter().map(|it| (it.what, it.standing.word())).collect()
}

/// One second of calls, evenly; gives the share that a backend that is up or down accepted.
async fn second(it: &mut Throttle, calls: u32, share: f64, up: bool) -> f64 {
    let mut accepted = 0;
    for _ in 0..calls {
        advance(SECOND / calls).await;
        if it.ask(Instant::now(), share).is_ok() {
            it.ended(Instant::now(), up);
            accepted += u32::from(up);
        }
    }
    f64::from(accepted) / f64::from(calls)
}

#[tokio::test(start_paused = true)]
async fn throttling_ends_soon_after_a_backend_is_well_again() {
    let mut sum = 0.0;
    for _ in 0..50 {
        let mut it = Throttle::new(adaptive(), Instant::now());
        for _ in 0..30 {
            second(&mut it, 200, 1.0, true).await;
        }
        for _ in 0..60 {
            second(&mut it, 200, 1.0, false).await;
        }
        let mut seconds = 1;
        while second(&mut it, 200, 1.0, true).await < 0.99 {
            seconds += 1;
            assert!(seconds < 60, "it does not come back");
        }
        sum += f64::from(seconds);
    }
    assert!(sum / 50.0 < 20.0, "99 % pass after {} s, mean of 50 runs", sum / 50.0);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_is_down_gets_a_tenth_of_the_calls() {
    let mut it = Throttle::new(adaptive(), Instant::now());
    for _ in 0..20 {
        second(&mut it, 500, 1.0, false).await;
    }
    let let_through = (0..10_000).filter(|_| it.ask(Instant::now(), 1.0).is_ok()).count();
    assert!((800..1200).contains(&let_through), "{let_through} of 10 000");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_refused_while_few_calls_fail() {
    let mut it = Throttle::new(adaptive(), Instant::now());
    for number in 0..10_000 {
        advance(SECOND / 500).await;
        // Four of ten fail: with k = 2 that is borne.
        assert!(it.ask(Instant::now(), 1.0).is_ok(), "call {number}");
        it.ended(Instant::now(), number % 10 >= 4);
    }
    let mut it = Throttle::new(adaptive(), Instant::now());
    for _ in 0..60 {
        assert_eq!(second(&mut it, 1, 1.0, false).await, 0.0);
        assert!(it.ask(Instant::now(), 1.0).is_ok(), "a seldom caller is not refused");
    }
}

#[tokio::test(start_paused = true)]
async fn what_matters_less_is_refused_first() {
    let mut it = Throttle::new(adaptive(), Instant::now());
    for number in 0..1000 {
        it.ended(Instant::now(), number % 10 < 6);
    }
    let mut refused = |which: Criticality| {
        let mut copies = 0;
        for _ in 0..1000 {
            if it.ask(Instant::now(), which.share()).is_err() {
                copies += 1;
                it.ended(Instant::now(), true);
                it.ended(Instant::now(), true);
            }
        }
        copies
    };
    assert_eq!((refused(Criticality::Critical), refused(Criticality::High)), (0, 0));
    let (normal, sheddable) = (refused(Criticality::Normal), refused(Criticality::Sheddable));
    assert!(sheddable > 50 && normal < sheddable, "{normal} normal, {sheddable} sheddable");
}

#[tokio::test(start_paused = true)]
async fn what_is_older_than_the_window_is_forgotten() {
    let mut it = Throttle::new(adaptive(), Instant::now());
    second(&mut it, 1000, 1.0, false).await;
    assert_eq!(it.standing(Instant::now()), Standing::Throttling);
    advance(3600 * SECOND).await;
    assert_eq!(it.standing(Instant::now()), Standing::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_circuit_opens_waits_tries_and_closes() {
    let (it, node) = (of_node(Rule::Ratio(ratio())), node(1));
    fails(&it, &node, 19);
    assert_eq!(stands(&it), [("127.0.0.1:1".to_owned(), "closed")], "too few calls");
    fails(&it, &node, 1);
    let refused = asks(&it, &node, &Method::GET, "/a").err().expect("it is open");
    assert!((30 * SECOND..=33 * SECOND).contains(&refused.after), "{refused:?}");
    advance(refused.after).await;
    let probes: Vec<Permit> = (0..10).map(|_| asks(&it, &node, &Method::GET, "/a").expect("a probe")).collect();
    assert_eq!(stands(&it)[0].1, "half_open");
    assert!(asks(&it, &node, &Method::GET, "/a").is_err(), "no more than ten");
    for permit in probes {
        permit.end(CallOutcome::Ok, SECOND);
    }
    assert_eq!(stands(&it)[0].1, "closed");
}

#[tokio::test(start_paused = true)]
async fn it_opens_again_where_the_tries_fail() {
    let (it, node) = (of_node(Rule::Ratio(ratio())), node(1));
    fails(&it, &node, 20);
    advance(34 * SECOND).await;
    fails(&it, &node, 5);
    assert_eq!(stands(&it)[0].1, "open", "five of ten are enough");
}

#[tokio::test(start_paused = true)]
async fn no_circuit_is_stuck_half_open_whatever_clients_do() {
    let (it, node) = (of_node(Rule::Ratio(ratio())), node(1));
    fails(&it, &node, 20);
    advance(34 * SECOND).await;
    for _ in 0..1000 {
        // Clients that leave give their place to others.
        drop(asks(&it, &node, &Method::GET, "/a").expect("a place"));
    }
    let hanging: Vec<_> = (0..10).map(|_| asks(&it, &node, &Method::GET, "/a").expect("a probe")).collect();
    assert!(asks(&it, &node, &Method::GET, "/a").is_err());
    advance(10 * SECOND).await;
    assert_eq!(stands(&it)[0].1, "open", "calls that never end are no good sign");
    advance(34 * SECOND).await;
    let good = asks(&it, &node, &Method::GET, "/a").expect("a probe");
    for permit in hanging {
        permit.end(CallOutcome::Transient, SECOND);
    }
    assert_eq!(stands(&it)[0].1, "half_open", "what began before counts no more");
    good.end(CallOutcome::Ok, SECOND);
    advance(10 * SECOND).await;
    assert_eq!(stands(&it)[0].1, "closed", "one good call of a seldom caller is enough in the end");
}

#[tokio::test(start_paused = true)]
async fn slow_calls_fail_where_that_is_asked_for_and_a_client_that_leaves_is_no_failure() {
    for (slow, outcome, want) in [
        (None, CallOutcome::Ok, "closed"),
        (Some(2 * SECOND), CallOutcome::Ok, "open"),
        (Some(4 * SECOND), CallOutcome::Ok, "closed"),
        (None, CallOutcome::Fatal, "closed"),
        (None, CallOutcome::Throttled, "open"),
        (None, CallOutcome::Unknown, "open"),
        (None, CallOutcome::Cancelled, "closed"),
    ] {
        let (it, node) = (of_node(Rule::Ratio(Ratio { slow, ..ratio() })), node(1));
        for _ in 0..20 {
            asks(&it, &node, &Method::GET, "/a").expect("it is closed").end(outcome, 3 * SECOND);
        }
        assert_eq!(stands(&it)[0].1, want, "{slow:?} {outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_thing_is_counted_by_itself() {
    let (one, two) = (node(1), node(2));
    for (per, want) in [
        (Per { node: false, method: false }, vec!["all"]),
        (Per { node: true, method: false }, vec!["127.0.0.1:1", "127.0.0.1:2"]),
        (Per { node: false, method: true }, vec!["GET /a", "GET /b", "OTHER /a", "POST /a"]),
    ] {
        let it = Breaker::new(Rule::Ratio(ratio()), per, None);
        let strange = [Method::from_bytes(b"ONE").unwrap(), Method::from_bytes(b"TWO").unwrap()];
        for (node, method, point) in [
            (&one, &Method::GET, "/a"),
            (&two, &Method::GET, "/b"),
            (&one, &Method::POST, "/a"),
            (&one, &strange[0], "/a"),
            (&one, &strange[1], "/a"),
        ] {
            drop(asks(&it, node, method, point).ok());
        }
        assert_eq!(it.standings().into_iter().map(|it| it.what).collect::<Vec<_>>(), want);
    }
    let it = Breaker::new(Rule::Ratio(ratio()), Per { node: true, method: true }, None);
    fails(&it, &one, 20);
    assert!(asks(&it, &one, &Method::GET, "/a").is_err());
    assert!(asks(&it, &two, &Method::GET, "/a").is_ok() && asks(&it, &one, &Method::GET, "/b").is_ok());
    it.keep(&[two]);
    assert_eq!(it.standings().len(), 1, "a node that is gone is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_is_written_the_same_goes_on_as_it_stands() {
    let (first, node) = (of_node(Rule::Ratio(ratio())), node(1));
    fails(&first, &node, 20);
    assert_eq!(stands(&of_node(Rule::Ratio(ratio())).after(Some(&first)))[0].1, "open");
    let other = Rule::Ratio(Ratio { probes: 3, ..ratio() });
    assert!(stands(&of_node(other).after(Some(&first))).is_empty());
}
