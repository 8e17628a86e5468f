//! What happens when a backend takes its time.
use contract::CallError;

use super::*;

/// A backend that takes the head, writes `script` and then is silent.
fn silent(script: &'static str) -> Backend {
    backend(move |mut wire, _| async move {
        wire.head().await;
        wire.write(script).await;
        wire.closed().await;
    })
}

#[test]
fn an_answer_that_does_not_begin_is_a_read_timeout() {
    for script in ["", "HTTP/1.1 200 OK\r\ncontent-le"] {
        run_paused(|| async move {
            let backend = silent(script);
            let bench = Bench::new(&backend);
            let start = Instant::now();
            let failure = bench.get().await.unwrap_err();
            assert_eq!((failure.error, failure.sent), (CallError::ReadTimeout, true), "{script:?}");
            assert!((15..17).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
            assert_eq!((bench.permits.open(), bench.permits.in_flight()), (0, 0));
        });
    }
}

#[test]
fn the_deadline_comes_first_where_it_is_nearer() {
    run_paused(|| async {
        let backend = silent("");
        let mut bench = Bench::new(&backend);
        bench.timeouts.first_byte = Duration::from_secs(3600);
        let start = Instant::now();
        assert_eq!(bench.get().await.unwrap_err().error, CallError::Timeout);
        assert!((50..52).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    });
}

#[test]
fn a_body_that_stalls_is_an_error() {
    run_paused(|| async {
        let backend = silent("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel");
        let bench = Bench::new(&backend);
        let mut response = bench.get().await.unwrap();
        assert_eq!(response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "hel");
        let start = Instant::now();
        assert!(matches!(response.body_mut().frame().await, Some(Err(BodyError::Stalled))));
        assert!((60..62).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        assert_eq!((bench.permits.open(), bench.permits.in_flight()), (0, 0));
    });
}

#[test]
fn a_body_may_have_a_deadline() {
    run_paused(|| async {
        let backend = silent("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel");
        let bench = Bench::new(&backend);
        let start = Instant::now();
        let call = Call {
            method: Method::GET,
            target: b"/",
            host: HeaderValue::from_static("a"),
            headers: &HeaderMap::new(),
            body: Body::Empty,
            upgrade: None,
            on_early: &mut |_, _| {},
            timeouts: bench.timeouts,
            deadline: (start + Duration::from_secs(5)).into_std(),
            body_deadline: Some((start + Duration::from_secs(5)).into_std()),
        };
        let response = send(&bench.pool, call).await.unwrap();
        assert!(matches!(whole(response).await, Err(BodyError::Broken(_))));
        assert!((5..7).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    });
}

#[test]
fn a_slow_but_steady_body_is_no_stall() {
    run_paused(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n").await;
            for byte in b"hello" {
                tokio::time::sleep(Duration::from_secs(50)).await;
                wire.write([*byte]).await;
            }
            wire.closed().await;
        });
        assert_eq!(Bench::new(&backend).text().await, "hello");
    });
}

#[test]
fn a_backend_that_takes_nothing_is_a_read_timeout() {
    run_paused(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            tokio::time::sleep(Duration::from_secs(1_000_000)).await;
        });
        let mut bench = Bench::new(&backend);
        bench.timeouts.idle = Duration::from_secs(7);
        let start = Instant::now();
        let failure = bench.call(Method::POST, Bytes::from(vec![b'x'; 30_000_000])).await.unwrap_err();
        assert_eq!((failure.error, failure.reason, failure.sent), (CallError::ReadTimeout, "upstream_write_stalled", true));
        assert!(start.elapsed() < Duration::from_secs(20));
    });
}

#[test]
fn a_body_that_nobody_asks_for_goes_after_a_second() {
    run_paused(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            assert_eq!(wire.bytes(5).await, b"hello");
            wire.ok("thanks").await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend).header("expect", "100-continue");
        let start = Instant::now();
        assert_eq!(whole(bench.call(Method::POST, "hello").await.unwrap()).await.unwrap().1, "thanks");
        assert!((1000..1500).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    });
}

#[test]
fn a_timer_of_an_earlier_call_does_not_ring_in_a_later_one() {
    run_paused(|| async {
        let backend = backend(|mut wire, _| async move {
            while wire.head().await.is_some() {
                tokio::time::sleep(Duration::from_secs(10)).await;
                wire.ok("ok").await;
            }
        });
        let bench = Bench::new(&backend);
        for _ in 0..10 {
            assert_eq!(bench.text().await, "ok");
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        assert_eq!(backend.accepted.get(), 1);
    });
}

#[test]
fn an_address_that_swallows_packets_is_a_connect_timeout() {
    run(|| async {
        // A listener whose queue is full answers no more.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let mut fill = Vec::new();
        while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
            fill.push(stream);
        }
        let mut bench = Bench::of(address, Limits::default());
        bench.timeouts.connect = Duration::from_millis(100);
        let failure = bench.get().await.unwrap_err();
        assert_eq!((failure.error, failure.sent), (CallError::ConnectTimeout, false));
        assert_eq!(bench.permits.open(), 0);
        // The next address still gets its part of the time.
        let live = backend(|mut wire, _| async move {
            wire.head().await;
            wire.ok("ok").await;
        });
        bench.pool.set_addresses(vec![address, live.address]);
        assert_eq!(bench.text().await, "ok");
    });
}

#[test]
fn idle_connections_are_closed_in_time_without_a_call() {
    run_paused(|| async {
        let backend = backend(|mut wire, _| async move {
            while wire.head().await.is_some() {
                wire.ok("ok").await
            }
        });
        let bench = Bench::new(&backend);
        bench.text().await;
        tokio::time::sleep(Duration::from_secs(58)).await;
        assert_eq!(bench.pool.idle(), 1);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!((bench.pool.idle(), bench.permits.open()), (0, 0));
    });
}
