//! Where an upstream's nodes come from, and which of them to ask.
use std::{
    collections::{BTreeMap, HashSet},
    future::Future,
    net::SocketAddr,
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
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One node as a registry knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// A name or an address, with a port: what TLS expects, and a call's `Host` where that is the node's.
    pub authority: Authority,
    pub address: SocketAddr,
    pub weight: u32,
    pub metadata: BTreeMap<Box<str>, Box<str>>,
}

/// Knows which nodes serve one service, and keeps knowing it. One for each Upstream with `discovery`; one file a kind.
///
/// It runs beside requests, on the background's threads; nothing on a request waits for it.
pub trait Registry: Send + Sync + 'static {
    /// Follows the service, and puts all of its nodes on the roll whenever they change, until nobody reads the roll.
    /// What cannot be asked is told to the roll, and asked again a while later; the last nodes stay meanwhile.
    fn follow(self: Box<Self>, roll: Roll) -> BoxFuture<'static, ()>;

    /// Makes this gateway known as a node of `service`, until the lease is dropped.
    ///
    /// Errors: the registry only reads, or refuses. Who announces tries again.
    fn announce(&self, _service: &str, _own: Found) -> BoxFuture<'_, Result<Lease, BoxError>> {
        Box::pin(async { Err("this registry only reads".into()) })
    }
}

/// An announcement; dropping it takes it back.
pub struct Lease(pub Box<dyn Send>);

/// Whether an address may be called; why not, where not.
type Allows = Box<dyn Fn(&SocketAddr) -> Result<(), String> + Send + Sync>;

/// The list of an Upstream's nodes, as its registry writes it.
pub struct Roll {
    nodes: watch::Sender<Nodes>,
    allows: Allows,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Roll {
    /// An empty one, and where it is read. `allows` is asked about every address, and `tell` hears what somebody should know.
    pub fn new(
        allows: impl Fn(&SocketAddr) -> Result<(), String> + Send + Sync + 'static,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> (Self, watch::Receiver<Nodes>) {
        let (nodes, receiver) = watch::channel(Nodes::default());
        (Self { nodes, allows: Box::new(allows), tell: Box::new(tell) }, receiver)
    }

    /// All nodes that there are now; never a difference. Who was there before, as it is now, stays the same node, with its connections.
    /// Where only its weight or metadata changed it keeps its count of calls. An address counts once, and never one that is refused.
    pub fn put(&self, found: impl IntoIterator<Item = Found>) {
        let mut seen = HashSet::new();
        let found: Vec<Found> = found
            .into_iter()
            .filter(|it| seen.insert(it.address))
            .filter(|it| (self.allows)(&it.address).map_err(|why| (self.tell)(&format!("{} is not called: {why}", it.authority))).is_ok())
            .collect();
        self.nodes.send_if_modified(|old| {
            let node = |it: Found| {
                let before = old.iter().find(|node| node.address == it.address);
                match before {
                    Some(node) if node.is(&it) => node.clone(),
                    before => {
                        let Found { authority, address, weight, metadata } = it;
                        let in_flight = before.map(|it| it.in_flight.clone()).unwrap_or_default();
                        Arc::new(Node { authority, address, weight, metadata, in_flight })
                    }
                }
            };
            let now: Nodes = found.into_iter().map(node).collect();
            let same = old.len() == now.len() && old.iter().zip(now.iter()).all(|(a, b)| Arc::ptr_eq(a, b));
            if !same {
                *old = now;
            }
            !same
        });
    }

    /// Tells what somebody should know; what is said again and again should be said once.
    pub fn tell(&self, what: &str) {
        (self.tell)(what);
    }

    /// Comes when nobody reads it any more.
    pub async fn closed(&self) {
        self.nodes.closed().await;
    }

    /// Whether there is any node on it.
    pub fn is_empty(&self) -> bool {
        self.nodes.borrow().is_empty()
    }
}

impl Node {
    fn is(&self, it: &Found) -> bool {
        self.address == it.address && self.authority == it.authority && self.weight == it.weight && self.metadata == it.metadata
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(last: u8, weight: u32) -> Found {
        Found {
            authority: format!("10.0.0.{last}:80").parse().unwrap(),
            address: ([10, 0, 0, last], 80).into(),
            weight,
            metadata: BTreeMap::new(),
        }
    }

    #[test]
    fn nodes_that_stay_are_the_same_and_refused_ones_are_not_there() {
        let refuse = |at: &SocketAddr| if at.ip().to_string().ends_with(".9") { Err("no".to_owned()) } else { Ok(()) };
        let (roll, mut nodes) = Roll::new(refuse, |_| ());
        roll.put([found(1, 1), found(2, 1), found(9, 1), found(1, 5)]);
        let first = nodes.borrow_and_update().clone();
        assert_eq!(
            first.iter().map(|it| (it.address.to_string(), it.weight)).collect::<Vec<_>>(),
            [("10.0.0.1:80".to_owned(), 1), ("10.0.0.2:80".to_owned(), 1)]
        );
        roll.put([found(1, 1), found(2, 1)]);
        assert!(!nodes.has_changed().unwrap(), "nothing did");
        roll.put([found(3, 1), found(2, 7), found(1, 1)]);
        let second = nodes.borrow_and_update().clone();
        assert!(Arc::ptr_eq(&second[2], &first[0]));
        assert!(!Arc::ptr_eq(&second[1], &first[1]) && Arc::ptr_eq(&second[1].in_flight, &first[1].in_flight));
        assert_eq!(second[1].weight, 7);
    }
}
