//! The store with a real Redis that is killed, frozen, started again, read-only, or never there.
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use contract::{
    meter::{Counter, Gauge},
    store::{Store, StoreError},
};
use gateway::store::{Figures, PATIENCE as SHORT, Redis as Link};
use tests::{message::PATIENCE, redis::Redis};
use tokio::{runtime::Handle, time::sleep};

/// A store, what it reports, and what was said of it.
struct Rig {
    link: Link,
    up: Gauge,
    said: Arc<Mutex<Vec<Option<String>>>>,
}

impl Rig {
    /// With much patience: a busy machine is no reason to fail.
    fn new(url: &str, password: Option<&str>, node: &str) -> Self {
        Self::patient(url, password, node, PATIENCE)
    }

    fn patient(url: &str, password: Option<&str>, node: &str, patience: Duration) -> Self {
        let (up, said) = (Gauge::default(), Arc::<Mutex<Vec<Option<String>>>>::default());
        let heard = said.clone();
        let tell = Box::new(move |why: Option<&str>| heard.lock().unwrap().push(why.map(str::to_owned)));
        let figures = Figures { up: up.clone(), errors: Counter::default(), tell };
        Self { link: Link::new(url, password, node, patience, figures, &Handle::current()).expect("a URL"), up, said }
    }

    async fn until_up(&self) {
        until("it is up", async || self.link.is_up()).await;
    }

    /// Takes from a bucket of this rate a second and this burst.
    async fn take(&self, key: &str, rate: u32, burst: u32, cost: i32) -> Result<Vec<i64>, StoreError> {
        let arguments = [rate.to_string(), "1000000".into(), burst.to_string(), cost.to_string()].map(Bytes::from);
        self.link.script("token_bucket", &[Bytes::copy_from_slice(key.as_bytes())], &arguments).await
    }

