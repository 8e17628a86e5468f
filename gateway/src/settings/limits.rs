//! How much one client, one request and one answer may take, and what the gateway says beyond.
use std::time;

use schemars::JsonSchema;
use schemas::units::{Duration, Size};
use serde::{Deserialize, Serialize};

use super::fault::Faults;

/// Limits of requests, bodies and connections. The defaults are safe on the open internet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The head of a request.
    pub request: Request,
    /// The body of a request.
    pub body: Body,
    /// Connections of clients.
    pub connection: Connection,
    /// Connections of HTTP/2.
    pub http2: Http2,
    /// Long connections: WebSocket, server-sent events, streams.
    pub stream: Stream,
    /// How the gateway ends.
    pub drain: Drain,
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// The request line, method and target. Beyond: 414.
    pub line: Size,
    /// All headers together. Beyond: 431.
    pub headers: Size,
    /// One header, name and value. Beyond: 431.
    pub header: Size,
    /// How many headers. Beyond: 431.
    pub header_count: u32,
    /// How many parameters a query may have where parameters are read. Beyond: 414.
    pub query_count: u32,
    /// From a connection's start, or a request's first byte, to the end of its head. Beyond: 408, and the connection is closed.
    pub head_time: Duration,
    /// A whole request, from its head to its answer's end, where its Api names no time; streams and long connections have none. Beyond: 504.
    pub time: Duration,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Body {
    /// A body, where its Api names no `max_size`. Beyond: 413.
    pub size: Size,
    /// A body that is read into memory: by `params`, `body`, scripts. Beyond: 413.
    pub buffered: Size,
    /// How many fields a form may have. Beyond: 400.
    pub field_count: u32,
    /// How deep JSON may be nested. Beyond: 400.
    pub json_depth: u32,
    /// How long a body may pause. Beyond: 408.
    pub idle: Duration,
    /// A whole body, from first to last byte. Beyond: 408.
    pub time: Duration,
    /// The least that must arrive each second, on average, once `slow_after` has passed. Beyond: 408.
    pub least_rate: Size,
    /// When `least_rate` begins to count.
    pub slow_after: Duration,
}

/// Connections of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Connection {
    /// How many at a time, in all; half of the file descriptors that the process may open where left out. Beyond: closed at once.
    pub count: Option<u32>,
    /// How many at a time from one address, unless it is one of `trusted_proxies`. Beyond: closed at once.
    pub count_per_address: u32,
    /// How long one may wait for its next request. Beyond: closed.
    pub idle: Duration,
    /// How many requests one may carry. Beyond: closed after the answer.
    pub requests: u32,
    /// How old one may become. Beyond: closed after the answer.
    pub age: Duration,
    /// How long a TLS handshake may take. Beyond: closed.
    pub tls_handshake: Duration,
    /// How long a client may take nothing of its answer. Beyond: reset.
    pub write_stall: Duration,
}

/// Connections of HTTP/2, besides what `connection` says. Beyond a count of frames a connection ends with GOAWAY.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http2 {
    /// How many requests may be open at once on a connection. Beyond: the stream is refused.
    pub streams: u32,
    /// How much of one request's body may lie here unread.
    pub stream_window: Size,
    /// How much of all bodies of a connection may lie here unread.
    pub connection_window: Size,
    /// How many requests a client may reset in a second.
    pub resets: u32,
    /// How many requests a client may reset in a connection's life.
    pub resets_in_all: u32,
    /// How many PING, SETTINGS and PRIORITY frames may come in a second, each.
    pub control: u32,
    /// How many empty DATA frames may come in a second.
    pub empty_data: u32,
    /// How many CONTINUATION frames one head may take.
    pub continuations: u32,
}

/// Long connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Stream {
    /// How long one may be silent in both directions. Beyond: closed.
    pub idle: Duration,
}

/// How the gateway ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Drain {
    /// How long `/ready` says no before listeners close, so that load balancers see it.
    pub wait: Duration,
    /// How long requests and long connections may take to end. Beyond: reset.
    pub time: Duration,
}

const fn seconds(it: u64) -> Duration {
    Duration(time::Duration::from_secs(it))
}

const fn kib(it: u64) -> Size {
    Size(it * 1024)
}

impl Default for Request {
    fn default() -> Self {
        Self {
            line: kib(8),
            headers: kib(32),
            header: kib(8),
            header_count: 100,
            query_count: 1000,
            head_time: seconds(10),
            time: seconds(60),
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self {
            size: kib(10 * 1024),
            buffered: kib(1024),
            field_count: 1000,
            json_depth: 64,
            idle: seconds(30),
            time: seconds(300),
            least_rate: Size(240),
            slow_after: seconds(10),
        }
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            count: None,
            count_per_address: 256,
            idle: seconds(60),
            requests: 1000,
            age: seconds(3600),
            tls_handshake: seconds(10),
            write_stall: seconds(30),
        }
    }
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            streams: 100,
            stream_window: kib(64),
            connection_window: kib(1024),
            resets: 100,
            resets_in_all: 10_000,
            control: 50,
            empty_data: 100,
            continuations: 8,
        }
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self { idle: seconds(300) }
    }
}

impl Default for Drain {
    fn default() -> Self {
        Self { wait: seconds(5), time: seconds(30) }
    }
}

/// No head is read into more memory than this.
const MOST_HEAD: Size = kib(1024);
/// No body is buffered into more memory than this.
const MOST_BUFFERED: Size = kib(1024 * 1024);

/// No window of HTTP/2 is larger.
const MOST_WINDOW: Size = kib(64 * 1024);

