//! Which nodes are spared: those whose calls failed in a row, and those that answer badly when they are asked.
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use contract::discovery::{Node, Nodes};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use crate::{
    dial::{Spoken, Tls, Way},
    strategy::chance,
    telemetry::metrics::upstream::CallOutcome,
};

/// Ejecting nodes by how calls end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passive {
    /// So many failures in a row.
    pub failures: u32,
    pub eject_for: Duration,
    /// At most this share of the nodes.
    pub max_ejected: f64,
}

/// Asking nodes how they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Active {
    pub path: Box<str>,
    pub interval: Duration,
    pub timeout: Duration,
    pub healthy_after: u32,
    pub unhealthy_after: u32,
}

/// The health of an upstream's nodes. It outlives a change of the upstream's definition.
#[derive(Default)]
pub struct Health {
    nodes: Mutex<HashMap<SocketAddr, Arc<NodeHealth>>>,
    /// Some node's health is another than it was.
    pub changed: Notify,
}

/// The health of one node.
#[derive(Default)]
pub struct NodeHealth {
    /// Calls that failed in a row.
    failed: AtomicU32,
    ejected: Mutex<Option<Instant>>,
    /// By active checks: it is not to be called.
    sick: AtomicBool,
}

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Healthy,
    /// Calls of it failed; it comes back by itself.
    Ejected,
    /// Its checks fail.
    Unhealthy,
}

impl Standing {
    /// As reports say it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Ejected => "ejected",
            Self::Unhealthy => "unhealthy",
        }
    }
}

impl Health {
    /// Of a node by its address; what is new is healthy.
    pub fn of(&self, node: &Node) -> Arc<NodeHealth> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).entry(node.address).or_default().clone()
    }

    /// Forgets the nodes that are gone.
    pub fn keep(&self, nodes: &Nodes) {
        let mut all = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|at, _| nodes.iter().any(|it| it.address == *at));
    }

    /// When the first of the ejected nodes comes back.
    pub fn next_return(&self) -> Option<Instant> {
        let all = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().filter_map(|it| *it.ejected()).min()
    }

    /// A call ended. True where that ejected its node.
    pub fn record(&self, rule: &Passive, node: &NodeHealth, outcome: CallOutcome) -> bool {
        match outcome {
            CallOutcome::Ok | CallOutcome::Fatal => {
                if node.failed.load(Relaxed) != 0 {
                    node.failed.store(0, Relaxed);
                }
                return false;
            }
            CallOutcome::Throttled | CallOutcome::Cancelled => return false,
            CallOutcome::Transient | CallOutcome::Unknown => (),
        }
        if node.failed.fetch_add(1, Relaxed) + 1 < rule.failures {
            return false;
        }
        // Under the lock of all, so that two nodes cannot both be the last that may go.
        let all = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let out = all.values().filter(|it| it.ejected().is_some_and(|until| until > now)).count();
        if (out + 1) as f64 > all.len() as f64 * rule.max_ejected || node.standing(now) == Standing::Ejected {
            return false;
        }
        *node.ejected() = Some(now + rule.eject_for);
        node.failed.store(0, Relaxed);
        drop(all);
        self.changed.notify_one();
        true
    }

    /// Asks `nodes` now and then, for as long as nobody aborts it. `tell` hears of what changed.
    pub async fn watch(self: Arc<Self>, rule: Active, tls: Option<Arc<Tls>>, nodes: impl Fn() -> Nodes, tell: impl Fn(&Node, bool)) {
        let mut streaks: HashMap<SocketAddr, (bool, u32)> = HashMap::new();
        loop {
            let now = nodes();
            let checks: Vec<_> = now
                .iter()
                .map(|it| {
                    let (node, rule, tls) = (it.clone(), rule.clone(), tls.clone());
                    tokio::spawn(async move {
                        matches!(timeout(rule.timeout, ask(&node, tls.as_ref(), &rule.path, rule.timeout)).await, Ok(Ok(200..400)))
                    })
                })
                .collect();
            for (node, check) in now.iter().zip(checks) {
                let good = check.await.unwrap_or(false);
                let streak = streaks.entry(node.address).or_insert((good, 0));
                *streak = if streak.0 == good { (good, streak.1.saturating_add(1)) } else { (good, 1) };
                let health = self.of(node);
                let sick = health.sick.load(Relaxed);
                if sick == good && streak.1 >= if good { rule.healthy_after } else { rule.unhealthy_after } {
                    health.sick.store(!good, Relaxed);
                    self.changed.notify_one();
                    tell(node, good);
                }
            }
            streaks.retain(|at, _| now.iter().any(|it| it.address == *at));
            // Not all gateways at the same moment.
            let jitter = rule.interval / 10;
            sleep(rule.interval - jitter / 2 + jitter.mul_f64(chance::below(1000) as f64 / 1000.0)).await;
        }
    }
}

