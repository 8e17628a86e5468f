//! Connections that serve again, and those that must not.
use contract::CallError;

use super::*;

/// Answers once on the first connection and then treats the second request as `second` says; answers always on others.
fn stale(second: impl Fn(Wire) + Clone + 'static) -> Backend {
    backend(move |mut wire, at| {
        let second = second.clone();
        async move {
            if at == 0 {
                wire.head().await;
                wire.ok("first").await;
                if wire.head().await.is_some() {
                    second(wire);
                }
                return;
            }
            while let Some(head) = wire.head().await {
                if head.contains("content-length: 5") {
                    wire.bytes(5).await;
                }
                wire.ok("fresh").await;
            }
        }
    })
}

#[test]
fn a_connection_serves_one_call_after_another() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            while wire.head().await.is_some() {
                wire.ok("ok").await
            }
        });
        let bench = Bench::new(&backend);
        for _ in 0..20 {
            assert_eq!(bench.text().await, "ok");
            assert_eq!((bench.pool.idle(), bench.permits.open(), bench.permits.in_flight()), (1, 1, 0));
        }
        assert_eq!(backend.accepted.get(), 1);
    });
}

#[test]
fn a_stale_connection_is_replaced_unseen_where_the_call_can_be_repeated() {
    type Second = fn(Wire);
    let ends: [(&str, Second); 2] = [("closed", |wire| drop(wire)), ("reset", Wire::reset)];
    for (name, end) in ends {
        for (method, body) in [(Method::GET, ""), (Method::PUT, "hello"), (Method::DELETE, ""), (Method::HEAD, "")] {
            run(|| async move {
                let backend = stale(end);
                let bench = Bench::new(&backend);
                assert_eq!(bench.text().await, "first");
                let response = bench.call(method.clone(), body).await.unwrap_or_else(|e| panic!("{method} {name}: {e:?}"));
                assert_eq!(response.status(), 200);
                assert_eq!((backend.accepted.get(), bench.permits.in_flight()), (2, 0));
            });
        }
        run(|| async move {
            let backend = stale(end);
            let bench = Bench::new(&backend);
            assert_eq!(bench.text().await, "first");
            let failure = bench.call(Method::POST, "hello").await.unwrap_err();
            assert_eq!((failure.error, failure.sent), (CallError::Reset, true), "{name}");
            assert!(matches!(failure.body, Some(Body::Full(_))), "whoever may repeat it has the body");
            assert_eq!((backend.accepted.get(), bench.permits.open()), (1, 0));
        });
    }
}

#[test]
fn a_call_is_replaced_once_only_and_never_after_a_byte_of_its_answer() {
    run(|| async {
        let backend = backend(|mut wire, at| async move {
            wire.head().await;
            if at == 0 {
                wire.ok("first").await;
                wire.head().await;
            }
        });
        let bench = Bench::new(&backend);
        assert_eq!(bench.text().await, "first");
        assert_eq!(bench.get().await.unwrap_err().error, CallError::Reset);
        assert_eq!(backend.accepted.get(), 2);
    });
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.ok("first").await;
            wire.head().await;
            wire.write("HTTP/1.1 200").await;
        });
        let bench = Bench::new(&backend);
        assert_eq!(bench.text().await, "first");
        assert_eq!(bench.get().await.unwrap_err().error, CallError::Reset);
        assert_eq!(backend.accepted.get(), 1);
    });
}

#[test]
fn an_idle_connection_that_ends_or_speaks_is_not_used_even_for_a_post() {
    for word in ["", "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"] {
        run(|| async move {
            let backend = backend(move |mut wire, at| async move {
                if at == 0 {
                    wire.head().await;
                    wire.ok("first").await;
                    wire.write(word).await;
                    if word.is_empty() {
                        return;
                    }
                }
                while wire.head().await.is_some() {
                    wire.bytes(5).await;
                    wire.ok("fresh").await;
                }
            });
            let bench = Bench::new(&backend);
            assert_eq!(bench.text().await, "first");
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(whole(bench.call(Method::POST, "hello").await.unwrap()).await.unwrap().1, "fresh");
            assert_eq!(backend.accepted.get(), 2);
        });
    }
}

#[test]
fn a_body_dropped_before_its_end_closes_unless_its_end_is_here() {
    for (rest, idle) in [("0123456789", 0), ("0123", 1)] {
        run(|| async move {
            let backend = backend(move |mut wire, _| async move {
                wire.head().await;
                wire.write(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n4\r\n{}", &rest[..2])).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                wire.write(format!("{}\r\n3\r\nabc\r\n0\r\n\r\n", &rest[2..])).await;
                wire.closed().await;
            });
            let bench = Bench::new(&backend);
            let mut response = bench.get().await.unwrap();
            let mut got = 0;
            while got < 5 {
                match response.body_mut().frame().await {
                    Some(Ok(frame)) => got += frame.into_data().unwrap().len(),
                    _ => break,
                }
            }
            drop(response);
            assert_eq!((bench.pool.idle(), bench.permits.open(), bench.permits.in_flight()), (idle, idle, 0), "{rest}");
        });
    }
}

#[test]
fn a_connection_is_free_with_the_last_byte_though_nobody_asks_for_the_end() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            wire.write("done").await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend);
        let mut response = bench.get().await.unwrap();
        assert_eq!(bench.permits.in_flight(), 1);
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "done");
        assert!(http_body::Body::is_end_stream(response.body()));
        assert_eq!((bench.pool.idle(), bench.permits.in_flight()), (1, 0));
    });
}

#[test]
fn no_more_idle_connections_are_kept_than_allowed() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            while wire.head().await.is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                wire.ok("ok").await;
            }
        });
        let bench = Bench::of(backend.address, Limits { max_idle: 2, ..Limits::default() });
        tokio::join!(bench.text(), bench.text(), bench.text(), bench.text());
        assert_eq!((backend.accepted.get(), bench.pool.idle(), bench.permits.open()), (4, 2, 2));
    });
}

#[test]
fn the_next_address_is_asked_where_one_refuses() {
    run(|| async {
        let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.ok("ok").await;
        });
        let bench = Bench::new(&backend);
        bench.pool.set_addresses(vec![dead, backend.address]);
        assert_eq!(bench.text().await, "ok");
        bench.pool.set_addresses(vec![dead]);
        let failure = bench.get().await.unwrap_err();
        assert_eq!((failure.error, failure.sent), (CallError::Connect, false));
        bench.pool.set_addresses(vec![]);
        assert_eq!(bench.get().await.unwrap_err().error, CallError::Connect);
        assert_eq!(bench.permits.open(), 0);
    });
}

#[test]
fn connections_to_an_address_that_is_gone_are_closed() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            while wire.head().await.is_some() {
                wire.ok("ok").await
            }
        });
        let bench = Bench::new(&backend);
        bench.text().await;
        bench.pool.set_addresses(vec!["127.0.0.1:9".parse().unwrap()]);
        assert_eq!((bench.pool.idle(), bench.permits.open()), (0, 0));
    });
}
