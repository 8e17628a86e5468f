//! One line of JSON for each request, handed on in chunks, so that no request waits for a disk.
use std::{
    cell::RefCell,
    io::{self, Write},
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};

use contract::meter::Counter;
use http::{HeaderMap, HeaderName, Method, StatusCode, Version, header};
use tokio::sync::Notify;

use super::{
    log::Log,
    redact::{HIDDEN, Redaction},
    sink::{Destination, Sink, SinkHandle},
    text::{Stamp, push_integer, push_json, push_millis},
};

/// How the access log is written.
#[derive(Clone, Debug)]
pub struct Options {
    pub to: Destination,
    /// A worker hands its lines on when it has this many bytes,
    pub buffer: usize,
    /// or when the oldest has waited this long.
    pub flush: Duration,
    /// How many bytes may wait to be written, for all workers; lines beyond are dropped and counted.
    pub queue: usize,
    /// Request headers that are written as well, under `headers`.
    pub headers: Vec<HeaderName>,
    pub redaction: Redaction,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            to: Destination::Stdout,
            buffer: 32 * 1024,
            flush: Duration::from_millis(200),
            queue: 8 * 1024 * 1024,
            headers: Vec::new(),
            redaction: Redaction::default(),
        }
    }
}

/// The access log of one gateway. Dropping it writes what was handed on.
pub struct AccessLog {
    sink: Sink,
    shape: Arc<Shape>,
}

/// The access log as one worker has it: a buffer of its own. Dropping it hands on what is left.
pub struct AccessLogWriter {
    lines: RefCell<Lines>,
    sink: SinkHandle,
    shape: Arc<Shape>,
    /// Told when a first line is waiting.
    waiting: Notify,
}

/// What is told of one request. Texts are as received; writing escapes, cuts and redacts them.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// When the head was read.
    pub at: SystemTime,
    pub id: &'a [u8],
    /// The trace's id, in hex; left out where empty.
    pub trace: &'a [u8],
    pub client_ip: IpAddr,
    pub method: &'a Method,
    pub scheme: &'static str,
    pub host: &'a [u8],
    pub path: &'a [u8],
    pub query: Option<&'a [u8]>,
    pub protocol: Version,
    /// The request's headers.
    pub headers: &'a HeaderMap,
    pub status: StatusCode,
    /// Why the gateway itself answered; left out where empty.
    pub reason: &'a str,
    /// Left out, with `version`, where no route was found.
    pub api: &'a str,
    pub version: &'a str,
    /// Left out, with `node`, where nobody was asked.
    pub upstream_name: &'a str,
    /// The last node that was asked.
    pub node: Option<SocketAddr>,
    /// How many calls were made; left out where none was.
    pub calls: u32,
    /// Body bytes that came from the client.
    pub bytes_in: u64,
    /// Body bytes that went to the client.
    pub bytes_out: u64,
    /// From the head to the last byte.
    pub duration: Duration,
    /// From the first call to the last answer's head.
    pub upstream_duration: Option<Duration>,
    /// False when the client left, or the backend broke off, before the last byte.
    pub completed: bool,
}

struct Shape {
    options: Options,
    /// [`Options::headers`], and whether their values are hidden.
    headers: Box<[(HeaderName, bool)]>,
}

#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    count: u64,
    stamp: Stamp,
}

/// The most that is written of one text that a client chose.
const LONGEST: usize = 4096;

impl AccessLog {
    /// Opens the destination and starts the thread that writes to it. `log` is told when writing fails.
    pub fn start(options: Options, written: Counter, dropped: Counter, log: Log) -> io::Result<Self> {
        let chunks = options.queue / options.buffer.max(1);
        let failed = move |error: &io::Error| {
            log.error("access_log", format_args!("lines are lost: {error}"), &[]);
        };
        let sink = Sink::start("access-log", options.to.clone(), chunks, written, dropped, failed)?;
        let headers = options.headers.iter().map(|it| (it.clone(), options.redaction.hides_header(it.as_str()))).collect();
        Ok(Self { sink, shape: Arc::new(Shape { options, headers }) })
    }

    /// A buffer for one worker.
    pub fn writer(&self) -> AccessLogWriter {
        AccessLogWriter { lines: RefCell::default(), sink: self.sink.handle(), shape: self.shape.clone(), waiting: Notify::new() }
    }

    /// Opens the file anew: what SIGHUP asks for.
    pub fn reopen(&self) {
        self.sink.reopen();
    }

    /// Waits until what was handed on is written, or `patience` is over. Never on a worker.
    pub fn flush(&self, patience: Duration) -> bool {
        self.sink.handle().flush(patience)
    }
}

impl AccessLogWriter {
    /// Takes down one request.
    pub fn write(&self, entry: &Entry<'_>) {
        let mut lines = self.lines.borrow_mut();
        if lines.text.is_empty() {
            // Room for the line that goes over the edge, so that a buffer is one allocation.
            lines.text.reserve(self.shape.options.buffer + 2048);
            self.waiting.notify_one();
        }
        let Lines { text, stamp, .. } = &mut *lines;
        self.shape.push(text, stamp, entry);
        lines.count += 1;
        if lines.text.len() >= self.shape.options.buffer {
            self.hand_on(&mut lines);
        }
    }

    /// Hands on what is waiting.
    pub fn flush(&self) {
        self.hand_on(&mut self.lines.borrow_mut());
    }

    /// Hands lines on in time; to be spawned on the worker. Sleeps while there are none.
    pub async fn run(self: Rc<Self>) {
        loop {
            self.waiting.notified().await;
            tokio::time::sleep(self.shape.options.flush).await;
            self.flush();
        }
    }