impl Limits {
    /// What limits have against each other.
    pub fn check(&self, faults: &mut Faults) {
        self.check_ranges(faults);
        let (request, body) = (&self.request, &self.body);
        at_most(faults, ("request/header", request.header), ("request/headers", request.headers));
        at_most(faults, ("body/buffered", body.buffered), ("body/size", body.size));
        at_most(faults, ("body/idle", body.idle), ("body/time", body.time));
        at_most(faults, ("http2/stream_window", self.http2.stream_window), ("http2/connection_window", self.http2.connection_window));
        at_most(faults, ("body/slow_after", body.slow_after), ("body/time", body.time));
        if let Some(count) = self.connection.count {
            at_most(faults, ("connection/count_per_address", self.connection.count_per_address), ("connection/count", count));
        }
    }

    fn check_ranges(&self, faults: &mut Faults) {
        let (request, body, connection, http2) = (&self.request, &self.body, &self.connection, &self.http2);
        for (name, value, least, most) in [
            ("request/line", request.line, Size(64), MOST_HEAD),
            ("request/headers", request.headers, Size(256), MOST_HEAD),
            ("request/header", request.header, Size(64), MOST_HEAD),
            ("body/size", body.size, Size(0), Size(u64::MAX)),
            ("body/buffered", body.buffered, Size(0), MOST_BUFFERED),
            ("http2/stream_window", http2.stream_window, kib(16), MOST_WINDOW),
            ("http2/connection_window", http2.connection_window, kib(64), MOST_WINDOW),
        ] {
            within(faults, name, value, least, most);
        }
        for (name, value, least, most) in [
            ("request/header_count", request.header_count, 1, 10_000),
            ("request/query_count", request.query_count, 1, 100_000),
            ("body/field_count", body.field_count, 1, 100_000),
            ("body/json_depth", body.json_depth, 1, 128),
            ("connection/count", connection.count.unwrap_or(1), 1, u32::MAX),
            ("connection/count_per_address", connection.count_per_address, 1, u32::MAX),
            ("connection/requests", connection.requests, 1, u32::MAX),
            ("http2/streams", http2.streams, 1, 10_000),
            ("http2/resets", http2.resets, 1, u32::MAX),
            ("http2/resets_in_all", http2.resets_in_all, 1, u32::MAX),
            ("http2/control", http2.control, 5, u32::MAX),
            ("http2/empty_data", http2.empty_data, 1, u32::MAX),
            ("http2/continuations", http2.continuations, 1, 1000),
        ] {
            within(faults, name, value, least, most);
        }
        let (soon, late) = (Duration(time::Duration::from_millis(10)), seconds(365 * 86_400));
        for (name, value) in [
            ("request/head_time", request.head_time),
            ("request/time", request.time),
            ("body/idle", body.idle),
            ("body/time", body.time),
            ("connection/idle", connection.idle),
            ("connection/age", connection.age),
            ("connection/tls_handshake", connection.tls_handshake),
            ("connection/write_stall", connection.write_stall),
            ("stream/idle", self.stream.idle),
            ("drain/time", self.drain.time),
        ] {
            within(faults, name, value, soon, late);
        }
        within(faults, "drain/wait", self.drain.wait, seconds(0), seconds(600));
        within(faults, "body/slow_after", body.slow_after, seconds(0), late);
    }
}

fn within<T: PartialOrd + std::fmt::Display>(faults: &mut Faults, name: &str, value: T, least: T, most: T) {
    if value < least {
        faults.error(&format!("/limits/{name}"), format!("`{value}` is too small: at least `{least}`"));
    } else if value > most {
        faults.error(&format!("/limits/{name}"), format!("`{value}` is too large: at most `{most}`"));
    }
}

fn at_most<T: PartialOrd + std::fmt::Display>(faults: &mut Faults, small: (&str, T), large: (&str, T)) {
    if small.1 > large.1 {
        let spoken = |it: &str| format!("limits.{}", it.replace('/', "."));
        let message = format!("`{}` ({}) is beyond `{}` ({})", spoken(small.0), small.1, spoken(large.0), large.1);
        faults.error(&format!("/limits/{}", small.0), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_do_not_contradict_each_other() {
        let mut faults = Faults::default();
        Limits::default().check(&mut faults);
        assert_eq!(faults.list, []);
    }

    #[test]
    fn limits_that_contradict_each_other_are_told() {
        type Change = fn(&mut Limits);
        let cases: &[(Change, &str)] = &[
            (
                |it| it.request.header = kib(64),
                "/limits/request/header: `limits.request.header` (64KiB) is beyond `limits.request.headers` (32KiB)",
            ),
            (|it| it.body.size = kib(1), "/limits/body/buffered: `limits.body.buffered` (1MiB) is beyond `limits.body.size` (1KiB)"),
            (|it| it.body.idle = seconds(600), "/limits/body/idle: "),
            (|it| it.connection.count = Some(10), "/limits/connection/count_per_address: "),
            (|it| it.connection.count = Some(0), "/limits/connection/count: `0` is too small: at least `1`"),
            (|it| it.request.line = kib(4096), "/limits/request/line: `4MiB` is too large: at most `1MiB`"),
            (|it| it.request.head_time = seconds(0), "/limits/request/head_time: `0"),
            (|it| it.body.json_depth = 1000, "/limits/body/json_depth: "),
        ];
        for (change, want) in cases {
            let (mut limits, mut faults) = (Limits::default(), Faults::default());
            change(&mut limits);
            limits.check(&mut faults);
            let got: Vec<_> = faults.list.iter().map(|it| format!("{}: {}", it.pointer, it.message)).collect();
            assert!(got.iter().any(|it| it.starts_with(want)), "{want}: {got:?}");
        }
    }
}
