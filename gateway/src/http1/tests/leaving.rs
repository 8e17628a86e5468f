//! Who leaves first: clients in the middle, and the gateway when it drains.
use super::*;

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_takes_the_handlers_work_with_it() {
    for half in [true, false] {
        talk(async |it| {
            it.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
            it.settle().await;
            // The next request is no leaving.
            it.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").await;
            sleep(Duration::from_secs(100)).await;
            assert_eq!(*it.paths.dropped.borrow(), 0);
            if half {
                it.io.shutdown().await.unwrap()
            } else {
                it.io = duplex(1).0
            }
            it.settle().await;
            assert_eq!(*it.paths.dropped.borrow(), 1);
            assert_eq!(it.ends(), [("GET /wait".to_string(), Outcome::ClientLeft, 0)]);
            let told = it.paths.ends.borrow()[0].1;
            assert_eq!((told.status, told.took.as_secs()), (None, 100));
            assert!((&mut it.server).await.is_ok());
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_stream_ends_its_body() {
    talk(async |it| {
        it.send("GET /pipe HTTP/1.1\r\nHost: a\r\n\r\n").await;
        it.until("\r\n\r\n").await;
        let feed = it.paths.feed.borrow_mut().take().unwrap();
        feed.send(data("12345")).unwrap();
        it.until("12345").await;
        it.io.shutdown().await.unwrap();
        feed.closed().await;
        assert_eq!(it.ends(), [("GET /pipe".to_string(), Outcome::ClientLeft, 5)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_closes_idle_connections_at_once_and_busy_ones_after_their_answer() {
    talk(async |it| {
        it.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").await;
        it.until("hello").await;
        it.settle().await;
        let before = Instant::now();
        it.drain.begin();
        assert_eq!(it.rest().await, "");
        it.drain.emptied().await;
        assert_eq!((before.elapsed(), it.drain.open()), (Duration::ZERO, 0));
    })
    .await;
    talk(async |it| {
        it.send("GET /early HTTP/1.1\r\nHost: a\r\n\r\n").await;
        it.settle().await;
        it.drain.begin();
        let all = answers(&it.rest().await, false);
        assert!(all[1].2 == "hinted" && all[1].1.contains("connection: close"));
    })
    .await;
    talk(async |it| {
        // Accepted just before: its request is on the way, and is still answered.
        it.drain.begin();
        sleep(Duration::from_millis(500)).await;
        it.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(it.rest().await.contains("connection: close"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_last_answer_waits_for_the_client_before_the_connection_goes() {
    talk(async |it| {
        it.send("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n").await;
        it.send(vec![b'x'; 50_000]).await;
        let all = answers(&it.rest().await, false);
        assert_eq!(all[0].0, 413);
        assert!(all[0].1.contains("connection: close"));
        assert!(it.paths.seen.borrow().is_empty());
        // Our side is closed; theirs is still read, so that no reset destroys the answer.
        it.send(vec![b'x'; 50_000]).await;
        it.settle().await;
        assert!(!it.server.is_finished());
        it.io.shutdown().await.unwrap();
        it.settle().await;
        assert!(it.server.is_finished());
    })
    .await;
}

#[tokio::test]
async fn a_reset_on_a_real_socket_ends_the_handlers_work() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let paths = Paths::default();
    let (limits, counters, drain) = (Limits::default(), Counters::default(), Drain::new());
    let serving = serve(server, BytesMut::new(), &limits, &counters, &paths, &drain);
    let script = async {
        for _ in 0..3 {
            client.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            let mut buf = [0; 4096];
            let size = client.read(&mut buf).await.unwrap();
            assert!(buf[..size].ends_with(b"hello"), "head and body come together");
        }
        client.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        while paths.seen.borrow().len() < 4 {
            yield_now().await;
        }
        client.set_zero_linger().unwrap();
        drop(client);
    };
    timeout(Duration::from_secs(10), async { tokio::join!(serving, script) }).await.unwrap();
    assert_eq!((*paths.dropped.borrow(), drain.open()), (1, 0));
    assert_eq!(paths.ends.borrow()[3].1.outcome, Outcome::ClientLeft);
}
