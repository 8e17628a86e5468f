//! Requests on their way out, and answers that do not wait for them.
use contract::CallError;

use super::*;

#[test]
fn a_request_is_written_to_the_byte_with_framing_of_our_own() {
    let cases: [(&str, Body, &str); 6] = [
        ("GET", Body::Empty, "\r\n"),
        ("DELETE", Body::Empty, "\r\n"),
        ("POST", Body::Empty, "content-length: 0\r\n\r\n"),
        ("POST", Body::from("hello"), "content-length: 5\r\n\r\nhello"),
        ("GET", Body::from("hello"), "content-length: 5\r\n\r\nhello"),
        ("PUT", Body::Full(Bytes::from(vec![b'x'; 40_000])), "content-length: 40000\r\n\r\nx"),
    ];
    for (method, body, end) in cases {
        run(|| async move {
            let seen = Rc::new(RefCell::new(Vec::new()));
            let log = seen.clone();
            let backend = backend(move |mut wire, _| {
                let log = log.clone();
                async move {
                    // The first read must bring head and small body at once.
                    let mut first = vec![0; 100_000];
                    let count = wire.stream.read(&mut first).await.unwrap();
                    log.borrow_mut().extend_from_slice(&first[..count]);
                    wire.ok("").await;
                    wire.closed().await;
                }
            });
            let mut bench = Bench::new(&backend)
                .header("x-a", "1")
                .header("x-a", "2")
                .header("content-length", "77")
                .header("transfer-encoding", "chunked")
                .header("host", "evil")
                .header("upgrade", "h2c")
                .header("connection", "close");
            bench.headers.append("x-raw", HeaderValue::from_bytes(b"\xff\xe9").unwrap());
            bench.call(Method::from_bytes(method.as_bytes()).unwrap(), body).await.unwrap();
            let mut want = format!("{method} /a%2Fb?x=1&&y HTTP/1.1\r\nhost: example.com\r\nx-a: 1\r\nx-a: 2\r\nx-raw: ").into_bytes();
            want.extend_from_slice(b"\xff\xe9\r\n");
            want.extend_from_slice(end.as_bytes());
            let got = seen.borrow();
            assert_eq!(String::from_utf8_lossy(&got[..want.len().min(got.len())]), String::from_utf8_lossy(&want));
        });
    }
}

#[test]
fn a_target_that_ends_the_line_is_never_sent() {
    run(|| async {
        let backend = backend(|_, _| async {});
        let bench = Bench::new(&backend);
        for target in ["", "/a b", "/a\r\nx: y", "/\0", "/\x7f"] {
            let call = Call {
                method: Method::GET,
                target: target.as_bytes(),
                host: HeaderValue::from_static("a"),
                headers: &HeaderMap::new(),
                body: Body::Empty,
                upgrade: None,
                on_early: &mut |_, _| {},
                timeouts: Timeouts::default(),
                deadline: (Instant::now() + Duration::from_secs(5)).into_std(),
                body_deadline: None,
            };
            let failure = send(&bench.pool, call).await.unwrap_err();
            assert_eq!((failure.error, failure.sent), (CallError::Protocol, false), "{target:?}");
        }
        assert_eq!(backend.accepted.get(), 0);
    });
}

#[test]
fn a_stream_goes_out_in_chunks_with_its_trailers() {
    run(|| async {
        let seen = Rc::new(RefCell::new(String::new()));
        let log = seen.clone();
        let backend = backend(move |mut wire, _| {
            let log = log.clone();
            async move {
                let head = wire.head().await.unwrap();
                let body = wire.until("x-sum: 1\r\n\r\n").await;
                *log.borrow_mut() = head + &body;
                wire.ok("done").await;
                wire.closed().await;
            }
        });
        let bench = Bench::new(&backend);
        let (feeder, body) = feed(None);
        let call = async { whole(bench.call(Method::POST, body).await.unwrap()).await.unwrap().1 };
        let feeding = async {
            feeder.send(data("hello")).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            feeder.send(data(vec![b'y'; 20_000])).unwrap();
            feeder.send(data("")).unwrap();
            feeder.send(data("z")).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", HeaderValue::from_static("1"));
            feeder.send(Ok(Frame::trailers(trailers))).unwrap();
            drop(feeder);
        };
        assert_eq!(tokio::join!(call, feeding).0, "done");
        let got = seen.borrow();
        let body = got.split_once("\r\n\r\n").unwrap();
        assert!(body.0.ends_with("transfer-encoding: chunked"), "{}", body.0);
        assert_eq!(body.1, format!("5\r\nhello\r\n4e20\r\n{}\r\n1\r\nz\r\n0\r\nx-sum: 1\r\n\r\n", "y".repeat(20_000)));
        assert_eq!(bench.pool.idle(), 1);
    });
}

#[test]
fn a_body_that_is_not_as_long_as_it_told_ends_the_call() {
    for pieces in [&["abc"][..], &["abc", "def"]] {
        run(|| async move {
            let backend = backend(|mut wire, _| async move { while !wire.closed().await {} });
            let bench = Bench::new(&backend);
            let (feeder, body) = feed(Some(5));
            for piece in pieces {
                feeder.send(data(*piece)).unwrap();
            }
            drop(feeder);
            let failure = bench.call(Method::POST, body).await.unwrap_err();
            assert!(failure.request_body.is_some() && failure.body.is_none());
            assert_eq!((bench.permits.open(), bench.permits.in_flight()), (0, 0));
        });
    }
}

