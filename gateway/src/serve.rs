//! One request, top to bottom.
pub mod arrive;
pub mod ids;

use std::{cell::RefCell, net::SocketAddr, rc::Rc, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use contract::{
    Body, Exchange, Kind, Origin, Peer, Problem, RouteInfo, Scheme,
    exchange::{Caller, End, Upgrade},
    local::Local,
};
use http::{HeaderValue, Method, Response, StatusCode, header};
use ipnet::IpNet;

use self::{arrive::Forwarding, ids::Random};
use crate::{
    http1::{self, Handler, Incoming, Sent},
    params::{Form, Given},
    render,
    route::{
        api::{At, Life, Route, Served},
        table::{Ask, Found},
    },
    target::NoRoute,
    telemetry::{
        access_log::{AccessLogWriter, Entry},
        log::Log,
        metrics::{
            GatewayMetrics,
            route::{Finished, InFlight},
        },
    },
    upstream::Asked,
};

/// What all connections of all workers share.
pub struct Shared {
    pub served: Arc<ArcSwap<Served>>,
    pub metrics: Arc<GatewayMetrics>,
    pub log: Log,
    pub trusted: Box<[IpNet]>,
    pub keep_ids: bool,
    /// A whole request, where its Api names no time.
    pub time: std::time::Duration,
}

/// What all connections of one worker share.
pub struct Worker {
    pub shared: Arc<Shared>,
    pub local: Rc<Local>,
    pub access: Option<Rc<AccessLogWriter>>,
    random: Random,
}

/// Answers the requests of one connection.
pub struct Connection {
    worker: Rc<Worker>,
    peer: Peer,
    redirects: bool,
    forwarding: RefCell<Forwarding>,
}

/// What is known of a connection when its first request comes.
pub struct Arrival {
    /// The client's end, as the connection itself or a trusted PROXY header says it.
    pub addr: SocketAddr,
    pub local: SocketAddr,
    pub scheme: Scheme,
    /// Who the client is by its certificate.
    pub certificate: Option<Arc<Caller>>,
    /// Whether what came by plain HTTP is sent to HTTPS.
    pub redirects: bool,
}

/// What is known of one exchange when it is over.
#[derive(Default)]
pub struct Note {
    exchange: Option<Box<Exchange>>,
    route: Option<Arc<Route>>,
    /// Counted as in flight until the last byte.
    _in_flight: Option<InFlight>,
    at: Option<SystemTime>,
    reason: &'static str,
    received: u64,
    /// The client sent ids, so the trace's is not simply the request's.
    ids: bool,
}

impl Worker {
    pub fn new(shared: Arc<Shared>, local: Rc<Local>, access: Option<Rc<AccessLogWriter>>) -> Rc<Self> {
        Rc::new(Self { shared, local, access, random: Random::default() })
    }
}

impl Connection {
    pub fn new(worker: Rc<Worker>, arrival: Arrival) -> Self {
        let Arrival { addr, local, scheme, certificate, redirects } = arrival;
        let ip = addr.ip().to_canonical();
        let trusted = worker.shared.trusted.iter().any(|it| it.contains(&ip));
        let peer = Peer { addr, local, client_ip: ip, scheme, trusted, forwarded_host: None, certificate };
        Self { worker, peer, redirects, forwarding: RefCell::new(Forwarding::new(ip)) }
    }

    /// The request as an exchange, before its route is known.
    fn exchange(&self, arrived: Arrived, info: Arc<RouteInfo>, ids: &mut bool) -> Box<Exchange> {
        let Arrived { mut head, body, upgrade, early, started } = arrived;
        let mut peer = self.peer.clone();
        let hop = self.forwarding.borrow_mut().arrive(&mut head.headers, &mut peer, &self.worker.shared.trusted);
        *ids = hop.ids;
        let id = match hop.ids {
            true => ids::assign(&mut head.headers, self.worker.shared.keep_ids, &self.worker.random),
            false => ids::create(&mut head.headers, &self.worker.random),
        };
        let upgrade = hop.upgrade.zip(upgrade).map(|(protocol, bytes)| Upgrade { protocol, bytes });
        Box::new(Exchange {
            id,
            head,
            body,
            route: info,
            captures: Vec::new(),
            params: Vec::new(),
            peer,
            deadline: started.into_std() + self.worker.shared.time,
            target: None,
            entered: 0,
            preflight: false,
            vars: Vec::new(),
            caller: None,
            notes: Default::default(),
            early,
            upgrade,
            local: self.worker.local.clone(),
        })
    }

    /// Answers a request that came on no connection, as tests of definitions do. `prepare` sees the exchange before its route is known.
    pub async fn alone(&self, request: http::Request<Body>, prepare: impl FnOnce(&mut Exchange)) -> Response<Body> {
        let served = self.worker.shared.served.load_full();
        let (head, body) = request.into_parts();
        let arrived = Arrived { head, body, upgrade: None, early: None, started: tokio::time::Instant::now() };
        let mut ex = self.exchange(arrived, served.unmatched.infos[0].clone(), &mut false);
        prepare(&mut ex);
        let route = find(&served, &mut ex);
        self.run(&route, &mut ex, &mut "").await
    }

    /// Runs the exchange through its route; the answer is the client's.
    async fn run(&self, route: &Route, ex: &mut Exchange, note_reason: &mut &'static str) -> Response<Body> {
        let many = ex.query().is_some_and(|it| memchr::memchr_iter(b'&', it.as_bytes()).count() >= route.query_count);
        if let Some(params) = &route.early_params {
            let given = Given { head: &ex.head, names: &ex.route.captures, captures: &ex.captures, form: Form::Absent };
            ex.params = params.coerce(&given).0;
        }
        let outcome = match &route.life {
            _ if many => Err(Problem::new(Kind::UriTooLong, "the query has too many parameters")),
            Life::Draft => Err(Problem::new(Kind::NotFound, NO_API)),
            Life::Retired(_) => Err(Problem::new(Kind::Gone, "this API is retired")),
            Life::Active | Life::Deprecated(_) => route.chain.run(ex, &*route.target).await,
        };
        let mut answer = match outcome {
            Ok(it) => it,
            Err(problem) => {
                *note_reason = problem.reason;
                self.tell(&problem, ex, route);
                render::problem(&problem, ex)
            }
        };
        if let Life::Deprecated(it) | Life::Retired(it) = &route.life {
            it.tell(ex, answer.headers_mut());
        }
        // Whatever a backend calls it, it is this request.
        answer.headers_mut().insert(render::REQUEST_ID, ex.id.clone());
        answer
    }

    /// What a person on call can act on. A client's own mistakes are in the access log alone.
    fn tell(&self, problem: &Problem, ex: &Exchange, route: &Route) {
        self.worker.shared.metrics.refused(problem.reason);
        if problem.origin == Origin::Client {
            return;
        }
        let info = &route.infos[0];
        let asked = ex.notes.get::<Asked>();
        let upstream = asked.and_then(|it| it.upstream.as_ref()).map_or("", |it| &it.name);
        let node = asked.and_then(|it| it.node.as_ref()).map_or(String::new(), |it| it.address.to_string());
        let id = ex.id.to_str().unwrap_or("");
        self.worker.shared.log.warn(
            "request",
            format_args!("{}", problem.explain()),
            &[("reason", &problem.reason), ("api", &info.id), ("upstream", &upstream), ("node", &node), ("id", &id)],
        );
    }
}

/// A request, from a connection or from none.
struct Arrived {
    head: http::request::Parts,
    body: Body,
    upgrade: Option<contract::body::BoxBody>,
    early: Option<Box<dyn contract::exchange::Early>>,
    started: tokio::time::Instant,
}

impl From<Incoming> for Arrived {
    fn from(it: Incoming) -> Self {
        let Incoming { head, body, upgrade, early, started } = it;
        Self { head, body, upgrade, early: Some(early), started }
    }
}

const NO_API: &str = "there is no such API";

/// The method that a CORS preflight asks for.
fn preflight(ex: &Exchange) -> Option<Method> {
    if ex.head.method != Method::OPTIONS || !ex.head.headers.contains_key(header::ORIGIN) {
        return None;
    }
    Method::from_bytes(ex.head.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD)?.as_bytes()).ok()
}

