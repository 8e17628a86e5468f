//! One request on its way through the gateway, and all that the rings learned about it.
use std::{
    any::{Any, TypeId},
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderMap, StatusCode, request};

use crate::{Body, Problem, body::BodyError, local::Local, value::Value};

/// One request, from its head to the answer's last byte.
pub struct Exchange {
    /// The request's id: the gateway's own, or the client's with `keep_ids`. Visible ASCII.
    pub id: http::HeaderValue,
    /// The request line and headers. They stay readable until the exchange ends.
    pub head: request::Parts,
    /// The request body. Whoever forwards it takes it.
    pub body: Body,
    pub route: Arc<RouteInfo>,
    /// What the pattern captured, undecoded, in the order of the pattern.
    pub captures: Captures,
    /// Declared parameters, coerced; in the order of [`RouteInfo::params`]. Empty until coerced.
    pub params: Vec<Value>,
    pub peer: Peer,
    pub deadline: Instant,
    /// Another upstream than the route's own, chosen by a ring.
    pub target: Option<Arc<str>>,
    /// Which rings let the exchange pass; one bit each.
    pub entered: u64,
    /// A CORS preflight, routed as the method that it asks for.
    pub preflight: bool,
    /// Set by plugins and scripts, for those further in.
    pub vars: Vec<(Box<str>, Value)>,
    /// Who is calling, once an authenticating ring knows.
    pub caller: Option<Arc<Caller>>,
    /// Ring to ring, by type; may hold guards.
    pub notes: Notes,
    /// Sends informational answers, where the client's protocol has them.
    pub early: Option<Box<dyn Early>>,
    /// The client asks for another protocol.
    pub upgrade: Option<Upgrade>,
    /// What belongs to the worker that this exchange runs on.
    pub local: Rc<Local>,
}

/// Sends answers such as 103 before the final one.
pub trait Early {
    /// False where it cannot be sent: the client's protocol has none, or the final answer has begun.
    fn send(&self, status: StatusCode, headers: &HeaderMap) -> bool;
}

/// A client that asks to leave HTTP, as WebSocket does.
pub struct Upgrade {
    /// The protocols it offers, as it wrote them.
    pub protocol: http::HeaderValue,
    /// What it sends after its head. It comes only once the answer of 101 has gone out.
    pub bytes: crate::body::BoxBody,
}

/// What every exchange of a route shares.
#[derive(Debug, Default)]
pub struct RouteInfo {
    /// `name@version`.
    pub id: Box<str>,
    pub name: Box<str>,
    pub version: Box<str>,
    /// The pattern as written; the label of metrics.
    pub pattern: Box<str>,
    /// Names of the captures, in the order of the pattern.
    pub captures: Vec<Box<str>>,
    /// Names of the declared parameters.
    pub params: Vec<Box<str>>,
    /// The most a buffered request body may hold, in bytes.
    pub body_limit: usize,
    /// How deep a JSON body may be nested.
    pub json_depth: usize,
    /// How many fields a form may have.
    pub field_count: usize,
    /// `node.id` and `node.zone`.
    pub node: Arc<NodeInfo>,
    /// What `secret('NAME')` of this route's expressions gives.
    pub secrets: Secrets,
}

/// This gateway, among several.
#[derive(Debug, Default)]
pub struct NodeInfo {
    pub id: Box<str>,
    pub zone: Box<str>,
}

/// Secret texts by name; never shown.
#[derive(Default)]
pub struct Secrets(pub Vec<(Box<str>, Box<str>)>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Who sent the request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The other end of the connection.
    pub addr: SocketAddr,
    /// Our end of the connection.
    pub local: SocketAddr,
    /// The client itself, which a trusted proxy may have named.
    pub client_ip: IpAddr,
    pub scheme: Scheme,
    /// Whether `addr` is one of `trusted_proxies`.
    pub trusted: bool,
    /// The host that the client asked a trusted proxy for.
    pub forwarded_host: Option<http::HeaderValue>,
    /// Who the connection's verified certificate names. It proves nothing to a route until a ring takes it for a proof.
    pub certificate: Option<Arc<Caller>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// An authenticated caller: `auth`, `app` and `plan` of expressions.
#[derive(Debug, Default)]
pub struct Caller {
    pub auth: Value,
    pub app: Value,
    pub plan: Value,
}

/// What was captured: spans of the request's raw path.
pub type Captures = Vec<(u32, u32)>;

/// How an exchange ended.
pub struct End<'a> {
    pub exchange: &'a Exchange,
    pub status: StatusCode,
    /// Body bytes that went to the client.
    pub sent: u64,
    /// False when the client left, or the backend broke off, before the last byte.
    pub completed: bool,
}

