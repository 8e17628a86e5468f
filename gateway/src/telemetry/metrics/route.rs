//! The figures of one Api, resolved when its route is compiled.
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use http::{Method, StatusCode};

use super::{
    exposition::Exposition,
    histogram::{Bounds, Histogram},
};

/// The figures of one Api and version. Recording is a handful of relaxed additions.
#[derive(Clone)]
pub struct RouteMetrics(pub(super) Arc<RouteFigures>);

/// A request on its way through a route; dropping it takes it out of `allium_requests_in_flight`.
#[must_use]
pub struct InFlight(Arc<RouteFigures>);

/// What is counted of one finished request.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    pub method: &'a Method,
    pub status: StatusCode,
    pub taken: Duration,
    /// Body bytes that came from the client.
    pub received: u64,
    /// Body bytes that went to the client.
    pub sent: u64,
}

pub(super) struct RouteFigures {
    /// By method; a row is made when a method is first seen, so that most routes have one.
    requests: [OnceLock<Box<[AtomicU64; STATUSES]>>; METHODS.len()],
    duration: Histogram,
    in_flight: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

impl RouteMetrics {
    pub fn enter(&self) -> InFlight {
        self.0.in_flight.fetch_add(1, Relaxed);
        InFlight(self.0.clone())
    }

    pub fn record(&self, it: Finished<'_>) {
        let row = self.0.requests[method_at(it.method)].get_or_init(|| Box::new([const { AtomicU64::new(0) }; STATUSES]));
        row[status_at(it.status)].fetch_add(1, Relaxed);
        self.0.duration.observe(it.taken);
        if it.received > 0 {
            self.0.received.fetch_add(it.received, Relaxed);
        }
        if it.sent > 0 {
            self.0.sent.fetch_add(it.sent, Relaxed);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

// === impl RouteFigures ===

impl RouteFigures {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            requests: [const { OnceLock::new() }; METHODS.len()],
            duration: Histogram::new(bounds),
            in_flight: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }

    pub(super) fn write_requests(&self, to: &mut Exposition, api: &str, version: &str) {
        for (method, row) in METHODS.iter().zip(&self.requests).filter_map(|(method, row)| Some((method, row.get()?))) {
            for (status, count) in status_names().zip(row.iter()) {
                let count = count.load(Relaxed);
                if count > 0 {
                    to.integer(&[("api", api), ("version", version), ("method", method), ("status", status)], count);
                }
            }
        }
    }

    pub(super) fn write_duration(&self, to: &mut Exposition, labels: &[(&str, &str)]) {
        if self.is_used() {
            to.histogram(labels, &self.duration);
        }
    }

    pub(super) fn write_in_flight(&self, to: &mut Exposition, labels: &[(&str, &str)]) {
        let now = self.in_flight.load(Relaxed);
        if now > 0 || self.is_used() {
            to.integer(labels, now);
        }
    }

    pub(super) fn write_received(&self, to: &mut Exposition, labels: &[(&str, &str)]) {
        match self.received.load(Relaxed) {
            0 => {}
            it => to.integer(labels, it),
        }
    }

    pub(super) fn write_sent(&self, to: &mut Exposition, labels: &[(&str, &str)]) {
        match self.sent.load(Relaxed) {
            0 => {}
            it => to.integer(labels, it),
        }
    }

    /// A route that nobody asked for has no line.
    fn is_used(&self) -> bool {
        self.requests.iter().any(|it| it.get().is_some())
    }
}

// === words ===

const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "other"];

/// Statuses with a count of their own; the others of a class share one.
const KNOWN: [&str; 45] = [
    "101", "200", "201", "202", "203", "204", "205", "206", "207", "301", "302", "303", "304", "307", "308", "400", "401", "402", "403",
    "404", "405", "406", "407", "408", "409", "410", "411", "412", "413", "414", "415", "416", "417", "422", "423", "425", "428", "429",
    "431", "499", "500", "501", "502", "503", "504",
];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const STATUSES: usize = KNOWN.len() + CLASSES.len();

/// Where a status counts, by the status.
const PLACES: [u8; 1000] = {
    let mut places = [0; 1000];
    let mut status = 0;
    while status < 1000 {
        let class = match status / 100 {
            0 | 1 => 0,
            it if it < 5 => it - 1,
            _ => 4,
        };
        places[status] = (KNOWN.len() + class) as u8;
        status += 1;
    }
    let mut at = 0;
    while at < KNOWN.len() {
        let word = KNOWN[at].as_bytes();
        let status = (word[0] - b'0') as usize * 100 + (word[1] - b'0') as usize * 10 + (word[2] - b'0') as usize;
        places[status] = at as u8;
        at += 1;
    }
    places
};

fn status_at(status: StatusCode) -> usize {
    PLACES[usize::from(status.as_u16()) % PLACES.len()].into()
}

fn status_names() -> impl Iterator<Item = &'static str> {
    KNOWN.into_iter().chain(CLASSES)
}

/// A method that HTTP does not name counts as `other`: its name comes from the request.
fn method_at(method: &Method) -> usize {
    match *method {
        Method::GET => 0,
        Method::HEAD => 1,
        Method::POST => 2,
        Method::PUT => 3,
        Method::DELETE => 4,
        Method::OPTIONS => 5,
        Method::PATCH => 6,
        Method::CONNECT => 7,
        Method::TRACE => 8,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_counts_under_its_own_name_or_its_class() {
        let name = |it: u16| status_names().nth(status_at(StatusCode::from_u16(it).unwrap())).unwrap();
        for (status, want) in
            [(200, "200"), (101, "101"), (226, "2xx"), (103, "1xx"), (399, "3xx"), (418, "4xx"), (499, "499"), (599, "5xx"), (999, "5xx")]
        {
            assert_eq!(name(status), want);
        }
        assert!(KNOWN.is_sorted());
    }

    #[test]
    fn a_method_of_the_clients_own_making_is_no_label() {
        for (at, name) in METHODS.iter().enumerate().take(9) {
            assert_eq!(method_at(&Method::from_bytes(name.as_bytes()).unwrap()), at);
        }
        assert_eq!(METHODS[method_at(&Method::from_bytes(b"PURGE1234567890").unwrap())], "other");
    }
}
