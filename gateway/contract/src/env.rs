//! What a ring may hold on to from the running gateway: only what nobody else can give it.
use std::{
    any::Any,
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;

use crate::{
    Outcome,
    caller::Apps,
    catalog::Fault,
    expression::{CompileError, Context, Expression, JsonTemplate, Names, Reads, Template},
    meter::Meter,
    onion::{LocalFuture, RingKind},
    store::Store,
};

/// The gateway, as a ring sees it while it is configured.
///
/// What is `None` is not part of this build or not configured; a ring that needs it says so as a fault.
pub struct Env<'a> {
    /// `Api/name@version/plugin/name`: where this ring's state belongs.
    pub scope: StateKey,
    /// The ring stands inside of one that authenticates.
    pub authenticated: bool,
    /// The rings of the same plugin that stand further out, by their `name` or number.
    pub outside: &'a [Box<str>],
    /// The Apps that may call.
    pub apps: Arc<dyn Apps>,
    pub meter: &'a dyn Meter,
    pub clock: Arc<dyn Clock>,
    pub spawn: Arc<dyn Spawn>,
    pub states: &'a dyn States,
    /// Where a ring writes lines that its author asked for.
    pub journal: Journal,
    pub caller: Option<Arc<dyn Caller>>,
    pub store: Option<Arc<dyn Store>>,
    pub caches: Option<Arc<dyn CacheIndex>>,
    pub scripts: Option<&'a dyn Scripts>,
    pub rings: Option<&'a dyn Rings>,
    /// Reads a file that a definition names, relative to the folder of the settings and inside of it. The error is one sentence.
    pub files: &'a dyn Fn(&str) -> Result<Vec<u8>, String>,
    /// Whether an upstream of this name is defined.
    pub knows_upstream: &'a dyn Fn(&str) -> bool,
    /// What this ring's expressions may see.
    pub names: Names<'a>,
    /// What they do see. A ring whose expressions read the body has it read before it runs.
    pub reads: Cell<Reads>,
    /// Doubtful, but not refused unless `--strict`.
    pub warnings: RefCell<Vec<Fault>>,
}

/// Writes a line into the gateway's log: its level (`error`, `warn`, `info` or `debug`), the request's id, the text.
pub type Journal = Arc<dyn Fn(&str, &str, &str) + Send + Sync>;

/// Where state that outlives a reload belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateKey {
    /// `Api/name@version`, or `Preset/name` with `across: apis`.
    pub owner: Box<str>,
    pub plugin: Box<str>,
    /// Its `name`, or its number among that plugin in the expanded chain.
    pub name: Box<str>,
    /// Digest of the configuration: a changed one starts anew.
    pub config: u128,
}

impl Env<'_> {
    /// A `${…}` template at `pointer` of this ring's configuration.
    pub fn template(&self, pointer: &str, text: &str, context: Context) -> Result<Template, Vec<Fault>> {
        self.template_with(pointer, text, context, &self.names)
    }

    /// The same, for a ring whose own expressions see more than what stands outside of it.
    pub fn template_with(&self, pointer: &str, text: &str, context: Context, names: &Names<'_>) -> Result<Template, Vec<Fault>> {
        let it = Template::compile(text, names, context).map_err(|it| placed(pointer, it))?;
        self.reads.set(self.reads.get().and(it.reads()));
        Ok(it)
    }

    /// JSON at `pointer` of this ring's configuration, with `${…}` in its strings.
    pub fn json(&self, pointer: &str, value: &serde_json::Value) -> Result<JsonTemplate, Vec<Fault>> {
        let it = JsonTemplate::of(value, &self.names)
            .map_err(|it| it.into_iter().flat_map(|it| placed(&format!("{pointer}{}", it.pointer), vec![it.error])).collect::<Vec<_>>())?;
        self.reads.set(self.reads.get().and(it.reads()));
        Ok(it)
    }

    /// A bare condition at `pointer` of this ring's configuration.
    pub fn condition(&self, pointer: &str, text: &str) -> Result<Expression, Vec<Fault>> {
        self.condition_with(pointer, text, &self.names)
    }

    /// The same, for a ring whose own expressions see more than what stands outside of it.
    pub fn condition_with(&self, pointer: &str, text: &str, names: &Names<'_>) -> Result<Expression, Vec<Fault>> {
        let it = Expression::condition(text, names).map_err(|it| placed(pointer, it))?;
        self.reads.set(self.reads.get().and(it.reads()));
        Ok(it)
    }

    /// The state that this ring shares with its former self; made by `new` where there is none.
    pub fn state<T: Any + Send + Sync>(&self, new: impl FnOnce() -> T) -> Arc<T> {
        self.state_at(&self.scope, new)
    }

    /// The same under another key: what rings of several Apis share.
    pub fn state_at<T: Any + Send + Sync>(&self, scope: &StateKey, new: impl FnOnce() -> T) -> Arc<T> {
        let mut new = Some(new);
        let kept = self.states.get(scope, &mut || match new.take() {
            Some(new) => Arc::new(new()),
            None => Arc::new(()),
        });
        match (kept.downcast::<T>(), new) {
            (Ok(it), _) => it,
            // Another type under the same key: the plugin changed with the binary; start anew.
            (Err(_), Some(new)) => Arc::new(new()),
            (Err(_), None) => unreachable!("`new` made a T just now"),
        }
    }

    pub fn warn(&self, fault: Fault) {
        self.warnings.borrow_mut().push(fault);
    }
}