    fn said(&self) -> Vec<Option<String>> {
        self.said.lock().unwrap().clone()
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_admits_its_burst_and_its_rate_for_all_who_share_it() {
    let redis = Redis::start().await;
    let rigs: Vec<Rig> = ["a", "b"].map(|node| Rig::new(&redis.url(), None, node)).into();
    for it in &rigs {
        it.until_up().await;
    }
    let before = Instant::now();
    let mut admitted = rigs[0].take("k", 100, 100, 1).await.expect("an answer")[0];
    let (begun, mut last) = (Instant::now(), Duration::ZERO);
    while last < Duration::from_secs(1) {
        last = begun.elapsed();
        for it in &rigs {
            admitted += it.take("k", 100, 100, 1).await.expect("an answer")[0];
        }
    }
    // All whole tokens that came until the last call began, and none that did not come until it ended.
    let (least, most) = (100.0 + last.as_secs_f64() * 100.0 - 2.0, 100.0 + before.elapsed().as_secs_f64() * 100.0);
    assert!((least..=most).contains(&(admitted as f64)), "{admitted} is not from {least} to {most}");
    until("both are counted", async || rigs.iter().all(|it| it.link.nodes() == 2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_takes_nothing_and_what_is_given_back_is_there_again() {
    let redis = Redis::start().await;
    let it = Rig::new(&redis.url(), None, "a");
    it.until_up().await;
    // One token in 1000 s: nothing comes back while the test runs.
    let ask = async |cost| {
        let arguments = ["1", "1000000000", "5", cost].map(Bytes::from);
        it.link.script("token_bucket", &[Bytes::from_static(b"k")], &arguments).await.expect("an answer")
    };
    assert_eq!(ask("4").await[..2], [1, 1]);
    let refused = ask("2").await;
    assert_eq!(refused[..2], [0, 1]);
    assert!((900_000_000..1_000_000_001).contains(&refused[2]), "{refused:?}");
    assert_eq!(ask("6").await, [0, 1, -1], "never");
    assert_eq!(ask("-3").await[..2], [1, 4]);
    assert_eq!(ask("-30").await[..2], [1, 5], "never more than the burst");
    assert!(matches!(redis.ask(&["TTL", "k"]).await, redis::Value::Int(it) if it > 0), "it is forgotten some day");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_killed_fails_at_once_and_is_used_again_when_it_is_back() {
    let mut redis = Redis::start().await;
    let it = Rig::new(&redis.url(), None, "a");
    it.until_up().await;
    redis.kill();
    until("it is down", async || !it.link.is_up()).await;
    let begun = Instant::now();
    for _ in 0..1000 {
        assert_eq!(it.take("k", 1, 1, 1).await, Err(StoreError::Down));
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "nobody waits: {:?}", begun.elapsed());
    assert_eq!(it.up.get(), 0);
    redis.again().await;
    it.until_up().await;
    assert!(it.take("k", 1, 1, 1).await.is_ok());
    let said = it.said();
    assert!(matches!(&said[..], [Some(_), None]), "one line when it goes, one when it comes: {said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_long_for_a_store_that_is_frozen() {
    let redis = Redis::start().await;
    let it = Rig::patient(&redis.url(), None, "a", SHORT);
    it.until_up().await;
    redis.freeze();
    let begun = Instant::now();
    let first = it.take("k", 1, 1, 1).await;
    assert!(matches!(first, Err(StoreError::Timeout | StoreError::Down)), "{first:?}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    until("it is noticed", async || !it.link.is_up()).await;
    assert_eq!(it.take("k", 1, 1, 1).await, Err(StoreError::Down));
    assert_eq!(it.said().last(), Some(&Some("it does not answer in time".to_owned())));
    redis.thaw();
    it.until_up().await;
    until("it answers", async || it.take("k", 1, 1, 1).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_only_reads_counts_as_down() {
    let redis = Redis::start().await;
    let it = Rig::new(&redis.url(), None, "a");
    it.until_up().await;
    redis.ask(&["REPLICAOF", "127.0.0.1", "1"]).await;
    until("it is noticed", async || !it.link.is_up()).await;
    assert_eq!(it.said(), [Some("it answers READONLY".to_owned())]);
    redis.ask(&["REPLICAOF", "NO", "ONE"]).await;
    it.until_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let redis = Redis::start().await;
    let it = Rig::new(&redis.url(), None, "a");
    it.until_up().await;
    assert!(it.take("k", 1, 1, 1).await.is_ok());
    redis.ask(&["FLUSHALL"]).await;
    redis.ask(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(it.take("k", 1, 1, 1).await.map(|it| it[0]), Ok(1));
    assert!(it.link.is_up() && it.said().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_one_call_is_no_fault_of_the_store() {
    let redis = Redis::start().await;
    let it = Rig::new(&redis.url(), None, "a");
    it.until_up().await;
    redis.ask(&["SET", "k", "text"]).await;
    assert_eq!(it.take("k", 1, 1, 1).await, Err(StoreError::Refused));
    assert!(it.link.is_up());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_kept_for_their_time() {
    let redis = Redis::start().await;
    let it = Rig::new(&redis.url(), None, "a");
    it.until_up().await;
    let value = Bytes::from_static(b"\x00\xff value");
    it.link.set(b"a", value.clone(), Duration::from_secs(60)).await.expect("it is set");
    assert_eq!(it.link.get(b"a").await, Ok(Some(value)));
    assert_eq!(it.link.delete(&[Bytes::from_static(b"a"), Bytes::from_static(b"b")]).await, Ok(1));
    assert_eq!(it.link.get(b"a").await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_waits_for_a_store_at_the_start() {
    let address = tests::backend::Backend::nobody().await;
    let begun = Instant::now();
    let it = Rig::new(&format!("redis://{address}"), None, "a");
    assert_eq!(it.take("k", 1, 1, 1).await, Err(StoreError::Down));
    assert!(begun.elapsed() < Duration::from_secs(1));
    until("it is said", async || !it.said().is_empty()).await;
    assert_eq!(it.said(), [Some("nobody listens there".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_given_and_never_told() {
    let redis = Redis::with(Some("s3cret")).await;
    Rig::new(&redis.url(), Some("s3cret"), "a").until_up().await;
    let wrong = Rig::new(&redis.url(), Some("wr0ng"), "a");
    until("it is said", async || !wrong.said().is_empty()).await;
    assert!(!wrong.link.is_up());
    assert!(!format!("{:?}", wrong.said()).contains("wr0ng"));
    for bad in ["http://x:wr0ng@y", "redis://", "rediss://:wr0ng@127.0.0.1:1"] {
        let figures = Figures { up: Gauge::default(), errors: Counter::default(), tell: Box::new(|_| ()) };
        if let Err(why) = Link::new(bad, None, "a", SHORT, figures, &Handle::current()) {
            assert!(!why.contains("wr0ng"), "{why}");
        }
    }
}