/// Finds the route of an exchange, and gives the exchange what was captured.
fn find(served: &Served, ex: &mut Exchange) -> Arc<Route> {
    let asked = preflight(ex);
    let mut captures = std::mem::take(&mut ex.captures);
    let mut found_at = None;
    let found = {
        let ask = Ask { method: &ex.head.method, preflight: asked.as_ref(), host: ex.host(), path: ex.path() };
        let accept = |at: &At, _: &[(u32, u32)]| at.route.when.as_ref().is_none_or(|it| it.passes(&ex.scope()).unwrap_or(false));
        match served.table.find(&ask, &mut captures, accept) {
            Found::Route { value, preflight, .. } => {
                found_at = Some((value.clone(), preflight));
                None
            }
            Found::MethodNotAllowed { allow } => {
                Some(Problem::new(Kind::MethodNotAllowed, "this path is known, but not for this method").header(header::ALLOW, allow))
            }
            Found::NotFound => Some(Problem::new(Kind::NotFound, NO_API)),
            Found::BadPath(it) => Some(Problem::new(Kind::Invalid, it.message()).reason("bad_path")),
        }
    };
    ex.captures = captures;
    match found_at {
        Some((at, preflight)) => {
            let passes_on = at.route.chain.answers_preflight() || !at.any_method;
            ex.preflight = preflight && passes_on;
            ex.route = at.route.infos[at.pattern].clone();
            at.route
        }
        None => {
            if let Some(it) = found {
                ex.notes.put(NoRoute(it));
            }
            served.unmatched.clone()
        }
    }
}

