//! What the client makes of an answer's bytes.
use contract::CallError;
use tokio::sync::Notify;

use super::*;

#[derive(Debug, PartialEq)]
enum Want {
    /// Status, body, trailers, and whether the connection serves again.
    Answer(u16, &'static str, &'static str, bool),
    Fails(CallError),
    /// The head is fine; the body breaks off after this.
    Breaks(&'static str),
}
use Want::*;

const PROTOCOL: Want = Fails(CallError::Protocol);
const RESET: Want = Fails(CallError::Reset);

/// Method, what the backend writes before it waits for the next request (or closes, where a `!` stands first), and what comes of it.
const CASES: &[(&str, &str, Want)] = &[
    // Lengths.
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Answer(200, "hello", "", true)),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Answer(200, "", "", true)),
    ("GET", "HTTP/1.1 200\r\nContent-Length:\t5 \r\n\r\nhello", Answer(200, "hello", "", true)),
    ("GET", "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello", Answer(200, "hello", "", true)),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", Answer(200, "hello", "", false)),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: x, CLOSE\r\nx: 1\r\n\r\nhello", Answer(200, "hello", "", false)),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n", Answer(200, "hello", "", false)),
    ("GET", "!HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", Breaks("hel")),
    ("GET", "!HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Breaks("")),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello", PROTOCOL),
    // Chunks.
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n3;a=b\r\n, w\r\n0\r\n\r\n",
        Answer(200, "hello, w", "", true),
    ),
    ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Answer(200, "", "", true)),
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n",
        Answer(200, "hello", "x-sum=7", true),
    ),
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\nContent-Length: 1\r\n\r\n",
        Answer(200, "hello", "x-sum=7", true),
    ),
    ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1", Answer(200, "hello", "", false)),
    ("GET", "!HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", Breaks("hello")),
    ("GET", "!HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Breaks("hello")),
    ("GET", "!HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", Breaks("hel")),
    ("GET", "!HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Breaks("")),
    ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", PROTOCOL),
    // Until the connection closes.
    ("GET", "!HTTP/1.1 200 OK\r\n\r\nhello", Answer(200, "hello", "", false)),
    ("GET", "!HTTP/1.1 200 OK\r\n\r\n", Answer(200, "", "", false)),
    ("GET", "!HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\nhello", Answer(200, "hello", "", false)),
    // No body, whatever is told.
    ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Answer(200, "", "", true)),
    ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Answer(200, "", "", true)),
    ("HEAD", "HTTP/1.1 200 OK\r\n\r\n", Answer(200, "", "", true)),
    ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Answer(200, "", "", false)),
    ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Answer(304, "", "", true)),
    ("GET", "HTTP/1.1 204 No Content\r\n\r\n", Answer(204, "", "", true)),
    ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", Answer(204, "", "", true)),
    ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", Answer(204, "", "", false)),
    ("GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", Answer(204, "", "", false)),
    // HTTP/1.0.
    ("GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", Answer(200, "hello", "", false)),
    ("GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive\r\n\r\nhello", Answer(200, "hello", "", true)),
    ("GET", "!HTTP/1.0 200 OK\r\n\r\nhello", Answer(200, "hello", "", false)),
    // Interim answers.
    ("GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Answer(200, "hello", "", true)),
    (
        "GET",
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        Answer(200, "hello", "", true),
    ),
    ("GET", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", PROTOCOL),
    ("GET", "!HTTP/1.1 103 Early Hints\r\n\r\n", RESET),
    // Heads that are none, or two.
    ("GET", "!", RESET),
    ("GET", "!HTTP/1.1 200 OK\r\n", RESET),
    ("GET", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nx: a\rb\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 O\rK\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nx: a\r\n b\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\n x: a\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nx: a\0b\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nnocolon\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\na b: a\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
    ("GET", "HTTP/2.0 200 OK\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.2 200 OK\r\n\r\n", PROTOCOL),
    ("GET", "http/1.1 200 OK\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.1  200 OK\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.1 20 OK\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.1 2000 OK\r\n\r\n", PROTOCOL),
    ("GET", "HTTP/1.1 099 OK\r\n\r\n", PROTOCOL),
    ("GET", "SSH-2.0-OpenSSH\r\n", PROTOCOL),
    ("GET", "HTTP/1.1 200 OK\r\nConnection: a b\r\nContent-Length: 5\r\n\r\nhello", PROTOCOL),
];

/// Asks twice: what comes of the first answer, and by how many connections both were served.
async fn ask(method: &str, script: &'static [u8], drips: bool) -> (Want2, usize) {
    let (closes, script) = script.strip_prefix(b"!").map_or((false, script), |it| (true, it));
    let written = Rc::new(Notify::new());
    let told = written.clone();
    let backend = backend(move |mut wire, at| {
        let told = told.clone();
        async move {
            if at == 0 {
                wire.head().await;
                match drips {
                    true => wire.drip(script).await,
                    false => wire.write(script).await,
                }
                told.notify_one();
                if closes {
                    return;
                }
            }
            while wire.head().await.is_some() {
                wire.ok("again").await;
            }
        }
    });
    let bench = Bench::new(&backend);
    let got = match bench.call(Method::from_bytes(method.as_bytes()).unwrap(), Body::Empty).await {
        Err(failure) => Err(failure.error),
        Ok(response) => {
            let status = response.status().as_u16();
            let (mut body, mut text, mut fields) = (response.into_body(), Vec::new(), Vec::new());
            loop {
                match body.frame().await {
                    None => break Ok((status, text, fields.join(","), false)),
                    Some(Err(_)) => break Ok((status, text, fields.join(","), true)),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(it) => text.extend_from_slice(&it),
                        Err(it) => {
                            fields.extend(it.into_trailers().unwrap().iter().map(|(n, v)| format!("{n}={}", v.to_str().unwrap())));
                        }
                    },
                }
            }
        }
    };
    written.notified().await;
    tokio::task::yield_now().await;
    if got.is_ok() {
        assert_eq!(bench.text().await, "again");
    }
    (got, backend.accepted.get())
}

type Want2 = Result<(u16, Vec<u8>, String, bool), CallError>;

#[test]
fn every_answer_means_one_thing_however_it_is_cut() {
    for (method, script, want) in CASES {
        for drips in [false, true] {
            let (got, connections) = run(|| ask(method, script.as_bytes(), drips));
            let case = format!("{method} {script:?}, in drops: {drips}");
            match (want, got) {
                (Answer(status, body, trailers, again), Ok((is, text, fields, broken))) => {
                    assert_eq!((is, text.as_slice(), fields.as_str(), broken), (*status, body.as_bytes(), *trailers, false), "{case}");
                    assert_eq!(connections, if *again { 1 } else { 2 }, "{case}");
                }
                (Breaks(body), Ok((_, text, _, broken))) => {
                    assert_eq!((text.as_slice(), broken, connections), (body.as_bytes(), true, 2), "{case}");
                }
                (Fails(error), Err(got)) => assert_eq!(*error, got, "{case}"),
                // Bad chunks behind a head in one piece are told as the call's failure, else as the body's.
                (want, got) => panic!("{case}: wanted {want:?}, got {got:?}"),
            }
        }
    }
}

#[test]
fn bad_chunks_are_never_a_clean_end() {
    for chunks in
        ["x\r\n", "5\r\nhelloX", "5\nhello\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n", "-1\r\n", "5\r\nhello\r\n0\r\nx y: 1\r\n\r\n"]
    {
        for drips in [false, true] {
            let script: &'static str = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").leak();
            match run(|| ask("GET", script.as_bytes(), drips)).0 {
                Err(CallError::Protocol) => assert!(!drips, "{chunks:?}"),
                Ok((_, _, _, broken)) => assert!(drips && broken, "{chunks:?}"),
                got => panic!("{chunks:?}: {got:?}"),
            }
        }
    }
}

#[test]
fn heads_have_bounds() {
    let of = |count: usize, size: usize| -> &'static str {
        format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n{}\r\nok", format!("x: {}\r\n", "v".repeat(size)).repeat(count)).leak()
    };
    for (count, size, fits) in [(199, 10, true), (200, 10, false), (1, 60_000, true), (1, 70_000, false), (100, 1000, false)] {
        for drips in [false, true] {
            let (got, _) = run(|| ask("GET", of(count, size).as_bytes(), drips));
            assert_eq!(got.is_ok(), fits, "{count} of {size}: {got:?}");
        }
    }
    // A line without end.
    let endless: &'static [u8] = vec![b'v'; 70_000].leak();
    let script: &'static [u8] = [b"HTTP/1.1 200 OK\r\nx: ", endless].concat().leak();
    assert_eq!(run(|| ask("GET", script, false)).0, Err(CallError::Protocol));
}