impl Exchange {
    /// An exchange inside this one: a pipeline's task, a mirrored copy.
    pub fn child(&self, head: request::Parts, body: Body) -> Exchange {
        Exchange {
            id: self.id.clone(),
            head,
            body,
            route: self.route.clone(),
            captures: Captures::new(),
            params: self.params.clone(),
            peer: self.peer.clone(),
            deadline: self.deadline,
            target: None,
            entered: 0,
            preflight: false,
            vars: self.vars.clone(),
            caller: self.caller.clone(),
            notes: Notes::default(),
            early: None,
            upgrade: None,
            local: self.local.clone(),
        }
    }

    /// This exchange with an owned copy of everything but a body on its way: for work that outlives the client.
    pub fn detach(&mut self) -> Exchange {
        let mut it = self.child(self.head.clone(), self.body.copy().unwrap_or_default());
        it.captures = self.captures.clone();
        it.target = self.target.clone();
        it.entered = self.entered;
        it
    }

    /// Reads the request body into memory, up to the route's `max_size`.
    pub async fn read_body(&mut self) -> Result<&bytes::Bytes, Box<Problem>> {
        let limit = self.route.body_limit;
        self.body.bytes(limit).await.map_err(BodyError::of_request)
    }

    /// The path as received, never empty.
    pub fn path(&self) -> &str {
        self.head.uri.path()
    }

    /// The query as received, without the question mark.
    pub fn query(&self) -> Option<&str> {
        self.head.uri.query()
    }

    /// The host that the client asked for, as received; empty where it named none.
    pub fn host(&self) -> &str {
        match (&self.peer.forwarded_host, self.head.uri.authority()) {
            (Some(it), _) => it.to_str().unwrap_or(""),
            (None, Some(it)) => it.as_str(),
            (None, None) => self.head.headers.get(http::header::HOST).and_then(|it| it.to_str().ok()).unwrap_or(""),
        }
    }

    /// One captured piece of the path, undecoded.
    pub fn capture(&self, name: &str) -> Option<&str> {
        let at = self.route.captures.iter().position(|it| **it == *name)?;
        let (from, to) = *self.captures.get(at)?;
        self.path().get(from as usize..to as usize)
    }

    pub fn param(&self, name: &str) -> Option<&Value> {
        let at = self.route.params.iter().position(|it| **it == *name)?;
        self.params.get(at)
    }

    pub fn var(&self, name: &str) -> Option<&Value> {
        self.vars.iter().find(|(it, _)| **it == *name).map(|(_, it)| it)
    }

    pub fn set_var(&mut self, name: &str, value: Value) {
        match self.vars.iter_mut().find(|(it, _)| **it == *name) {
            Some((_, it)) => *it = value,
            None => self.vars.push((name.into(), value)),
        }
    }

    /// What is left of the time that this exchange has.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Removes every spelling of a header that a ring is about to set, underscores included.
    pub fn forget_header(headers: &mut HeaderMap, name: &http::HeaderName) {
        let name = name.as_str().as_bytes();
        // Nearly always there is none, and a look at the names costs less than a look-up.
        let spelt = |it: &http::HeaderName| {
            let it = it.as_str().as_bytes();
            it.len() == name.len() && it.iter().zip(name).all(|(a, b)| a == b || (*a == b'_' && *b == b'-') || (*a == b'-' && *b == b'_'))
        };
        while let Some(found) = headers.keys().find(|it| spelt(it)).cloned() {
            headers.remove(found);
        }
    }
}

/// Things by their type. Empty costs nothing.
#[derive(Default)]
pub struct Notes(Vec<(TypeId, Box<dyn Any>)>);

impl Notes {
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.iter().find(|(id, _)| *id == TypeId::of::<T>()).and_then(|(_, it)| it.downcast_ref())
    }

    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.0.iter_mut().find(|(id, _)| *id == TypeId::of::<T>()).and_then(|(_, it)| it.downcast_mut())
    }

    /// Leaves `note` for others, in place of an older one of its type.
    pub fn put<T: 'static>(&mut self, note: T) {
        match self.get_mut::<T>() {
            Some(it) => *it = note,
            None => self.0.push((TypeId::of::<T>(), Box::new(note))),
        }
    }

    pub fn take<T: 'static>(&mut self) -> Option<T> {
        let at = self.0.iter().position(|(id, _)| *id == TypeId::of::<T>())?;
        self.0.swap_remove(at).1.downcast().ok().map(|it| *it)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn every_spelling_of_a_header_that_will_be_set_is_forgotten() {
        let mut headers = HeaderMap::new();
        for name in ["x-user-id", "x_user_id", "x-user_id", "x-user-idx"] {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static("forged"));
        }
        Exchange::forget_header(&mut headers, &HeaderName::from_static("x-user-id"));
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-user-idx"]);
    }

    #[test]
    fn a_note_replaces_the_older_one_of_its_type() {
        let mut notes = Notes::default();
        notes.put(1u32);
        notes.put("a");
        notes.put(2u32);
        assert_eq!((notes.get::<u32>().copied(), notes.take::<&str>(), notes.take::<&str>()), (Some(2), Some("a"), None));
    }
}
