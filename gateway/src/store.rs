//! Talks to Redis, and knows at each moment whether it answers.
use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use contract::{
    meter::{Counter, Gauge},
    store::{Store, StoreError, StoreFuture},
};
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError, Script, aio::MultiplexedConnection,
    io::tcp::TcpSettings,
};
use tokio::{
    runtime::Handle,
    sync::Notify,
    task::AbortHandle,
    time::{sleep, timeout},
};

/// No call takes longer, nor does a look whether it answers.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// A connection stands and is greeted within this time.
const CONNECT: Duration = Duration::from_millis(200);
/// How often it is looked at while it answers: a store that freezes is noticed within two of these, whoever asks it.
const BEAT: Duration = Duration::from_millis(50);
/// How long between two looks while it does not.
const PAUSE: Duration = Duration::from_millis(500);
/// It answers again when it did so many times in a row.
const GOOD: u32 = 2;
/// Gateways are counted once in so many beats, and are gone after so many microseconds.
const COUNTED: u32 = 20;
const GONE: &[u8] = b"4000000";

/// A Redis by itself, without Sentinel, Cluster or TLS.
///
/// It is never waited for at the start. A task of the background runtime holds the connection, looks at it with the script
/// that limits use (a replica that only reads, or a server that still loads, answers `PING` well), and takes it away from
/// callers as soon as it fails: then every call fails at once, until it has answered again.
pub struct Redis {
    inner: Arc<Inner>,
    keeper: AbortHandle,
}

/// Somebody who is told in words why a store is not used, or that it is used again.
pub type Tell = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// Who is told of a store.
pub struct Figures {
    /// 1 while it answers.
    pub up: Gauge,
    /// Calls that it did not answer, or badly.
    pub errors: Counter,
    /// Hears once when it stops answering, with the reason, and once when it answers again.
    pub tell: Tell,
}

struct Inner {
    link: ArcSwapOption<MultiplexedConnection>,
    scripts: HashMap<&'static str, Script>,
    figures: Figures,
    patience: Duration,
    node: Box<str>,
    /// Gateways that were there when it answered last.
    nodes: AtomicU32,
    /// Some call had no answer: it is looked at once more.
    doubt: Notify,
}

/// Why it is not used: in words without an address or a password.
enum Why {
    NoAnswer,
    Error(RedisError),
}

// === impl Redis ===

impl Redis {
    /// One at `url` (`redis://host:port/database`), whose password may stand apart; `node` is this gateway's name, and `patience` mostly [`PATIENCE`]. Connects in
    /// the background. The error is one sentence, without the URL, in which there may be a password.
    pub fn new(
        url: &str,
        password: Option<&str>,
        node: &str,
        patience: Duration,
        figures: Figures,
        background: &Handle,
    ) -> Result<Self, String> {
        let info = url.into_connection_info().map_err(|_| "this is no URL of a Redis, such as redis://127.0.0.1:6379".to_owned())?;
        let mut settings = info.redis_settings().clone();
        if let Some(it) = password {
            settings = settings.set_password(it);
        }
        let info = info.set_redis_settings(settings).set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(info).map_err(|_| "this kind of Redis URL is not built into this gateway".to_owned())?;
        let inner = Arc::new(Inner {
            link: ArcSwapOption::empty(),
            scripts: lua::redis::ALL.iter().map(|(name, text)| (*name, Script::new(text))).collect(),
            figures,
            patience,
            node: node.into(),
            nodes: AtomicU32::new(1),
            doubt: Notify::new(),
        });
        let keeper = background.spawn(keep(Arc::downgrade(&inner), client, patience)).abort_handle();
        Ok(Self { inner, keeper })
    }