fn placed(pointer: &str, faults: Vec<CompileError>) -> Vec<Fault> {
    faults
        .into_iter()
        .map(|it| Fault { pointer: pointer.into(), within: Some((it.offset, it.len)), message: it.message, help: it.help })
        .collect()
}

/// Keeps state by name across reloads.
pub trait States {
    /// What is kept under `key`; `make` is asked at most once.
    fn get(&self, key: &StateKey, make: &mut dyn FnMut() -> Arc<dyn Any + Send + Sync>) -> Arc<dyn Any + Send + Sync>;
}

/// Calls an upstream that a definition names: never a free URL.
pub trait Caller: Send + Sync {
    fn call<'a>(&'a self, upstream: &'a str, request: http::Request<crate::Body>, deadline: Instant) -> LocalFuture<'a, Outcome>;
}

/// Time, so that tests can turn the hands.
pub trait Clock: Send + Sync {
    fn now(&self) -> Instant;
    fn wall(&self) -> SystemTime;
}

/// Work beside the request.
pub trait Spawn: Send + Sync {
    /// On the thread of the caller; ends with that thread.
    fn local(&self, work: Pin<Box<dyn Future<Output = ()>>>);
    /// On the background runtime.
    fn background(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>);
    /// Computing that would hold up a worker, on a thread of the background pool; few of them run at a time, the others wait.
    fn heavy(&self, work: Box<dyn FnOnce() + Send>) {
        self.background(Box::pin(async move { work() }));
    }
}

/// From this size on, in bytes, work on a whole document goes to the background pool.
pub const HEAVY: usize = 256 * 1024;

/// Computes on the background pool while other requests of this worker go on; `None` if the work panicked or the gateway ends.
pub async fn heavy<T: Send + 'static>(spawn: &dyn Spawn, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, hear) = tokio::sync::oneshot::channel();
    spawn.heavy(Box::new(move || {
        // Nobody waits for the result of a client that has left.
        if !tell.is_closed() {
            let _ = tell.send(work());
        }
    }));
    hear.await.ok()
}

/// Forgets one key, or all; says how many were forgotten.
pub type Purge = Box<dyn Fn(Option<&[u8]>) -> u64 + Send + Sync>;

/// What caches hold, so that an operator can purge it.
pub trait CacheIndex: Send + Sync {
    fn register(&self, key: StateKey, purge: Purge);
}

/// Scripts compiled at load.
pub trait Scripts {
    fn load(&self, file: &str) -> Result<Arc<dyn Script>, Fault>;
}

/// One compiled script; how it runs is the Lua package's own affair.
pub trait Script: Any + Send + Sync {
    fn digest(&self) -> u128;
    fn bytecode(&self) -> Bytes;
}

/// Rings within rings: what `any-auth` is made of.
pub trait Rings {
    fn build(&self, name: &str, config: serde_json::Value, pointer: &str) -> Result<RingKind, Vec<Fault>>;
}

/// The clock on the wall.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// How long a call that names no time of its own may take.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);
