//! One call to an upstream: pick a node, send, tell how it went; and once more where that is asked for and does no harm.
pub mod balance;
pub mod breaker;
pub mod health;
pub mod retry;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Instant,
};

use arc_swap::ArcSwap;
use contract::{
    Body, CallError, Exchange, Kind, Outcome, Problem,
    discovery::{Node, Nodes, Tried},
    scope::{is_json, media_type},
};
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body::Body as _;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::AbortHandle,
    time::{sleep, sleep_until, timeout_at},
};

use self::{
    balance::{Balance, Candidates},
    breaker::{Breaker, Permit, Refused},
    health::{Active, Health, NodeHealth, Passive, Standing},
    retry::{Budget, Ended, Retry, Rules},
};
use crate::{
    proxy::{
        Proxy,
        message::{Request, Time},
    },
    telemetry::metrics::upstream::{CallOutcome, NodeMetrics, UpstreamMetrics},
};

/// The largest request body that is kept for another try.
const REPLAYED: usize = 64 << 10;
/// The largest answer that conditions of `outcomes` look into.
const LOOKED_INTO: usize = 64 << 10;

/// A backend that is ready to be called; shared by all threads and by every route that names it.
pub struct Upstream {
    pub name: Box<str>,
    /// Of its definition: the same digest is the same upstream, with its connections.
    pub digest: u128,
    balance: Balance,
    nodes: watch::Receiver<Nodes>,
    members: ArcSwap<Members>,
    proxy: Proxy,
    metrics: UpstreamMetrics,
    care: Care,
    budget: Budget,
    /// Its tasks hold the nodes, and so keep names being resolved; they end with the upstream.
    followers: OnceLock<Vec<AbortHandle>>,
}

/// Somebody who is told in words.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// How nodes are watched.
#[derive(Default)]
pub struct Care {
    /// Handed on from the upstream that had the name before.
    pub health: Arc<Health>,
    pub passive: Option<Passive>,
    pub active: Option<Active>,
    pub breaker: Option<Breaker>,
    /// Hears of nodes that are spared, and of those that come back.
    pub tell: Option<Tell>,
}

/// The nodes of one moment, and what picks among them.
struct Members {
    candidates: Candidates,
    known: HashMap<usize, Arc<Known>, foldhash::fast::FixedState>,
    count: usize,
}

/// What belongs to one node.
struct Known {
    metrics: NodeMetrics,
    health: Option<Arc<NodeHealth>>,
    /// As a sticky cookie says it.
    name: Option<Box<str>>,
}

/// Whom the request asked, for the access log. Left in the notes by every call.
#[derive(Clone, Default)]
pub struct Asked {
    pub upstream: Option<Arc<Upstream>>,
    pub node: Option<Arc<Node>>,
    pub calls: u32,
    pub took: std::time::Duration,
    /// What the end of the last call means.
    pub ended: Option<CallOutcome>,
}

/// How the `Host` of a call is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// As the client sent it; the node's where it sent none.
    Received,
    Node,
    Text(HeaderValue),
}

/// A node, and its breaker's leave to call it where it has one.
type Picked = (Arc<Node>, Option<Permit>);

/// One attempt, when it is over.
struct Attempt {
    outcome: Outcome,
    class: CallOutcome,
    error: Option<CallError>,
    /// Whether any byte may have reached the backend.
    sent: bool,
    /// What can be sent again, where nothing of it is lost.
    request: Option<Request>,
}

impl Upstream {
    pub fn new(
        name: &str,
        digest: u128,
        balance: Balance,
        nodes: watch::Receiver<Nodes>,
        proxy: Proxy,
        metrics: UpstreamMetrics,
        care: Care,
    ) -> Arc<Self> {
        let now = nodes.borrow().clone();
        let members = ArcSwap::from_pointee(Members::new(&balance, &care, now, &metrics));
        let (budget, followers) = (Budget::default(), OnceLock::new());
        Arc::new(Self { name: name.into(), digest, balance, nodes, members, proxy, metrics, care, budget, followers })
    }

