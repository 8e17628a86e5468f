//! Bodies on their way: pieces, pressure, and 100-continue.
use super::*;

#[tokio::test(start_paused = true)]
async fn a_request_body_arrives_whole_however_it_is_sent() {
    let large = "z".repeat(300_000);
    for path in ["/echo", "/read", "/read-elsewhere"] {
        for cut in [1usize, 7, 100_000] {
            let body = if cut == 1 { &large[..500] } else { &large[..] };
            for chunked in [false, true] {
                talk(async |it| {
                    let wire = if chunked {
                        let chunks: String = body
                            .as_bytes()
                            .chunks(70_000)
                            .map(|it| format!("{:x}\r\n{}\r\n", it.len(), str::from_utf8(it).unwrap()))
                            .collect();
                        format!(
                            "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
                        )
                    } else {
                        format!("POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                    };
                    let (mut from, mut to) = tokio::io::split(std::mem::replace(&mut it.io, duplex(1).0));
                    let writing = async {
                        for piece in wire.as_bytes().chunks(cut) {
                            to.write_all(piece).await.unwrap();
                        }
                    };
                    let mut got = String::new();
                    let (_, read) = tokio::join!(writing, from.read_to_string(&mut got));
                    read.unwrap();
                    let all = answers(&got, false);
                    assert!(all[0].0 == 200 && all[0].2 == body, "{path} by {cut}, chunked {chunked}: {}", all[0].1);
                })
                .await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_leaves_as_soon_as_it_is_there() {
    talk(async |it| {
        it.send("GET /pipe HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(it.until("\r\n\r\n").await.contains("transfer-encoding: chunked"));
        let feed = it.paths.feed.borrow_mut().take().unwrap();
        for event in ["data: 1\n\n", "data: 22\n\n"] {
            feed.send(data(event)).unwrap();
            let before = Instant::now();
            assert_eq!(it.until(event).await.trim_end_matches("\r\n"), format!("{:x}\r\n{event}", event.len()));
            assert_eq!(before.elapsed(), Duration::ZERO);
            it.settle().await;
            it.got.clear();
        }
        drop(feed);
        assert!(it.until("0\r\n\r\n").await.ends_with("0\r\n\r\n"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_bounds_what_is_asked_of_the_body() {
    talk_with(Limits::default(), 1000, async |it| {
        let (tell, mut asked) = unbounded_channel();
        *it.paths.feed.borrow_mut() = Some(tell);
        it.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").await;
        it.settle().await;
        assert!(asked.len() <= 3, "{} frames for a client that read nothing", asked.len());
        let mut buf = [0; 50_000];
        it.io.read_exact(&mut buf).await.unwrap();
        assert!((4..=8).contains(&asked.len()), "{}", asked.len());
        asked.close();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_reads_is_left_with_the_client() {
    talk_with(Limits::default(), 1000, async |it| {
        it.send("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").await;
        let mut sent = 0;
        while timeout(Duration::from_millis(5), it.io.write_all(&[b'x'; 1000])).await.is_ok() {
            sent += 1000;
        }
        assert!(sent < 30_000, "{sent}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_client_is_asked_to_continue_only_when_somebody_reads() {
    talk(async |it| {
        it.send("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n").await;
        assert_eq!(it.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        it.send("hi").await;
        assert!(it.until("hi").await.starts_with("HTTP/1.1 200 OK"));
        // The connection goes on: the body was taken.
        it.send("POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n").await;
        let last = it.rest().await;
        assert!(last.starts_with("HTTP/1.1 200 OK") && last.contains("\r\nconnection: close\r\n"), "{last}");
    })
    .await;
    talk(async |it| {
        it.send("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nhi").await;
        assert!(it.until("hi").await.starts_with("HTTP/1.1 200 OK"), "a body that is there needs no invitation");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_small_rest_of_a_body_is_passed_over_and_a_large_one_ends_the_connection() {
    let second = "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let rest = "x".repeat(5000);
    for (wire, statuses) in [
        (format!("POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n{rest}{second}"), 2),
        (format!("POST /ignore HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n{rest}\r\n0\r\n\r\n{second}"), 2),
        (format!("POST /hold HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n{rest}\r\n0\r\n\r\n{second}"), 2),
        (format!("POST /ignore HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n{rest}0\r\n\r\n{second}"), 1),
        (format!("POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{rest}{second}"), 1),
        (format!("POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n{rest}"), 1),
    ] {
        talk(async |it| {
            it.send(&wire).await;
            let before = Instant::now();
            let got = answers(&it.rest().await, false);
            assert_eq!(got.len(), statuses, "{}", &wire[..80]);
            assert!(before.elapsed() < Duration::from_secs(5));
            let held = it.paths.held.take();
            if let Some(mut held) = held {
                assert!(held.bytes(usize::MAX).await.is_err(), "an exchange that is over gives no bytes of the next");
            }
        })
        .await;
    }
}
