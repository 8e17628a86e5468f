//! HTTP/1.1 to a backend, over this thread's pooled connections.
use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    sync::{Arc, RwLock, Weak},
};

use contract::{Body, discovery::Node, exchange::Early, exchange::Upgrade, local::Local};
use http::{HeaderMap, Response, StatusCode, header::UPGRADE};

use super::message::{Failed, Request, Time};
use crate::{
    dial::{Spoken, Tls, Way},
    http1::client::{
        self, Call, Timeouts,
        permits::{Limits, Permits},
        pool::{Keeper, Pool},
    },
};

/// By an object's address in memory, which is its own while it lives.
type ByAddress<T> = HashMap<usize, T, foldhash::fast::FixedState>;

/// The HTTP side of one upstream: its nodes' permits, for all threads.
pub struct Http {
    limits: Limits,
    timeouts: Timeouts,
    threads: usize,
    tls: Option<Arc<Tls>>,
    /// By the node's address in memory; as long as the node lives.
    permits: RwLock<ByAddress<(Weak<Node>, Arc<Permits>)>>,
}

/// This thread's pools, by the node's permits.
struct Pools {
    keeper: Keeper,
    pools: RefCell<ByAddress<Kept>>,
}

struct Kept {
    permits: Weak<Permits>,
    /// Whoever may still call the node holds it.
    node: Weak<Node>,
    pool: Pool,
}

impl Http {
    /// `threads` workers share the limits of `limits`.
    pub fn new(limits: Limits, timeouts: Timeouts, threads: usize) -> Self {
        Self { limits, timeouts, threads, tls: None, permits: RwLock::default() }
    }

    /// The same over TLS, where there is some.
    pub fn secured(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }

    /// The permits of a node; the same for every thread.
    pub fn permits(&self, node: &Arc<Node>) -> Arc<Permits> {
        let key = Arc::as_ptr(node) as usize;
        if let Some((alive, it)) = self.permits.read().unwrap_or_else(|it| it.into_inner()).get(&key)
            && alive.strong_count() > 0
        {
            return it.clone();
        }
        let mut all = self.permits.write().unwrap_or_else(|it| it.into_inner());
        all.retain(|_, (alive, _)| alive.strong_count() > 0);
        all.entry(key)
            .or_insert_with(|| (Arc::downgrade(node), Permits::counting(self.limits, self.threads, node.in_flight.clone())))
            .1
            .clone()
    }

    fn pool(&self, local: &Local, node: &Arc<Node>) -> Pool {
        let permits = self.permits(node);
        let pools: Rc<Pools> = local.get_or(|| Pools { keeper: Keeper::start(), pools: RefCell::default() });
        let key = Arc::as_ptr(&permits) as usize;
        if let Some(it) = pools.pools.borrow().get(&key)
            && it.permits.strong_count() > 0
        {
            return it.pool.clone();
        }
        let way = Way::new(self.tls.as_ref(), node.authority.host(), node.address, Spoken::Http1);
        let pool = Pool::new(permits.clone(), way, vec![node.address], &pools.keeper);
        let kept = Kept { permits: Arc::downgrade(&permits), node: Arc::downgrade(node), pool: pool.clone() };
        // What stood there belonged to permits that are gone; its connections close outside of the borrow.
        let former = pools.pools.borrow_mut().insert(key, kept);
        drop(former);
        pool
    }

    /// One call to one node.
    pub async fn send(
        &self,
        local: &Local,
        node: &Arc<Node>,
        request: Request,
        received: &HeaderMap,
        early: Option<&dyn Early>,
        time: Time,
    ) -> Result<Response<Body>, Box<Failed>> {
        let pool = self.pool(local, node);
        let Request { method, target, host, mut headers, body, upgrade, spoken } = request;
        let (protocol, bytes) = match upgrade {
            Some(Upgrade { protocol, bytes }) => {
                headers.get_or_insert_with(|| received.clone()).insert(UPGRADE, protocol.clone());
                (Some(protocol), Some(bytes))
            }
            None => (None, None),
        };
        let mut on_early = |status: StatusCode, headers: &HeaderMap| {
            if let Some(it) = early {
                it.send(status, headers);
            }
        };
        let spare = (method.clone(), host.clone());
        let call = Call {
            method,
            target: &target,
            host,
            headers: headers.as_ref().unwrap_or(received),
            body,
            upgrade: bytes,
            on_early: &mut on_early,
            timeouts: self.timeouts,
            deadline: time.head,
            body_deadline: time.body,
        };
        let sent = client::send(&pool, call).await;
        sent.map_err(|mut it| {
            let left = it.body.take().map(|body| {
                let upgrade = it.upgrade.take().zip(protocol).map(|(bytes, protocol)| Upgrade { protocol, bytes: bytes.0 });
                let (method, host) = spare;
                Request { method, target, host, headers, body, upgrade, spoken }
            });
            let error = it.request_body.is_none().then_some(it.error);
            let sent = it.sent;
            Box::new(Failed { problem: it.into_problem(), error, sent, request: left })
        })
    }
}

/// Forgets this thread's pools of nodes that are gone, with their idle connections.
pub fn sweep(local: &Local) {
    let pools: Rc<Pools> = local.get_or(|| Pools { keeper: Keeper::start(), pools: RefCell::default() });
    // The permits tell nothing: the pool and its idle connections hold them.
    let gone: Vec<_> = pools.pools.borrow_mut().extract_if(|_, it| it.node.strong_count() == 0).collect();
    drop(gone);
}