    /// Follows its nodes and their health on `background` for as long as somebody holds it; once.
    pub fn follow(self: &Arc<Self>, background: &Handle) {
        self.followers.get_or_init(|| {
            let (mut nodes, weak, health) = (self.nodes.clone(), Arc::downgrade(self), self.care.health.clone());
            let members = background.spawn(async move {
                nodes.mark_changed();
                let mut followed = true;
                loop {
                    let next = health.next_return();
                    tokio::select! {
                        it = nodes.changed(), if followed => followed = it.is_ok(),
                        () = health.changed.notified() => (),
                        () = sleep_until(next.unwrap_or_else(tokio::time::Instant::now)), if next.is_some() => (),
                    }
                    let Some(it) = weak.upgrade() else { return };
                    let now = nodes.borrow_and_update().clone();
                    it.care.health.keep(&now);
                    it.take_in(now);
                }
            });
            let mut tasks = vec![members.abort_handle()];
            if let Some(rule) = self.care.active.clone() {
                let (nodes, weak, health) = (self.nodes.clone(), Arc::downgrade(self), self.care.health.clone());
                let tell = move |node: &Node, good: bool| {
                    if let Some(it) = weak.upgrade() {
                        it.tell(node, if good { "is healthy again" } else { "fails its checks and is not called" });
                    }
                };
                tasks.push(
                    background.spawn(health.watch(rule, self.proxy.tls().cloned(), move || nodes.borrow().clone(), tell)).abort_handle(),
                );
            }
            tasks
        });
    }

    fn take_in(&self, nodes: Nodes) {
        if let Some(it) = &self.care.breaker {
            it.keep(&nodes);
        }
        self.members.store(Arc::new(Members::new(&self.balance, &self.care, nodes, &self.metrics)));
    }

    fn tell(&self, node: &Node, what: &str) {
        if let Some(tell) = &self.care.tell {
            tell(&format!("the node {} {what}", node.address));
        }
    }

    /// Waits for its first node, where names are being resolved; comes at once where nobody looks for any.
    pub async fn first_node(&self) {
        let mut nodes = self.nodes.clone();
        if nodes.wait_for(|it| !it.is_empty()).await.is_ok() && self.members.load().count == 0 {
            self.take_in(self.nodes());
        }
    }

    /// Its nodes, as they are now.
    pub fn nodes(&self) -> Nodes {
        self.nodes.borrow().clone()
    }

    /// Its nodes, and how they stand.
    pub fn standings(&self) -> Vec<(Arc<Node>, Standing)> {
        let (members, now) = (self.members.load(), tokio::time::Instant::now());
        let standing = |it: &Arc<Node>| members.known.get(&(Arc::as_ptr(it) as usize))?.health.as_ref().map(|it| it.standing(now));
        self.nodes().iter().map(|it| (it.clone(), standing(it).unwrap_or(Standing::Healthy))).collect()
    }

    /// Whether its nodes are called over TLS.
    pub fn is_secured(&self) -> bool {
        self.proxy.tls().is_some()
    }

    /// What is known of the health of its nodes.
    pub fn health(&self) -> &Arc<Health> {
        &self.care.health
    }

    /// What refuses calls to spare its nodes.
    pub fn breaker(&self) -> Option<&Breaker> {
        self.care.breaker.as_ref()
    }

    /// Some expression of its `balance` looks at the request's body.
    pub fn reads_body(&self) -> bool {
        self.balance.reads_body()
    }

    /// One call, made again as `rules` say. The answer is the backend's, whatever its status.
    pub async fn call(self: &Arc<Self>, ex: &mut Exchange, request: Request, host: &Host, time: Time, rules: &Rules) -> Outcome {
        match &rules.retry {
            None => self.attempt(ex, request, host, time, rules, &mut Tried::default()).await.outcome,
            Some(retry) => self.call_again(ex, request, host, time, rules, retry).await,
        }
    }