/// The same place by HTTPS. 308 keeps the method and the body.
fn to_https(ex: &Exchange) -> Response<Body> {
    let host = ex.host();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => host,
    };
    let target = ex.head.uri.path_and_query().map_or("/", |it| it.as_str());
    let location = HeaderValue::try_from(format!("https://{name}{}{target}", if target.starts_with('/') { "" } else { "/" }));
    let mut answer = match location {
        Ok(it) if !name.is_empty() => {
            let mut answer = Response::new(Body::Empty);
            *answer.status_mut() = StatusCode::PERMANENT_REDIRECT;
            answer.headers_mut().insert(header::LOCATION, it);
            answer
        }
        _ => render::problem(&Problem::new(Kind::Invalid, "a host is needed").reason("bad_host"), ex),
    };
    answer.headers_mut().insert(render::REQUEST_ID, ex.id.clone());
    answer
}

impl Handler for Connection {
    type Note = Note;

    async fn call(&self, incoming: Incoming, note: &mut Note) -> Response<Body> {
        let served = self.worker.shared.served.load();
        note.received = http_body::Body::size_hint(&incoming.body).exact().unwrap_or(0);
        note.at = self.worker.access.is_some().then(SystemTime::now);
        let mut ex = self.exchange(incoming.into(), served.unmatched.infos[0].clone(), &mut note.ids);
        if self.redirects && ex.peer.scheme == Scheme::Http {
            note.route = Some(served.unmatched.clone());
            let answer = to_https(&ex);
            note.exchange = Some(ex);
            return answer;
        }
        let route = find(&served, &mut ex);
        drop(served);
        note._in_flight = Some(route.metrics.enter());
        note.route = Some(route.clone());
        let ex = note.exchange.insert(ex);
        self.run(&route, ex, &mut note.reason).await
    }