#[test]
fn headers_come_to_the_byte_without_those_of_the_connection() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write(b"HTTP/1.1 200 OK\r\nX-Raw: \xff\xfe \t\r\nSet-Cookie: a\r\nset-cookie: b\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nEmpty:\r\nContent-Length: 2\r\n\r\nok").await;
            wire.closed().await;
        });
        let response = Bench::new(&backend).get().await.unwrap();
        let got: Vec<_> = response.headers().iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        let want: [(&str, &[u8]); 5] =
            [("x-raw", b"\xff\xfe"), ("set-cookie", b"a"), ("set-cookie", b"b"), ("empty", b""), ("content-length", b"2")];
        assert_eq!(got, want);
        assert!(matches!(response.body(), Body::Full(it) if &it[..] == b"ok"), "a small body that came with its head is one piece");
    });
}

#[test]
fn a_chunked_body_that_came_with_its_head_is_one_piece() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            wire.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n").await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend);
        let response = bench.get().await.unwrap();
        assert!(matches!(response.body(), Body::Full(it) if &it[..] == b"abc"), "{:?}", response.body());
        assert_eq!((bench.pool.idle(), bench.permits.in_flight()), (1, 0));
    });
}

#[test]
fn a_large_body_comes_whole_and_in_order() {
    run(|| async {
        let backend = backend(|mut wire, _| async move {
            wire.head().await;
            let body: Vec<u8> = (0..3_000_000u32).map(|it| (it % 251) as u8).collect();
            wire.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len())).await;
            wire.write(body).await;
            wire.closed().await;
        });
        let bench = Bench::new(&backend);
        let mut response = bench.get().await.unwrap();
        assert_eq!(http_body::Body::size_hint(response.body()).exact(), Some(3_000_000));
        let got = response.body_mut().bytes(4_000_000).await.unwrap();
        assert!(got.iter().enumerate().all(|(at, it)| *it == (at % 251) as u8));
        assert_eq!(bench.pool.idle(), 1);
    });
}

