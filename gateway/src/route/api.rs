//! One Api, ready to serve: its rings, its heart, its condition, and where it is in its life.
use std::sync::Arc;

use contract::{Exchange, RouteInfo, expression::Expression, onion::Chain};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::table::Table;
use crate::{params::Params, target::Target, telemetry::metrics::route::RouteMetrics};

/// One Api. Built aside, shared by all threads, and kept by streams even after it was replaced.
pub struct Route {
    /// One for each pattern, in the order of the definition.
    pub infos: Box<[Arc<RouteInfo>]>,
    /// Of everything that it was made from; an equal one need not be built again.
    pub digest: u128,
    pub when: Option<Expression>,
    pub chain: Arc<Chain>,
    pub target: Arc<Target>,
    /// Where a ring outside of validation looks at them.
    pub early_params: Option<Arc<Params>>,
    /// How many parameters a query may have; beyond: 414.
    pub query_count: usize,
    pub life: Life,
    pub metrics: RouteMetrics,
}

/// A place in the table: a route, and which of its patterns it is.
#[derive(Clone)]
pub struct At {
    pub route: Arc<Route>,
    pub pattern: usize,
    /// The pattern names no methods.
    pub any_method: bool,
}

/// What is served at this moment; replaced as a whole.
pub struct Served {
    pub table: Table<At>,
    /// For requests that no Api takes.
    pub unmatched: Arc<Route>,
}

/// Where an Api is in its life.
pub enum Life {
    /// Nobody is to know it yet: 404.
    Draft,
    Active,
    Deprecated(Box<Notice>),
    /// It was, and is no more: 410.
    Retired(Box<Notice>),
}

/// What answers of a deprecated or retired Api tell.
#[derive(Default)]
pub struct Notice {
    /// `Deprecation` (RFC 9745), `Sunset` (RFC 8594), `X-API-Deprecated`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub successor: Option<Successor>,
}

/// The Api to use instead, as a path whose captures are taken from the request's own.
pub struct Successor {
    pub host: Option<Box<str>>,
    pub pieces: Box<[Piece]>,
}

pub enum Piece {
    Text(Box<str>),
    /// A capture of this route, by its number.
    Capture(usize),
}

impl Notice {
    /// Tells it to the client.
    pub fn tell(&self, ex: &Exchange, answer: &mut HeaderMap) {
        for (name, value) in &self.headers {
            answer.insert(name, value.clone());
        }
        if let Some(it) = self.successor.as_ref().and_then(|it| it.link(ex)) {
            answer.append(header::LINK, it);
        }
    }
}

impl Successor {
    /// `Link: </v3/…>; rel="successor-version"` (RFC 8288, RFC 5829).
    fn link(&self, ex: &Exchange) -> Option<HeaderValue> {
        let mut text = String::from("<");
        if let Some(host) = &self.host {
            text.push_str(ex.peer.scheme.as_str());
            text.push_str("://");
            text.push_str(host);
        }
        for piece in &self.pieces {
            match piece {
                Piece::Text(it) => text.push_str(it),
                Piece::Capture(at) => {
                    let (from, to) = *ex.captures.get(*at)?;
                    text.push_str(ex.path().get(from as usize..to as usize)?);
                }
            }
        }
        text.push_str(">; rel=\"successor-version\"");
        // A path may hold what no link may; then there is none.
        if text.bytes().filter(|it| matches!(it, b'<' | b'>' | b'"')).count() != 4 {
            return None;
        }
        HeaderValue::from_str(&text).ok()
    }
}
