//! What a plugin's own tests need: a route of one ring and a made-up upstream.
use std::{
    any::Any,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use http::HeaderValue;

use crate::{
    Body, Exchange, Outcome, Peer, RouteInfo, Scheme,
    caller::Directory,
    catalog::{Entry, Fault},
    env::{Env, Spawn, StateKey, States, SystemClock},
    exchange::Caller,
    expression::{Names, Place},
    meter::Nowhere,
    onion::{Chain, Ring, RingKind, Target},
};

/// An exchange on a route that asks for nothing.
pub fn exchange(request: http::Request<Body>) -> Exchange {
    let (head, body) = request.into_parts();
    let route = RouteInfo {
        id: "test@v1".into(),
        name: "test".into(),
        version: "v1".into(),
        body_limit: 1 << 20,
        json_depth: 64,
        field_count: 1000,
        ..RouteInfo::default()
    };
    Exchange {
        id: HeaderValue::from_static("test-request"),
        head,
        body,
        route: Arc::new(route),
        captures: Vec::new(),
        params: Vec::new(),
        peer: peer(Ipv4Addr::LOCALHOST.into()),
        deadline: Instant::now() + Duration::from_secs(5),
        target: None,
        entered: 0,
        preflight: false,
        vars: Vec::new(),
        caller: None,
        notes: Default::default(),
        early: None,
        upgrade: None,
        local: Default::default(),
    }
}

/// A client at `ip`, over plain HTTP.
pub fn peer(ip: IpAddr) -> Peer {
    Peer {
        addr: SocketAddr::new(ip, 40000),
        local: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
        client_ip: ip,
        scheme: Scheme::Http,
        trusted: false,
        forwarded_host: None,
        certificate: None,
    }
}

/// One ring around a made-up upstream that answers 200.
pub struct Bench {
    chain: Arc<Chain>,
    target: Arc<Answer>,
    ip: IpAddr,
    certificate: Option<Arc<Caller>>,
}

type Make = dyn Fn(&mut Exchange) -> Outcome + Send + Sync;

struct Answer(Box<Make>);

impl Target for Answer {
    async fn call(&self, ex: &mut Exchange) -> Outcome {
        (self.0)(ex)
    }
}

impl Bench {
    /// The ring of `entry` with a good `config`.
    pub fn of(entry: &Entry, config: serde_json::Value) -> Self {
        Self::around(entry, config, |_| Ok(http::Response::new(Body::Empty)))
    }

    /// The ring of `entry` with a good `config`, around this upstream.
    pub fn around(entry: &Entry, config: serde_json::Value, upstream: impl Fn(&mut Exchange) -> Outcome + Send + Sync + 'static) -> Self {
        Self::knowing(Directory::default(), entry, config, upstream)
    }

    /// The same, where these Apps may call.
    pub fn knowing(
        apps: Directory,
        entry: &Entry,
        config: serde_json::Value,
        upstream: impl Fn(&mut Exchange) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let (kind, reads_body) = build(apps, entry, config).unwrap_or_else(|it| panic!("the config is good: {it:?}"));
        let target = Arc::new(Answer(Box::new(upstream)));
        let ring = Ring { name: entry.name.into(), when: None, reads_body, kind };
        Self { chain: Chain::new(vec![ring], target.clone()), target, ip: Ipv4Addr::LOCALHOST.into(), certificate: None }
    }

    /// What is wrong with a `config` that the schema lets pass.
    pub fn faults(entry: &Entry, config: serde_json::Value) -> Vec<Fault> {
        build(Directory::default(), entry, config).err().unwrap_or_default()
    }

    /// The same ring, asked by a client at `ip`.
    pub fn from(&self, ip: IpAddr) -> Self {
        Self { chain: self.chain.clone(), target: self.target.clone(), ip, certificate: self.certificate.clone() }
    }

    /// The same ring, asked on a connection with a verified certificate of this caller.
    pub fn bearing(&self, certificate: Caller) -> Self {
        Self { chain: self.chain.clone(), target: self.target.clone(), ip: self.ip, certificate: Some(Arc::new(certificate)) }
    }

    /// One exchange; a preflight is marked as the router would. A problem becomes an answer without a body.
    pub async fn send(&self, request: http::Request<Body>) -> http::Response<Body> {
        let mut ex = exchange(request);
        ex.peer = Peer { certificate: self.certificate.clone(), ..peer(self.ip) };
        ex.preflight = ex.head.method == http::Method::OPTIONS && ex.head.headers.contains_key(http::header::ACCESS_CONTROL_REQUEST_METHOD);
        match self.chain.run(&mut ex, &*self.target).await {
            Ok(it) => it,
            Err(problem) => {
                let mut it = http::Response::new(Body::Empty);
                *it.status_mut() = problem.status();
                *it.headers_mut() = problem.headers.clone();
                it
            }
        }
    }
}

fn build(apps: Directory, entry: &Entry, config: serde_json::Value) -> Result<(RingKind, bool), Vec<Fault>> {
    struct NoStates;
    impl States for NoStates {
        fn get(&self, _: &StateKey, make: &mut dyn FnMut() -> Arc<dyn Any + Send + Sync>) -> Arc<dyn Any + Send + Sync> {
            make()
        }
    }
    struct Local;
    impl Spawn for Local {
        fn local(&self, work: Pin<Box<dyn Future<Output = ()>>>) {
            tokio::task::spawn_local(work);
        }
        fn background(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
            tokio::spawn(work);
        }
    }
    let env = Env {
        scope: StateKey { owner: "Api/test@v1".into(), plugin: entry.name.into(), name: "1".into(), config: 0 },
        authenticated: true,
        outside: &["outer".into()],
        apps: Arc::new(Arc::new(apps)),
        meter: &Nowhere,
        clock: Arc::new(SystemClock),
        spawn: Arc::new(Local),
        states: &NoStates,
        journal: Arc::new(|_, _, _| ()),
        caller: None,
        store: None,
        caches: None,
        scripts: None,
        rings: None,
        files: &|it| std::fs::read(it).map_err(|why| format!("`{it}` cannot be read: {why}")),
        knows_upstream: &|_| true,
        names: Names::new(Place::Plugin),
        reads: Default::default(),
        warnings: Default::default(),
    };
    let kind = (entry.build)(config, &env)?;
    Ok((kind, env.reads.get().body()))
}
