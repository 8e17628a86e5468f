//! What a connection may cost.
use super::*;

fn statuses(wire: &str) -> Vec<u16> {
    answers(wire, false).iter().map(|it| it.0).collect()
}

#[tokio::test(start_paused = true)]
async fn a_head_has_ten_seconds_from_its_first_byte() {
    talk(async |it| {
        it.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").await;
        it.until("hello").await;
        sleep(Duration::from_secs(30)).await;
        let before = Instant::now();
        let trickle = async |it: &mut Talk| {
            for byte in "GET /hello HTTP/1.1\r\n".bytes().chain(std::iter::repeat(b'x')) {
                if it.io.write_all(&[byte]).await.is_err() || it.server.is_finished() {
                    return;
                }
                sleep(Duration::from_millis(900)).await;
            }
        };
        let _ = timeout(Duration::from_secs(11), trickle(it)).await;
        assert_eq!(statuses(&it.rest().await), [408]);
        assert!(before.elapsed() < Duration::from_secs(15), "{:?}", before.elapsed());
        assert_eq!(it.paths.refused.borrow()[..], ["header_timeout"]);
    })
    .await;
    talk(async |it| {
        let before = Instant::now();
        assert_eq!(it.rest().await, "", "whoever says nothing is told nothing");
        assert_eq!(before.elapsed().as_secs(), 10);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_after_so_many_requests_and_so_much_time() {
    talk_with(Limits { requests: 3, ..Limits::default() }, 4096, async |it| {
        it.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5)).await;
        let all = answers(&it.rest().await, false);
        assert_eq!(all.iter().map(|it| it.1.contains("connection: close")).collect::<Vec<_>>(), [false, false, true]);
    })
    .await;
    talk(async |it| {
        for last in [false, true] {
            it.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!(it.until("hello").await.contains("connection: close"), last);
            for _ in 0..if last { 0 } else { 70 } {
                sleep(Duration::from_secs(50)).await;
                it.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").await;
                it.until("hello").await;
            }
            sleep(Duration::from_secs(if last { 0 } else { 59 })).await;
            if !last {
                it.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").await;
                it.until("hello").await;
                sleep(Duration::from_secs(45)).await;
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_or_crawls_is_given_up() {
    // Each gives the pause between pieces, their size, and when the body is given up.
    for (pause, size, from, to) in [(100, 20_000, 30, 31), (5, 10, 10, 16), (5, 2000, 300, 306)] {
        talk(async |it| {
            let before = Instant::now();
            it.send("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n").await;
            let trickle = async |it: &mut Talk| {
                loop {
                    it.io.write_all(&vec![b'x'; size]).await.unwrap();
                    sleep(Duration::from_secs(pause)).await;
                    if !it.paths.ends.borrow().is_empty() {
                        return;
                    }
                }
            };
            let _ = timeout(Duration::from_secs(400), trickle(it)).await;
            let took = it.paths.ends.borrow()[0].1.took.as_secs();
            assert!((from..to).contains(&took), "{pause} {size}: {took}");
            assert!(before.elapsed() > Duration::from_secs(1));
            let all = answers(&it.rest().await, false);
            assert!(all[0].0 == 408 && all[0].1.contains("connection: close"));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_nobody_reads_is_not_timed() {
    talk(async |it| {
        it.send("POST /pipe HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n").await;
        it.until("\r\n\r\n").await;
        sleep(Duration::from_secs(1000)).await;
        assert!(it.ends().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn chunks_beyond_the_largest_body_are_413() {
    let limits = Limits { body: 10, ..Limits::default() };
    for (chunks, status) in [("5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", 200), ("5\r\nhello\r\n6\r\nworld!\r\n0\r\n\r\n", 413)] {
        talk_with(limits.clone(), 4096, async |it| {
            it.send(format!("POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")).await;
            let all = answers(&it.rest().await, false);
            assert_eq!((all[0].0, all[0].1.contains("connection: close")), (status, status == 413));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_cut_off() {
    talk_with(Limits::default(), 1000, async |it| {
        it.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n").await;
        sleep(Duration::from_secs(20)).await;
        let mut some = [0; 1500];
        it.io.read_exact(&mut some).await.unwrap();
        sleep(Duration::from_secs(29)).await;
        assert!(it.ends().is_empty(), "it took something 29 s ago");
        sleep(Duration::from_secs(2)).await;
        let ends = it.ends();
        assert_eq!(ends[0].1, Outcome::WriteStalled);
        assert!(ends[0].2 > 1500 && ends[0].2 < 3000, "{ends:?}");
        assert!((&mut it.server).await.unwrap());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn heads_are_held_to_their_sizes() {
    let line = |size: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(size - 15));
    let one = |size: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n", "y".repeat(size - 3));
    let many = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(count - 1));
    let total = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", format!("x: {}\r\n", "y".repeat(4000)).repeat(count));
    for (wire, status) in [
        (line(8100), 200),
        (line(8193), 414),
        ("G".repeat(8194), 414),
        (one(8100), 200),
        (one(8193), 431),
        (many(100), 200),
        (many(101), 431),
        (total(8), 200),
        (total(9), 431),
    ] {
        for cut in [1usize, 4096] {
            talk(async |it| {
                for piece in wire.as_bytes().chunks(cut) {
                    if it.io.write_all(piece).await.is_err() {
                        break;
                    }
                }
                assert_eq!(statuses(&it.rest().await), [status], "{} by {cut}", &wire[..20]);
            })
            .await;
        }
    }
}
