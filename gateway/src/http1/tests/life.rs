//! One connection's requests and answers, and how they are framed.
use super::*;

const GET: &str = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_and_closed_silently_when_idle() {
    talk(async |it| {
        for _ in 0..3 {
            it.send(GET).await;
            let answer = it.until("hello").await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\ndate: "), "{answer}");
            assert!(answer.ends_with("GMT\r\ncontent-length: 5\r\n\r\nhello"), "{answer}");
        }
        let before = Instant::now();
        assert_eq!(it.rest().await, "");
        assert_eq!(before.elapsed().as_secs(), 60);
        assert_eq!(it.ends().len(), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_are_answered_in_order() {
    talk(async |it| {
        it.send("GET /early HTTP/1.1\r\nHost: a\r\n\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        let all = answers(&it.rest().await, false);
        let short: Vec<_> = all.iter().map(|(status, _, body)| (*status, body.as_str())).collect();
        assert_eq!(short, [(103, ""), (200, "hinted"), (200, "abc"), (200, "hello")]);
        assert!(all[3].1.contains("\r\nconnection: close"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_answer_is_framed_as_its_request_and_status_ask() {
    type Case = (&'static str, &'static str, &'static [&'static str], &'static [&'static str], &'static str);
    let table: &[Case] = &[
        ("GET /hello", "1.1", &["content-length: 5", "date: "], &["transfer-encoding", "connection"], "hello"),
        ("HEAD /hello", "1.1", &["content-length: 5"], &["transfer-encoding"], ""),
        ("HEAD /far", "1.1", &["content-length: 1234"], &[], ""),
        ("HEAD /trailers", "1.1", &[], &["content-length", "transfer-encoding"], ""),
        ("GET /204", "1.1", &[], &["content-length", "transfer-encoding"], ""),
        ("GET /304", "1.1", &["content-length: 77"], &["transfer-encoding"], ""),
        ("GET /sized", "1.1", &["content-length: 5"], &["transfer-encoding"], "abcde"),
        ("GET /trailers", "1.1", &["transfer-encoding: chunked"], &["content-length", "trailer: "], "5\r\nabcde"),
        ("GET /trailers", "1.0", &["connection: close"], &["content-length", "transfer-encoding"], "abcde"),
        ("GET /hello", "1.0", &["connection: close"], &["keep-alive"], "hello"),
        ("GET /closing", "1.1", &["connection: close"], &[], "bye"),
        (
            "GET /own-head",
            "1.1",
            &["date: then", "x-b: 1", "set-cookie: a\r\nset-cookie: b"],
            &["transfer-encoding", "keep-alive", "gmt"],
            "x",
        ),
        ("POST /hello", "1.1", &["content-length: 5"], &[], "hello"),
    ];
    for (line, version, present, absent, body) in table {
        talk(async |it| {
            it.send(format!("{line} HTTP/{version}\r\nHost: a\r\n\r\n")).await;
            let wire = it.rest().await;
            let (head, _) = wire.split_once("\r\n\r\n").unwrap();
            let head = head.to_lowercase();
            for text in *present {
                assert!(head.contains(text), "{line}: no {text:?} in {head:?}");
            }
            for text in *absent {
                assert!(!head.contains(text), "{line}: {text:?} in {head:?}");
            }
            let got = answers(&wire, line.starts_with("HEAD"));
            assert_eq!(got[0].2, body.trim_start_matches("5\r\n"), "{line}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn http_10_is_kept_only_when_asked() {
    talk(async |it| {
        it.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
        assert!(it.until("hello").await.contains("\r\nconnection: keep-alive\r\n"));
        it.send("GET /trailers HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
        let last = it.rest().await;
        assert!(last.contains("\r\nconnection: close\r\n") && last.ends_with("\r\n\r\nabcde"), "{last}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn trailers_go_to_those_who_take_them() {
    talk(async |it| {
        it.send("GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n").await;
        let wire = it.until("x-sum: 7\r\n\r\n").await;
        assert!(wire.contains("\r\ntrailer: x-sum\r\n") && wire.ends_with("3\r\nabc\r\n2\r\nde\r\n0\r\nx-sum: 7\r\n\r\n"), "{wire}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_its_head_or_breaks_off_never_looks_whole() {
    for (path, version, outcome, reset) in [
        ("/short", "1.1", Outcome::Misframed, true),
        ("/long", "1.1", Outcome::Misframed, true),
        ("/lie", "1.1", Outcome::Misframed, true),
        // The missing last chunk tells; only what ends with the connection needs a reset to tell.
        ("/broken", "1.1", Outcome::BodyBroke, false),
        ("/broken", "1.0", Outcome::BodyBroke, true),
        ("/100", "1.1", Outcome::Misframed, true),
    ] {
        talk(async |it| {
            it.send(format!("GET {path} HTTP/{version}\r\nHost: a\r\n\r\n")).await;
            let wire = it.rest().await;
            assert!(!wire.ends_with("0\r\n\r\n") && !wire.contains("\r\n\r\nabc\r\n"), "{path}: {wire}");
            assert_eq!(it.ends()[0].1, outcome, "{path}");
            assert_eq!((&mut it.server).await.unwrap(), reset, "{path} over HTTP/{version}: a reset");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn early_hints_come_before_the_answer_and_never_after() {
    talk(async |it| {
        it.send("GET /early HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let before = Instant::now();
        let hints = it.until("\r\n\r\n").await;
        assert_eq!(hints, "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n");
        assert!(before.elapsed() < Duration::from_millis(10));
        assert!(it.until("hinted").await.starts_with("HTTP/1.1 200 OK\r\n"));
        // A handle that outlived its exchange sends nothing into the next.
        let stale = it.paths.early.borrow_mut().take().unwrap();
        assert!(!stale.send(StatusCode::EARLY_HINTS, &HeaderMap::new()));
        it.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
        it.settle().await;
        assert!(!stale.send(StatusCode::EARLY_HINTS, &HeaderMap::new()));
    })
    .await;
    talk(async |it| {
        it.send("GET /early HTTP/1.0\r\n\r\n").await;
        assert!(it.rest().await.ends_with("plain"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_500_and_ends_one_connection_only() {
    talk(async |it| {
        it.send("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let all = answers(&it.rest().await, false);
        assert_eq!((all.len(), all[0].0), (1, 500));
        assert!(all[0].1.contains("connection: close"));
        assert_eq!(it.ends()[0].1, Outcome::Panicked);
        assert!(!(&mut it.server).await.unwrap());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_is_told() {
    talk(async |it| {
        it.send("GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert_eq!(answers(&it.rest().await, false)[0].2.len(), 1 << 20);
        assert_eq!(it.ends(), [("GET /big".to_string(), Outcome::Complete, 1 << 20)]);
        it.settle().await;
        assert!((&mut it.server).await.is_ok());
        let counted = it.counters.bytes_out.load(std::sync::atomic::Ordering::Relaxed);
        assert!(counted > 1 << 20 && counted < (1 << 20) + 300, "{counted}");
    })
    .await;
}