    fn hand_on(&self, lines: &mut Lines) {
        if lines.count > 0 {
            self.sink.send(std::mem::take(&mut lines.text), std::mem::take(&mut lines.count));
        }
    }
}

impl Drop for AccessLogWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

// === impl Shape ===

impl Shape {
    fn push(&self, to: &mut Vec<u8>, stamp: &mut Stamp, it: &Entry<'_>) {
        let redaction = &self.options.redaction;
        to.extend_from_slice(b"{\"time\":\"");
        stamp.push(to, it.at);
        to.push(b'"');
        text(to, r#","id":""#, it.id);
        optional(to, r#","trace":""#, it.trace);
        quoted(to, r#","client_ip":""#, |to| push_ip(to, it.client_ip));
        // A token has nothing to escape, but may be of any length.
        quoted(to, r#","method":""#, |to| cut(to, it.method.as_str().as_bytes(), |to, it| to.extend_from_slice(it)));
        plain(to, r#","scheme":""#, it.scheme);
        text(to, r#","host":""#, it.host);
        text(to, r#","path":""#, it.path);
        if let Some(query) = it.query {
            quoted(to, r#","query":""#, |to| cut(to, query, |to, it| redaction.push_query(to, it)));
        }
        plain(to, r#","protocol":""#, protocol(it.protocol));
        number(to, r#","status":"#, it.status.as_u16().into());
        optional(to, r#","reason":""#, it.reason.as_bytes());
        if !it.api.is_empty() {
            text(to, r#","api":""#, it.api.as_bytes());
            text(to, r#","version":""#, it.version.as_bytes());
        }
        optional(to, r#","upstream":""#, it.upstream_name.as_bytes());
        if let Some(node) = it.node {
            quoted(to, r#","node":""#, |to| push_address(to, node));
        }
        if it.calls > 0 {
            number(to, r#","calls":"#, it.calls.into());
        }
        number(to, r#","bytes_in":"#, it.bytes_in);
        number(to, r#","bytes_out":"#, it.bytes_out);
        to.extend_from_slice(br#","duration_ms":"#);
        push_millis(to, it.duration);
        if let Some(taken) = it.upstream_duration {
            to.extend_from_slice(br#","upstream_ms":"#);
            push_millis(to, taken);
        }
        to.extend_from_slice(br#","completed":"#);
        to.extend_from_slice(if it.completed { b"true" } else { b"false" });
        if let Some(agent) = it.headers.get(header::USER_AGENT) {
            text(to, r#","user_agent":""#, agent.as_bytes());
        }
        if let Some(referer) = it.headers.get(header::REFERER) {
            quoted(to, r#","referer":""#, |to| cut(to, referer.as_bytes(), |to, it| redaction.push_url(to, it)));
        }
        self.push_headers(to, it.headers);
        to.extend_from_slice(b"}\n");
    }

    /// The headers that the settings name and the request has; of repeated ones the first.
    fn push_headers(&self, to: &mut Vec<u8>, headers: &HeaderMap) {
        let mut any = false;
        for (name, hidden) in &self.headers {
            let Some(value) = headers.get(name) else { continue };
            to.extend_from_slice(if any { b",\"" } else { b",\"headers\":{\"" });
            any = true;
            push_json(to, name.as_str().as_bytes());
            to.extend_from_slice(b"\":\"");
            match hidden {
                true => to.extend_from_slice(HIDDEN.as_bytes()),
                false => cut(to, value.as_bytes(), push_json),
            }
            to.push(b'"');
        }
        if any {
            to.push(b'}');
        }
    }
}

/// `start` is what stands before a text, its opening quote included: `,"id":"`.
fn quoted(to: &mut Vec<u8>, start: &'static str, value: impl FnOnce(&mut Vec<u8>)) {
    to.extend_from_slice(start.as_bytes());
    value(to);
    to.push(b'"');
}

fn text(to: &mut Vec<u8>, start: &'static str, value: &[u8]) {
    quoted(to, start, |to| cut(to, value, push_json));
}

fn optional(to: &mut Vec<u8>, start: &'static str, value: &[u8]) {
    if !value.is_empty() {
        text(to, start, value);
    }
}

/// A text of our own, in which nothing needs to be escaped.
fn plain(to: &mut Vec<u8>, start: &'static str, value: &'static str) {
    quoted(to, start, |to| to.extend_from_slice(value.as_bytes()));
}

fn number(to: &mut Vec<u8>, start: &'static str, value: u64) {
    to.extend_from_slice(start.as_bytes());
    push_integer(to, value);
}

/// Writes the beginning of what is too long, and three dots. A secret's name stands before its value, so cutting uncovers none.
fn cut(to: &mut Vec<u8>, value: &[u8], push: impl FnOnce(&mut Vec<u8>, &[u8])) {
    match value.get(..LONGEST) {
        Some(start) if value.len() > LONGEST => {
            push(to, start);
            to.extend_from_slice(b"...");
        }
        _ => push(to, value),
    }
}

fn push_ip(to: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(it) => {
            for (at, part) in it.octets().into_iter().enumerate() {
                if at > 0 {
                    to.push(b'.');
                }
                push_integer(to, part.into());
            }
        }
        // Writing into a Vec cannot fail.
        IpAddr::V6(it) => drop(write!(to, "{it}")),
    }
}

fn push_address(to: &mut Vec<u8>, it: SocketAddr) {
    match it.ip() {
        ip @ IpAddr::V4(_) => {
            push_ip(to, ip);
            to.push(b':');
            push_integer(to, it.port().into());
        }
        // Writing into a Vec cannot fail.
        IpAddr::V6(_) => drop(write!(to, "{it}")),
    }
}

fn protocol(it: Version) -> &'static str {
    match it {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_3 => "HTTP/3",
        _ => "HTTP/1.1",
    }
}

#[cfg(test)]
mod tests;
