//! Connections that leave HTTP.
use super::*;

const UPGRADE: &str = "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn a_tunnel_carries_raw_bytes_both_ways_from_the_first() {
    talk(async |it| {
        it.send(format!("{UPGRADE}GET \n\0raw")).await;
        let wire = it.until("raw").await;
        assert_eq!(wire, "HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\nGET \n\0raw");
        for size in [1, 20_000] {
            let text = "w".repeat(size);
            it.send(&text).await;
            let mut back = vec![0; size];
            it.io.read_exact(&mut back).await.unwrap();
            assert_eq!(back, text.as_bytes());
            sleep(Duration::from_secs(200)).await;
        }
        it.send("last").await;
        it.io.shutdown().await.unwrap();
        assert_eq!(it.rest().await, "last");
        assert_eq!(it.ends(), [("GET /tunnel".to_string(), Outcome::Complete, 20_014)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_where_nothing_passes_is_closed() {
    talk(async |it| {
        it.send(UPGRADE).await;
        it.until("\r\n\r\n").await;
        let before = Instant::now();
        assert_eq!(it.rest().await, "");
        assert_eq!((before.elapsed().as_secs(), it.ends()[0].1), (300, Outcome::TunnelIdle));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_offer_without_its_parts_is_no_offer() {
    for head in [
        "GET /tunnel HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\n\r\n",
        "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n",
        "GET /tunnel HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n",
        "POST /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\nContent-Length: 1\r\n\r\nx",
    ] {
        talk(async |it| {
            it.send(head).await;
            assert!(it.until("no upgrade offered").await.starts_with("HTTP/1.1 200"));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_offer_that_is_not_taken_changes_nothing() {
    talk(async |it| {
        let offer = UPGRADE.replace("/tunnel", "/hello");
        it.send(offer.repeat(2)).await;
        it.until("hello").await;
        it.send("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        it.rest().await;
        assert_eq!(it.ends().len(), 3);
    })
    .await;
}