#[test]
fn a_client_that_breaks_off_is_told_apart_from_the_backend() {
    run(|| async {
        let backend = backend(|mut wire, _| async move { while !wire.closed().await {} });
        let bench = Bench::new(&backend);
        let (feeder, body) = feed(None);
        feeder.send(data("abc")).unwrap();
        feeder.send(Err(BodyError::Stalled)).unwrap();
        let failure = bench.call(Method::POST, body).await.unwrap_err();
        assert!(matches!(failure.request_body, Some(BodyError::Stalled)));
        assert_eq!(failure.into_problem().kind, contract::Kind::RequestTimeout);
    });
}

#[test]
fn an_early_answer_is_delivered_and_ends_the_upload() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
            while !wire.closed().await {}
        });
        let bench = Bench::new(&backend);
        let (feeder, body) = feed(None);
        feeder.send(data("abc")).unwrap();
        let response = bench.call(Method::POST, body).await.unwrap();
        assert_eq!(whole(response).await.unwrap().1, "big");
        assert!(feeder.is_closed(), "nothing more is taken from the client");
        assert_eq!((bench.pool.idle(), bench.permits.open()), (0, 0), "the connection is not used again");
    });
}

#[test]
fn an_early_answer_is_delivered_though_the_backend_takes_no_more() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
            let _ = wire.stream.shutdown().await;
            tokio::time::sleep(Duration::from_secs(30)).await;
        });
        let bench = Bench::new(&backend);
        // Far more than the sockets hold.
        let body = Body::Full(Bytes::from(vec![b'x'; 20_000_000]));
        assert_eq!(whole(bench.call(Method::POST, body).await.unwrap()).await.unwrap().1, "big");
    });
}

#[test]
fn bytes_go_both_ways_at_once() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            for at in 0..5 {
                let got = wire.until(&format!("{at}\r\n")).await;
                assert!(got.ends_with(&format!("{at}\r\n")), "{got:?}");
                wire.write("2\r\nok\r\n").await;
            }
            wire.until("0\r\n\r\n").await;
            wire.write("0\r\n\r\n").await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend);
        let (feeder, body) = feed(None);
        let mut response = bench.call(Method::POST, body).await.unwrap();
        for at in 0..5 {
            feeder.send(data(format!("no {at}"))).unwrap();
            let frame = response.body_mut().frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), "ok");
        }
        drop(feeder);
        assert!(response.body_mut().frame().await.is_none());
        assert_eq!(bench.pool.idle(), 1, "both sides ended, so the connection serves again");
    });
}

#[test]
fn a_slow_backend_holds_the_client_back() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            wire.bytes(40_000_000).await;
            wire.ok("done").await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend);
        let pulled = Rc::new(Cell::new(0usize));
        let count = pulled.clone();
        let mut left = 400;
        let body = Body::stream(Pull(Box::new(move || {
            left -= 1;
            count.set(count.get() + 1);
            (left >= 0).then(|| Bytes::from(vec![b'x'; 100_000]))
        })));
        let call = async { whole(bench.call(Method::POST, body).await.unwrap()).await.unwrap().1 };
        let look = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            pulled.get()
        };
        let (text, early) = tokio::join!(call, look);
        assert_eq!(text, "done");
        assert!(early < 200, "{early} pieces were taken while the backend took none");
    });
}

/// Pieces that are always ready.
struct Pull(Box<dyn FnMut() -> Option<Bytes>>);

impl http_body::Body for Pull {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        std::task::Poll::Ready((self.0)().map(data))
    }
}

#[test]
fn interim_answers_are_told_but_for_100() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\nlink: b\r\n\r\n").await;
            wire.write("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend);
        assert_eq!(bench.text().await, "ok");
        assert_eq!(*bench.early.borrow(), [(103, 2), (102, 0)]);
    });
}

#[test]
fn a_flood_of_interim_answers_is_a_fault() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 102 Processing\r\n\r\n".repeat(100)).await;
            wire.closed().await;
        });
        assert_eq!(Bench::new(&backend).get().await.unwrap_err().error, CallError::Protocol);
    });
}

#[test]
fn a_body_waits_for_100_continue() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            let head = wire.head().await.unwrap();
            assert!(head.contains("expect: 100-Continue"));
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut buf = [0; 1];
            assert!(wire.stream.try_read(&mut buf).is_err(), "the body came unasked");
            wire.write("HTTP/1.1 100 Continue\r\n\r\n").await;
            assert_eq!(wire.bytes(5).await, b"hello");
            wire.ok("thanks").await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend).header("expect", "100-Continue");
        assert_eq!(whole(bench.call(Method::POST, "hello").await.unwrap()).await.unwrap().1, "thanks");
        assert_eq!(bench.pool.idle(), 1);
    });
}

#[test]
fn a_final_answer_in_place_of_100_leaves_the_body_unread() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 417 No\r\ncontent-length: 2\r\n\r\nno").await;
            assert!(wire.closed().await, "no body may follow");
        });
        let bench = Bench::new(&backend).header("expect", "100-continue");
        let (feeder, body) = feed(None);
        feeder.send(data("hello")).unwrap();
        let response = bench.call(Method::POST, body).await.unwrap();
        assert_eq!((response.status().as_u16(), bench.pool.idle()), (417, 0));
        assert_eq!(whole(response).await.unwrap().1, "no");
    });
}

#[test]
fn a_body_that_was_never_asked_for_is_given_back() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.reset();
        });
        let bench = Bench::new(&backend).header("expect", "100-continue");
        let (_feeder, body) = feed(None);
        let failure = bench.call(Method::POST, body).await.unwrap_err();
        assert_eq!((failure.error, failure.sent), (CallError::Reset, true));
        assert!(matches!(failure.body, Some(Body::Stream(_))));
    });
}
