//! Where an upstream's nodes come from, and which of them to ask.
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use http::uri::Authority;
use tokio::sync::watch;

use crate::Exchange;

/// One address of an upstream.
#[derive(Debug)]
pub struct Node {
    /// As written: a name or an address, with a port.
    pub authority: Authority,
    /// Where it is. A name with several addresses is several nodes.
    pub address: std::net::SocketAddr,
    pub weight: u32,
    pub metadata: BTreeMap<Box<str>, Box<str>>,
    /// Calls on their way to it, of the whole process.
    pub in_flight: Arc<InFlight>,
}

/// How many calls are on their way, their answers' bodies included.
#[derive(Debug, Default)]
pub struct InFlight(AtomicUsize);

impl InFlight {
    pub fn count(&self) -> usize {
        self.0.load(Relaxed)
    }

    pub fn begin(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Ends what [`InFlight::begin`] began.
    pub fn end(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

pub type Nodes = Arc<[Arc<Node>]>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Knows which nodes serve a service, and keeps knowing it.
pub trait Registry: Send + Sync + 'static {
    /// Follows `service`. The receiver always holds the newest nodes; dropping it ends the watch.
    fn follow(&self, service: &str) -> watch::Receiver<Nodes>;

    /// Makes `node` known as one of `service`, until the lease is dropped.
    fn announce(&self, _service: &str, _node: Node) -> Pin<Box<dyn Future<Output = Result<Lease, BoxError>> + Send + '_>> {
        Box::pin(async { Err("this registry only reads".into()) })
    }
}

/// An announcement; dropping it takes it back.
pub struct Lease(pub Box<dyn Send>);

/// Turns a set of nodes into something that picks. Runs when the set changes, never on a request.
pub trait Strategy: Send + Sync + 'static {
    fn prepare(&self, nodes: Nodes) -> Box<dyn Picker>;
}

/// Picks one node for one attempt: memory only, no lock that waits.
pub trait Picker: Send + Sync {
    /// One that has not been tried before one that has; `None` when nobody is left to ask.
    ///
    /// `key` is the hash of what `balance.hash` gave; none where it gave nothing.
    fn pick(&self, ex: &Exchange, tried: &Tried, key: Option<u64>) -> Option<Arc<Node>>;
}

/// The nodes that earlier attempts of this call went to.
#[derive(Default)]
pub struct Tried(Vec<Arc<Node>>);

impl Tried {
    pub fn add(&mut self, node: Arc<Node>) {
        self.0.push(node);
    }

    pub fn contains(&self, node: &Arc<Node>) -> bool {
        self.0.iter().any(|it| Arc::ptr_eq(it, node))
    }

    /// These and those.
    pub fn and(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    pub fn attempts(&self) -> usize {
        self.0.len()
    }
}