/// Answers of the table with random changes; the same ones each time.
fn mutations(count: usize) -> Vec<Vec<u8>> {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    (0..count)
        .map(|_| {
            let mut script = CASES[random(CASES.len())].1.as_bytes().to_vec();
            for _ in 0..=random(4) {
                let at = random(script.len());
                match random(3) {
                    0 => script[at] = b"\r\n 0159:,;aHZ\0\xff\t"[random(16)],
                    1 => script.truncate(at + 1),
                    _ => script.insert(at, random(256) as u8),
                }
            }
            script
        })
        .collect()
}

#[test]
fn random_bytes_never_panic() {
    let scripts: Vec<Vec<u8>> = mutations(1500).into_iter().chain((0..300).map(|_| b"HTTP/1.".to_vec())).collect();
    run(|| async move {
        let scripts = Rc::new(scripts);
        let count = scripts.len();
        let turn = Rc::new(Cell::new(0));
        let backend = backend(move |mut wire, _| {
            let at = turn.replace(turn.get() + 1);
            let scripts = scripts.clone();
            async move {
                if wire.head().await.is_some() {
                    wire.write(&scripts[at % scripts.len()]).await;
                }
            }
        });
        let bench = Bench::new(&backend);
        for _ in 0..count {
            if let Ok(response) = bench.get().await {
                let _ = whole(response).await;
            }
        }
        assert_eq!(bench.permits.in_flight(), 0);
    });
}