impl NodeHealth {
    fn ejected(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.ejected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it stands; an ejection that is over is forgotten.
    pub fn standing(&self, now: Instant) -> Standing {
        let mut ejected = self.ejected();
        if ejected.is_some_and(|until| until <= now) {
            *ejected = None;
        }
        match ejected.is_some() {
            true => Standing::Ejected,
            false if self.sick.load(Relaxed) => Standing::Unhealthy,
            false => Standing::Healthy,
        }
    }
}

/// The status of one answer, on a connection of its own.
async fn ask(node: &Node, tls: Option<&Arc<Tls>>, path: &str, within: Duration) -> io::Result<u16> {
    const LINE: usize = "HTTP/1.1 200".len();
    let way = Way::new(tls, node.authority.host(), node.address, Spoken::Http1);
    let mut stream = way.open(node.address, Instant::now() + within).await.map_err(|it| io::Error::other(it.reason))?;
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {}\r\nuser-agent: allium-health\r\naccept: */*\r\nconnection: close\r\n\r\n", node.authority);
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut line = [0; LINE];
    stream.read_exact(&mut line).await?;
    let status = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 "));
    let status = status.and_then(|it| std::str::from_utf8(it).ok()).and_then(|it| it.parse().ok());
    status.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u8) -> Nodes {
        let node = |last| {
            Arc::new(Node {
                authority: format!("10.0.0.{last}:80").parse().unwrap(),
                address: ([10, 0, 0, last], 80).into(),
                weight: 1,
                metadata: Default::default(),
                in_flight: Default::default(),
            })
        };
        (0..count).map(node).collect()
    }

    const RULE: Passive = Passive { failures: 3, eject_for: Duration::from_secs(30), max_ejected: 0.5 };

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_eject_for_a_while() {
        let (all, health) = (nodes(2), Health::default());
        let (it, _other) = (health.of(&all[0]), health.of(&all[1]));
        let standing = || it.standing(Instant::now());
        for outcome in [CallOutcome::Transient, CallOutcome::Unknown, CallOutcome::Ok, CallOutcome::Transient, CallOutcome::Throttled] {
            assert!(!health.record(&RULE, &it, outcome));
        }
        assert!(!health.record(&RULE, &it, CallOutcome::Transient));
        assert_eq!(standing(), Standing::Healthy);
        assert!(health.record(&RULE, &it, CallOutcome::Unknown));
        assert_eq!(standing(), Standing::Ejected);
        tokio::time::advance(Duration::from_secs(29)).await;
        assert_eq!((standing(), health.next_return().is_some()), (Standing::Ejected, true));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((standing(), health.next_return().is_some()), (Standing::Healthy, false));
    }

    #[tokio::test(start_paused = true)]
    async fn never_more_than_the_share_is_ejected() {
        for (count, most) in [(1, 0), (2, 1), (3, 1), (5, 2)] {
            let (all, health) = (nodes(count), Health::default());
            let each: Vec<_> = all.iter().map(|it| health.of(it)).collect();
            for it in each.iter().cycle().take(20 * each.len()) {
                health.record(&RULE, it, CallOutcome::Transient);
            }
            let out = each.iter().filter(|it| it.standing(Instant::now()) == Standing::Ejected).count();
            assert_eq!(out, most, "of {count}");
        }
    }
}