    async fn ask<T>(&self, call: impl AsyncFnOnce(&mut MultiplexedConnection) -> Result<T, RedisError>) -> Result<T, StoreError> {
        let Some(link) = self.inner.link.load_full() else { return Err(StoreError::Down) };
        let mut link = (*link).clone();
        match timeout(self.inner.patience, call(&mut link)).await {
            Ok(Ok(it)) => Ok(it),
            Err(_) => {
                self.inner.figures.errors.add(1);
                self.inner.doubt.notify_one();
                Err(StoreError::Timeout)
            }
            Ok(Err(error)) => {
                self.inner.figures.errors.add(1);
                if is_of_the_call(&error) {
                    return Err(StoreError::Refused);
                }
                self.inner.down(&Why::Error(error));
                self.inner.doubt.notify_one();
                Err(StoreError::Down)
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Store for Redis {
    fn script<'a>(&'a self, name: &'static str, keys: &'a [Bytes], arguments: &'a [Bytes]) -> StoreFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let Some(script) = self.inner.scripts.get(name) else { return Err(StoreError::Refused) };
            self.ask(async |link| run(script, keys, arguments, link).await).await
        })
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> StoreFuture<'a, Option<Bytes>> {
        Box::pin(self.ask(async move |link| {
            let found: Option<Vec<u8>> = redis::cmd("GET").arg(key).query_async(link).await?;
            Ok(found.map(Bytes::from))
        }))
    }

    fn set<'a>(&'a self, key: &'a [u8], value: Bytes, ttl: Duration) -> StoreFuture<'a, ()> {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        Box::pin(self.ask(async move |link| redis::cmd("SET").arg(key).arg(&value[..]).arg("PX").arg(millis).query_async(link).await))
    }

    fn delete<'a>(&'a self, keys: &'a [Bytes]) -> StoreFuture<'a, u64> {
        Box::pin(self.ask(async move |link| {
            if keys.is_empty() {
                return Ok(0);
            }
            let mut command = redis::cmd("DEL");
            keys.iter().for_each(|it| _ = command.arg(&it[..]));
            command.query_async(link).await
        }))
    }

    fn is_up(&self) -> bool {
        self.inner.link.load().is_some()
    }

    fn nodes(&self) -> u32 {
        self.inner.nodes.load(Relaxed).max(1)
    }
}

/// Known by its digest; sent once where the server does not know it.
async fn run<T: FromRedisValue>(
    script: &Script,
    keys: &[impl AsRef<[u8]>],
    arguments: &[impl AsRef<[u8]>],
    link: &mut MultiplexedConnection,
) -> Result<T, RedisError> {
    let mut call = script.prepare_invoke();
    keys.iter().for_each(|it| _ = call.key(it.as_ref()));
    arguments.iter().for_each(|it| _ = call.arg(it.as_ref()));
    call.invoke_async(link).await
}

/// An error that says nothing of the server: another call may be answered well.
fn is_of_the_call(it: &RedisError) -> bool {
    let sick =
        ["READONLY", "LOADING", "OOM", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "MISCONF", "NOAUTH", "NOPERM", "WRONGPASS", "NOREPLICAS"];
    it.code().is_some_and(|code| !sick.contains(&code)) && !it.is_io_error()
}

// === the keeper ===

async fn keep(store: Weak<Inner>, client: Client, patience: Duration) {
    let mut begun = false;
    loop {
        match greeted(&client, patience).await {
            Ok(link) => {
                let Some(why) = watch(&store, link, &mut begun).await else { return };
                let Some(it) = store.upgrade() else { return };
                it.down(&why);
            }
            Err(why) => {
                let Some(it) = store.upgrade() else { return };
                // Said once at the start, too, where nobody was there.
                if !std::mem::replace(&mut begun, true) {
                    it.figures.up.set(0);
                    (it.figures.tell)(Some(&why.to_string()));
                }
            }
        }
        // Not all gateways at once.
        sleep(PAUSE.mul_f64(0.8 + chance() * 0.4)).await;
    }
}

/// Looks at it until it fails, and says why; `None` where nobody has the store any more.
async fn watch(store: &Weak<Inner>, mut link: MultiplexedConnection, begun: &mut bool) -> Option<Why> {
    let (mut well, mut beats) = (0, 0u32);
    loop {
        let it = store.upgrade()?;
        if let Err(why) = within(it.patience, it.look(&mut link)).await {
            return Some(why);
        }
        if beats % COUNTED == 0 {
            match within(it.patience, it.count(&mut link)).await {
                Ok(nodes) => it.nodes.store(nodes, Relaxed),
                Err(why) => return Some(why),
            }
        }
        beats = beats.wrapping_add(1);
        if it.link.load().is_none() {
            // It was taken away, or was not there yet.
            well += 1;
            if well >= GOOD || !*begun {
                well = 0;
                it.up(&link, std::mem::replace(begun, true));
            }
        }
        let doubt = it.doubt.notified();
        tokio::select! {
            () = sleep(BEAT) => (),
            () = doubt => (),
        }
    }
}

async fn greeted(client: &Client, patience: Duration) -> Result<MultiplexedConnection, Why> {
    // Every call has its own time here; the library's own would only add to it.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    within(CONNECT.max(patience), client.get_multiplexed_async_connection_with_config(&config)).await
}

async fn within<T>(time: Duration, call: impl Future<Output = Result<T, RedisError>>) -> Result<T, Why> {
    match timeout(time, call).await {
        Ok(it) => it.map_err(Why::Error),
        Err(_) => Err(Why::NoAnswer),
    }
}

/// From 0 up to 1, for pauses.
fn chance() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}

// === impl Inner ===

impl Inner {
    /// A look with the real script: it writes, so it fails where limits would.
    async fn look(&self, link: &mut MultiplexedConnection) -> Result<(), RedisError> {
        let key = format!("allium:look:{}", self.node);
        let answer: Vec<i64> = run(&self.scripts["token_bucket"], &[key], &["1", "1000000", "1", "0"], link).await?;
        match answer.first() {
            Some(1) => Ok(()),
            _ => Err((ErrorKind::UnexpectedReturnType, "it answers what no Redis would").into()),
        }
    }

    async fn count(&self, link: &mut MultiplexedConnection) -> Result<u32, RedisError> {
        let answer: Vec<i64> = run(&self.scripts["nodes"], &["allium:nodes"], &[self.node.as_bytes(), GONE], link).await?;
        Ok(answer.first().and_then(|it| u32::try_from(*it).ok()).unwrap_or(1))
    }

    fn up(&self, link: &MultiplexedConnection, again: bool) {
        self.link.store(Some(Arc::new(link.clone())));
        self.figures.up.set(1);
        if again {
            (self.figures.tell)(None);
        }
    }

    /// Says so once, whoever notices it first.
    fn down(&self, why: &Why) {
        if self.link.swap(None).is_some() {
            self.figures.up.set(0);
            (self.figures.tell)(Some(&why.to_string()));
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer => f.write_str("it does not answer in time"),
            Self::Error(it) if it.is_connection_refusal() => f.write_str("nobody listens there"),
            Self::Error(it) if it.is_io_error() => f.write_str("the connection broke"),
            Self::Error(it) => match it.code() {
                Some(code) => write!(f, "it answers {code}"),
                None => write!(f, "it answers badly: {}", it.category()),
            },
        }
    }
}
