//! Switches of protocols.
use contract::body::BoxBody;

use super::*;

async fn upgrade(bench: &Bench, client: Body) -> Result<Response<Body>, Box<Failure>> {
    let Body::Stream(client) = client else { panic!("a tunnel needs a stream") };
    let client: BoxBody = client;
    let mut headers = HeaderMap::new();
    headers.insert("upgrade", HeaderValue::from_static("websocket"));
    let call = Call {
        method: Method::GET,
        target: b"/chat",
        host: HeaderValue::from_static("example.com"),
        headers: &headers,
        body: Body::Empty,
        upgrade: Some(client),
        on_early: &mut |_, _| {},
        timeouts: bench.timeouts,
        deadline: (Instant::now() + Duration::from_secs(5)).into_std(),
        body_deadline: None,
    };
    send(&bench.pool, call).await
}

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nx-b: 1\r\n\r\n";

#[test]
fn bytes_pass_both_ways_after_a_switch() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            let head = wire.head().await.unwrap();
            assert!(head.contains("upgrade: websocket\r\n") && head.contains("connection: upgrade\r\n"), "{head}");
            wire.write(format!("{SWITCH}welcome")).await;
            loop {
                let got = wire.bytes(4).await;
                if got.is_empty() {
                    // The client's end leaves this side open.
                    return wire.write("bye").await;
                }
                wire.write(got).await;
            }
        });
        let bench = Bench::new(&backend);
        let (feeder, client) = feed(None);
        let mut response = upgrade(&bench, client).await.unwrap();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["upgrade"], "websocket");
        assert_eq!(response.headers()["connection"], "upgrade");
        let mut next = async || response.body_mut().frame().await.map(|it| it.unwrap().into_data().unwrap());
        assert_eq!(next().await.unwrap(), "welcome");
        for word in ["ping", "pong"] {
            feeder.send(data(word)).unwrap();
            assert_eq!(next().await.unwrap(), word);
        }
        let large = Bytes::from(vec![b'x'; 1_000_000]);
        feeder.send(data(large.clone())).unwrap();
        let mut back = 0;
        while back < large.len() {
            back += next().await.unwrap().len();
        }
        drop(feeder);
        assert_eq!(next().await.unwrap(), "bye");
        assert_eq!(next().await, None);
        assert_eq!((bench.permits.open(), bench.pool.idle()), (0, 0));
    });
}

#[test]
fn a_refused_switch_is_a_plain_answer() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 400 No\r\ncontent-length: 2\r\n\r\nno").await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend);
        let (_feeder, client) = feed(None);
        assert_eq!(whole(upgrade(&bench, client).await.unwrap()).await.unwrap().1, "no");
        assert_eq!(bench.pool.idle(), 1);
    });
}

#[test]
fn a_dropped_tunnel_closes_the_connection() {
    run(|| async {
        let (closed, hear) = tokio::sync::oneshot::channel();
        let closed = Cell::new(Some(closed));
        let closed = Rc::new(closed);
        let backend = backend(move |mut wire, _| {
            let closed = closed.clone();
            async move {
                wire.head().await;
                wire.write(SWITCH).await;
                wire.closed().await;
                let _ = closed.take().unwrap().send(());
            }
        });
        let bench = Bench::new(&backend);
        let (_feeder, client) = feed(None);
        drop(upgrade(&bench, client).await.unwrap());
        hear.await.unwrap();
        assert_eq!((bench.permits.open(), bench.permits.in_flight()), (0, 0));
    });
}

#[test]
fn a_failed_call_gives_the_clients_side_back() {
    run(|| async {
        let backend = backend(|wire, _| async move { wire.reset() });
        let bench = Bench::new(&backend);
        let (_feeder, client) = feed(None);
        assert!(upgrade(&bench, client).await.unwrap_err().upgrade.is_some());
    });
}

#[test]
fn a_tunnel_in_which_nothing_moves_ends() {
    run_paused(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write(SWITCH).await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend);
        let (_feeder, client) = feed(None);
        let mut response = upgrade(&bench, client).await.unwrap();
        let start = Instant::now();
        let error = response.body_mut().frame().await.unwrap().unwrap_err();
        assert!(matches!(error, BodyError::Stalled), "{error}");
        assert!(start.elapsed() >= Duration::from_secs(60));
    });
}