    async fn call_again(
        self: &Arc<Self>,
        ex: &mut Exchange,
        mut request: Request,
        host: &Host,
        time: Time,
        rules: &Rules,
        retry: &Retry,
    ) -> Outcome {
        let share = retry.per_try.unwrap_or_else(|| time.head.saturating_duration_since(Instant::now()) / retry.tries);
        // Decided by length alone, not by how much of it happens to be there already.
        let short = request.body.size_hint().upper().is_some_and(|it| it <= REPLAYED as u64);
        if request.upgrade.is_none() && short {
            request.body.peek(REPLAYED).await.map_err(contract::BodyError::of_request)?;
        }
        self.budget.called();
        let method = request.method.clone();
        let mut tried = Tried::default();
        let mut number = 1;
        loop {
            let spare = if short && number < retry.tries { request.copy() } else { None };
            let by = Time { head: time.head.min(Instant::now() + share), body: time.body };
            let it = self.attempt(ex, request, host, by, rules, &mut tried).await;
            let answer = it.outcome.as_ref().ok();
            let status = answer.map(Response::status);
            let ended = Ended { method: &method, class: it.class, error: it.error, status, sent: it.sent };
            if number == retry.tries || !retry.wants(&ended) {
                return it.outcome;
            }
            let Some(next) = it.request.or(spare) else { return it.outcome };
            let pause = retry.pause(number, answer.map(Response::headers));
            // An answer that comes too late is worth less than the one that is there.
            if pause >= time.head.saturating_duration_since(Instant::now()) {
                return it.outcome;
            }
            if !self.budget.take(retry.budget) {
                self.metrics.retry_refused();
                return it.outcome;
            }
            self.metrics.retried();
            drop(it.outcome);
            sleep(pause).await;
            (request, number) = (next, number + 1);
        }
    }

    /// One call of one node that was not tried yet, while there is such a one.
    async fn attempt(
        self: &Arc<Self>,
        ex: &mut Exchange,
        mut request: Request,
        host: &Host,
        time: Time,
        rules: &Rules,
        tried: &mut Tried,
    ) -> Attempt {
        let members = self.members.load();
        let picked = match &self.care.breaker {
            None => self.balance.pick(&members.candidates, ex, tried).map(|it| (it, None)),
            Some(breaker) => match self.pick_allowed(breaker, &members, ex, tried, &request.method, rules) {
                Ok(it) => it,
                Err(it) => {
                    let outcome = Err(self.refused(it));
                    return Attempt { outcome, class: CallOutcome::Cancelled, error: None, sent: false, request: Some(request) };
                }
            },
        };
        let Some((node, permit)) = picked else {
            let reason = if members.count == 0 { "upstream_has_no_node" } else { "upstream_has_no_healthy_node" };
            let problem = Problem::new(Kind::Unavailable, "no backend is there to answer")
                .reason(reason)
                .because(format!("upstream '{}' has no node to ask", self.name));
            return Attempt { outcome: Err(problem), class: CallOutcome::Cancelled, error: None, sent: false, request: Some(request) };
        };
        let known = members.known.get(&(Arc::as_ptr(&node) as usize)).cloned();
        drop(members);
        if rules.retry.is_some() {
            tried.add(node.clone());
        }
        request.host = match host {
            Host::Received if !request.host.is_empty() => request.host,
            Host::Text(it) => it.clone(),
            Host::Received | Host::Node => HeaderValue::from_str(node.authority.as_str()).unwrap_or(request.host),
        };
        let started = Instant::now();
        if let Some(headers) = request.headers.as_mut().filter(|_| rules.tells_time) {
            let left = time.head.saturating_duration_since(started).as_millis().min(u64::MAX.into()) as u64;
            headers.insert(retry::TIMEOUT, left.into());
        }
        // Dropped in the middle when the client leaves: then the call counts as cancelled.
        let mut measure = Measure { known: known.as_deref(), started, took: None, outcome: CallOutcome::Cancelled };
        let result = self.proxy.send(&ex.local, &node, request, &ex.head.headers, ex.early.as_deref(), time).await;
        let took = started.elapsed();
        measure.took = Some(took);
        let (mut outcome, mut class, mut error, sent, left) = match result {
            Ok(it) => {
                let class = outcome_of(it.status());
                (Ok(it), class, None, true, None)
            }
            Err(it) => {
                let class = match (it.error, it.sent) {
                    (None, _) => CallOutcome::Cancelled,
                    (Some(_), true) => CallOutcome::Unknown,
                    (Some(_), false) => CallOutcome::Transient,
                };
                (Err(it.problem), class, it.error, it.sent, it.request)
            }
        };
        if rules.reads_body
            && let Ok(answer) = &mut outcome
            && let Err(problem) = look_into(answer, ex.route.json_depth, time.head).await
        {
            (class, error) = (CallOutcome::Unknown, problem.call);
            outcome = Err(problem);
        }
        let class = if class == CallOutcome::Cancelled { class } else { rules.class(ex, &outcome, class) };
        measure.outcome = class;
        drop(measure);
        if let Some(it) = permit {
            it.end(class, took);
        }
        self.judge(&node, known.as_deref(), class);
        let before = ex.notes.get::<Asked>();
        let (calls, whole) = before.map_or((1, took), |it| (it.calls + 1, it.took + took));
        ex.notes.put(Asked { upstream: Some(self.clone()), node: Some(node.clone()), calls, took: whole, ended: Some(class) });
        if let (Ok(answer), Some(name)) = (&mut outcome, known.as_ref().and_then(|it| it.name.as_deref()))
            && let Some(cookie) = self.balance.remember(ex, name)
        {
            answer.headers_mut().append(header::SET_COOKIE, cookie);
        }
        Attempt { outcome, class, error, sent, request: left }
    }

