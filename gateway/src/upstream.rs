//! One call to an upstream: pick a node, send, tell how it went.
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Instant,
};

use arc_swap::ArcSwap;
use contract::{
    Exchange, Kind, Outcome, Problem,
    discovery::{Node, Nodes, Picker, Strategy, Tried},
};
use http::{HeaderValue, StatusCode};
use tokio::{runtime::Handle, sync::watch, task::AbortHandle};

use crate::{
    proxy::{Proxy, http::Time, message::Request},
    telemetry::metrics::upstream::{CallOutcome, NodeMetrics, UpstreamMetrics},
};

/// A backend that is ready to be called; shared by all threads and by every route that names it.
pub struct Upstream {
    pub name: Box<str>,
    /// Of its definition: the same digest is the same upstream, with its connections.
    pub digest: u128,
    strategy: Arc<dyn Strategy>,
    nodes: watch::Receiver<Nodes>,
    members: ArcSwap<Members>,
    proxy: Proxy,
    metrics: UpstreamMetrics,
    /// Its task holds the nodes, and so keeps names being resolved; it ends with the upstream.
    follower: OnceLock<AbortHandle>,
}

/// The nodes of one moment, and what picks among them.
struct Members {
    picker: Box<dyn Picker>,
    figures: HashMap<usize, NodeMetrics, foldhash::fast::FixedState>,
    count: usize,
}

/// Whom the request asked, for the access log. Left in the notes by every call.
#[derive(Clone, Default)]
pub struct Asked {
    pub upstream: Option<Arc<Upstream>>,
    pub node: Option<Arc<Node>>,
    pub calls: u32,
    pub took: std::time::Duration,
}

/// How the `Host` of a call is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// As the client sent it; the node's where it sent none.
    Received,
    Node,
    Text(HeaderValue),
}

impl Upstream {
    pub fn new(
        name: &str,
        digest: u128,
        strategy: Arc<dyn Strategy>,
        nodes: watch::Receiver<Nodes>,
        proxy: Proxy,
        metrics: UpstreamMetrics,
    ) -> Arc<Self> {
        let now = nodes.borrow().clone();
        let members = ArcSwap::from_pointee(Members::new(&*strategy, now, &metrics));
        Arc::new(Self { name: name.into(), digest, strategy, nodes, members, proxy, metrics, follower: OnceLock::new() })
    }

    /// Follows its nodes on `background` for as long as somebody holds it; once.
    pub fn follow(self: &Arc<Self>, background: &Handle) {
        self.follower.get_or_init(|| {
            let (mut nodes, weak) = (self.nodes.clone(), Arc::downgrade(self));
            let task = background.spawn(async move {
                nodes.mark_changed();
                while nodes.changed().await.is_ok() {
                    let Some(it) = weak.upgrade() else { return };
                    let now = nodes.borrow_and_update().clone();
                    it.members.store(Arc::new(Members::new(&*it.strategy, now, &it.metrics)));
                }
            });
            task.abort_handle()
        });
    }

    /// Waits for its first node, where names are being resolved; comes at once where nobody looks for any.
    pub async fn first_node(&self) {
        let mut nodes = self.nodes.clone();
        if nodes.wait_for(|it| !it.is_empty()).await.is_ok() && self.members.load().count == 0 {
            let now = self.nodes();
            self.members.store(Arc::new(Members::new(&*self.strategy, now, &self.metrics)));
        }
    }

    /// Its nodes, as they are now.
    pub fn nodes(&self) -> Nodes {
        self.nodes.borrow().clone()
    }

    /// One call. The answer is the backend's, whatever its status.
    pub async fn call(self: &Arc<Self>, ex: &mut Exchange, mut request: Request, host: &Host, time: Time) -> Outcome {
        let members = self.members.load();
        let Some(node) = members.picker.pick(ex, &Tried::default()) else {
            let reason = if members.count == 0 { "upstream_has_no_node" } else { "upstream_has_no_healthy_node" };
            return Err(Problem::new(Kind::Unavailable, "no backend is there to answer")
                .reason(reason)
                .because(format!("upstream '{}' has no node to ask", self.name)));
        };
        let figures = members.figures.get(&(Arc::as_ptr(&node) as usize)).cloned();
        drop(members);
        request.host = match host {
            Host::Received if !request.host.is_empty() => request.host,
            Host::Text(it) => it.clone(),
            Host::Received | Host::Node => HeaderValue::from_str(node.authority.as_str()).unwrap_or(request.host),
        };
        let started = Instant::now();
        // Dropped in the middle when the client leaves: then the call counts as cancelled.
        let mut measure = Measure { figures, started, took: None, outcome: CallOutcome::Cancelled };
        let result = self.proxy.send(&ex.local, &node, request, &ex.head.headers, ex.early.as_deref(), time).await;
        measure.outcome = match &result {
            Ok(it) => outcome_of(it.status()),
            Err(it) if it.error.is_none() => CallOutcome::Cancelled,
            Err(it) if it.sent => CallOutcome::Unknown,
            Err(_) => CallOutcome::Transient,
        };
        let took = started.elapsed();
        measure.took = Some(took);
        drop(measure);
        match ex.notes.get_mut::<Asked>() {
            Some(it) => *it = Asked { upstream: Some(self.clone()), node: Some(node.clone()), calls: it.calls + 1, took: it.took + took },
            None => ex.notes.put(Asked { upstream: Some(self.clone()), node: Some(node.clone()), calls: 1, took }),
        }
        result.map_err(|it| it.problem)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(it) = self.follower.get() {
            it.abort();
        }
    }
}

/// Records one call when it is over, however it is over.
struct Measure {
    figures: Option<NodeMetrics>,
    started: Instant,
    /// None where nobody has looked at the clock yet.
    took: Option<std::time::Duration>,
    outcome: CallOutcome,
}

impl Drop for Measure {
    fn drop(&mut self) {
        if let Some(it) = &self.figures {
            it.record(self.outcome, self.took.unwrap_or_else(|| self.started.elapsed()));
        }
    }
}

/// What an answer means where no `outcomes` say otherwise.
fn outcome_of(status: StatusCode) -> CallOutcome {
    match status.as_u16() {
        429 => CallOutcome::Throttled,
        ..500 => CallOutcome::Ok,
        _ => CallOutcome::Transient,
    }
}

impl Members {
    fn new(strategy: &dyn Strategy, nodes: Nodes, metrics: &UpstreamMetrics) -> Self {
        let figures = nodes.iter().map(|it| (Arc::as_ptr(it) as usize, metrics.node(&it.address.to_string()))).collect();
        Self { count: nodes.len(), picker: strategy.prepare(nodes), figures }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        http1::client::{Timeouts, permits::Limits},
        proxy::http::Http,
        strategy,
        telemetry::metrics::GatewayMetrics,
    };

    #[tokio::test]
    async fn nobody_looks_for_the_nodes_of_an_upstream_that_is_gone() {
        let (sender, nodes) = watch::channel(Nodes::default());
        let proxy = Proxy::Http(Http::new(Limits::default(), Timeouts::default(), 1));
        let metrics = GatewayMetrics::new(Default::default()).upstream_metrics("u");
        let it = Upstream::new("u", 0, (strategy::ALL[0].make)(), nodes, proxy, metrics);
        it.follow(&Handle::current());
        tokio::task::yield_now().await;
        assert!(!sender.is_closed());
        drop(it);
        tokio::time::timeout(Duration::from_secs(5), sender.closed()).await.expect("the last receiver goes");
    }
}