    fn refuse(&self, problem: Box<Problem>, note: &mut Note) -> Response<Body> {
        note.reason = problem.reason;
        note.at = Some(SystemTime::now());
        self.worker.shared.metrics.refused(problem.reason);
        match &note.exchange {
            Some(ex) => {
                // A handler that panicked, or a body that broke: the request was read.
                let mut answer = render::problem(&problem, ex);
                answer.headers_mut().insert(render::REQUEST_ID, ex.id.clone());
                answer
            }
            None => {
                let mut headers = http::HeaderMap::new();
                let id = ids::create(&mut headers, &self.worker.random);
                let mut answer = render::unread(&problem, &id);
                answer.headers_mut().insert(render::REQUEST_ID, id);
                answer
            }
        }
    }

    fn finished(&self, mut note: Note, sent: Sent) {
        self.record(&note, sent);
        if let Some(ex) = &mut note.exchange {
            http1::spare::give(std::mem::take(&mut ex.head.headers));
        }
    }
}

impl Connection {
    /// Counts an exchange that is over, tells its rings, and logs it.
    fn record(&self, note: &Note, sent: Sent) {
        let completed = sent.outcome == http1::Outcome::Complete;
        // 499, as nginx writes it: the client left before there was an answer.
        let status = sent.status.unwrap_or(StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST));
        let served;
        let (route, ex) = match (&note.route, &note.exchange) {
            (Some(route), Some(ex)) => (route, ex),
            _ => {
                served = self.worker.shared.served.load();
                served.unmatched.metrics.record(Finished { method: &Method::GET, status, taken: sent.took, received: 0, sent: sent.bytes });
                return self.log_unread(note, status, &sent);
            }
        };
        route.metrics.record(Finished { method: &ex.head.method, status, taken: sent.took, received: note.received, sent: sent.bytes });
        route.chain.done(ex.entered, &End { exchange: ex, status, sent: sent.bytes, completed });
        let Some(access) = &self.worker.access else { return };
        let asked = ex.notes.get::<Asked>();
        let trace = match note.ids {
            true => ex.head.headers.get(ids::TRACEPARENT).and_then(|it| it.as_bytes().get(3..35)).unwrap_or_default(),
            false => ex.id.as_bytes(),
        };
        access.write(&Entry {
            at: note.at.unwrap_or(SystemTime::UNIX_EPOCH),
            id: ex.id.as_bytes(),
            trace,
            client_ip: ex.peer.client_ip,
            method: &ex.head.method,
            scheme: ex.peer.scheme.as_str(),
            host: ex.host().as_bytes(),
            path: ex.path().as_bytes(),
            query: ex.query().map(str::as_bytes),
            protocol: ex.head.version,
            headers: &ex.head.headers,
            status,
            reason: note.reason,
            api: &ex.route.name,
            version: &ex.route.version,
            upstream_name: asked.and_then(|it| it.upstream.as_ref()).map_or("", |it| &it.name),
            node: asked.and_then(|it| it.node.as_ref()).map(|it| it.address),
            calls: asked.map_or(0, |it| it.calls),
            bytes_in: note.received,
            bytes_out: sent.bytes,
            duration: sent.took,
            upstream_duration: asked.map(|it| it.took),
            completed,
        });
    }

    /// A request that could not be read has no more to tell than who sent it.
    fn log_unread(&self, note: &Note, status: StatusCode, sent: &Sent) {
        let Some(access) = &self.worker.access else { return };
        access.write(&Entry {
            at: note.at.unwrap_or(SystemTime::UNIX_EPOCH),
            id: b"",
            trace: b"",
            client_ip: self.peer.client_ip,
            method: &Method::GET,
            scheme: self.peer.scheme.as_str(),
            host: b"",
            path: b"",
            query: None,
            protocol: http::Version::HTTP_11,
            headers: &http::HeaderMap::new(),
            status,
            reason: if note.reason.is_empty() { "unread" } else { note.reason },
            api: "",
            version: "",
            upstream_name: "",
            node: None,
            calls: 0,
            bytes_in: 0,
            bytes_out: sent.bytes,
            duration: sent.took,
            upstream_duration: None,
            completed: sent.outcome == http1::Outcome::Complete,
        });
    }
}