    /// A node whose breaker lets this call through; one that refuses is no candidate. `None` where there is no node at all.
    fn pick_allowed(
        &self,
        breaker: &Breaker,
        members: &Members,
        ex: &Exchange,
        tried: &Tried,
        method: &Method,
        rules: &Rules,
    ) -> Result<Option<Picked>, Refused> {
        let point = breaker.per.method.then(|| rules.point.clone().unwrap_or_else(|| Arc::from(&*ex.route.pattern)));
        let criticality = breaker.criticality(ex);
        let mut refusing = Tried::default();
        let mut soonest: Option<Refused> = None;
        loop {
            let picked = self.balance.pick(&members.candidates, ex, &tried.and(&refusing));
            // One that was tried before is better than one that refuses.
            let picked = match picked.filter(|it| !refusing.contains(it)) {
                None if refusing.attempts() > 0 => {
                    self.balance.pick(&members.candidates, ex, &refusing).filter(|it| !refusing.contains(it))
                }
                it => it,
            };
            let Some(node) = picked else { return soonest.map_or(Ok(None), Err) };
            match breaker.ask(&node, method, point.as_ref(), criticality, &self.metrics) {
                Ok(permit) => return Ok(Some((node, Some(permit)))),
                Err(it) => {
                    soonest = Some(soonest.map_or(it, |before| Refused { after: before.after.min(it.after) }));
                    // Without `node` all of them are one.
                    if !breaker.per.node {
                        return Err(it);
                    }
                    refusing.add(node);
                }
            }
        }
    }

    fn refused(&self, it: Refused) -> Box<Problem> {
        self.metrics.breaker_refused();
        let mut problem = Problem::new(Kind::Unavailable, "the backend is not asked now, for it fails")
            .reason("breaker_open")
            .because(format!("the breaker of upstream '{}' refuses", self.name));
        problem.origin = contract::Origin::Gateway;
        problem.retry_after = Some(
            std::time::Duration::from_secs(it.after.as_secs() + u64::from(it.after.subsec_nanos() > 0))
                .max(std::time::Duration::from_secs(1)),
        );
        problem
    }

    /// What the end of a call says of its node.
    fn judge(&self, node: &Node, known: Option<&Known>, class: CallOutcome) {
        if let (Some(rule), Some(health)) = (&self.care.passive, known.and_then(|it| it.health.as_ref()))
            && self.care.health.record(rule, health, class)
        {
            self.metrics.ejected();
            self.tell(node, "is not called for a while, for its calls failed");
        }
    }
}

/// Reads an answer for conditions: JSON that is not long, and not encoded. Anything else goes on as it came.
async fn look_into(answer: &mut Response<Body>, depth: usize, by: Instant) -> Result<(), Box<Problem>> {
    let headers = answer.headers();
    if !is_json(&media_type(headers)) || headers.contains_key(header::CONTENT_ENCODING) {
        return Ok(());
    }
    let body = answer.body_mut();
    let late = |_| Problem::call(CallError::ReadTimeout, "upstream_body_stalled");
    if timeout_at(by.into(), body.peek(LOOKED_INTO)).await.map_err(late)?.map_err(contract::BodyError::of_response)? {
        let _ = body.json(LOOKED_INTO, depth).await.map_err(contract::BodyError::of_response)?;
    }
    Ok(())
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.followers.get().into_iter().flatten().for_each(AbortHandle::abort);
    }
}

/// Records one call when it is over, however it is over.
struct Measure<'a> {
    known: Option<&'a Known>,
    started: Instant,
    /// None where nobody has looked at the clock yet.
    took: Option<std::time::Duration>,
    outcome: CallOutcome,
}

impl Drop for Measure<'_> {
    fn drop(&mut self) {
        if let Some(it) = self.known {
            it.metrics.record(self.outcome, self.took.unwrap_or_else(|| self.started.elapsed()));
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
    fn new(balance: &Balance, care: &Care, nodes: Nodes, metrics: &UpstreamMetrics) -> Self {
        let watched = care.passive.is_some() || care.active.is_some();
        let known = |it: &Arc<Node>| {
            let known = Known {
                metrics: metrics.node(&it.address.to_string()),
                health: watched.then(|| care.health.of(it)),
                name: balance.sticky.is_some().then(|| balance::name_of(it).into()),
            };
            (Arc::as_ptr(it) as usize, Arc::new(known))
        };
        let known: HashMap<_, _, _> = nodes.iter().map(known).collect();
        let now = tokio::time::Instant::now();
        let standing = |it: &Arc<Node>| known[&(Arc::as_ptr(it) as usize)].health.as_ref().map_or(Standing::Healthy, |it| it.standing(now));
        let mut by_standing = [0; 3];
        let well: Nodes = nodes
            .iter()
            .filter(|it| {
                let standing = standing(it);
                by_standing[standing as usize] += 1;
                standing == Standing::Healthy
            })
            .cloned()
            .collect();
        metrics.stand(by_standing);
        Self { count: nodes.len(), candidates: balance.prepare(&well), known }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        http1::client::{Timeouts, permits::Limits},
        telemetry::metrics::GatewayMetrics,
    };

    #[tokio::test]
    async fn nobody_looks_for_the_nodes_of_an_upstream_that_is_gone() {
        let (sender, nodes) = watch::channel(Nodes::default());
        let proxy = Proxy::new(Limits::default(), Timeouts::default(), 1, false);
        let metrics = GatewayMetrics::new(Default::default()).upstream_metrics("u");
        let it = Upstream::new("u", 0, Balance::default(), nodes, proxy, metrics, Care::default());
        it.follow(&Handle::current());
        tokio::task::yield_now().await;
        assert!(!sender.is_closed());
        drop(it);
        tokio::time::timeout(Duration::from_secs(5), sender.closed()).await.expect("the last receiver goes");
    }
}
