//! What went wrong, and what changed: one line an event, for a person.
use std::{
    collections::HashMap,
    fmt::{self, Display, Write as _},
    hash::BuildHasher,
    io::{self, IsTerminal},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use contract::meter::Counter;

use super::{
    sink::{Destination, Sink, SinkHandle},
    text::{Stamp, push_json},
};

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Somebody should act.
    Error,
    /// Something is not as it should be, and the gateway goes on.
    Warn,
    /// Something changed.
    Info,
    /// Of use to whoever looks for a cause.
    Debug,
}

/// How events are spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Text,
    /// With colours: for a terminal.
    Coloured,
    Json,
}

impl Style {
    /// Text on a terminal, coloured unless `NO_COLOR` is set; JSON otherwise.
    pub fn of_stderr() -> Self {
        match io::stderr().is_terminal() {
            false => Self::Json,
            true if std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty()) => Self::Text,
            true => Self::Coloured,
        }
    }
}

/// Name and value of what an event is about.
pub type Fields<'a> = &'a [(&'static str, &'a dyn Display)];

/// Fields that differ with each request: they do not make two events different.
const OF_ONE_REQUEST: [&str; 4] = ["id", "trace", "client_ip", "duration_ms"];

/// Where events go. One a gateway; clones are the same log.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    level: Level,
    style: Style,
    out: Out,
    state: Mutex<State>,
}

enum Out {
    // Invariant: the handle is dropped with the sink, which ends the thread.
    Thread { handle: SinkHandle, _sink: Sink },
    Memory(Mutex<Vec<u8>>),
    Nowhere,
}

#[derive(Default)]
struct State {
    stamp: Stamp,
    hasher: foldhash::fast::RandomState,
    said: HashMap<u64, Said>,
    /// Events that were not even told apart.
    unheard: u64,
    unheard_since: Option<Instant>,
}

/// An event that was written lately.
struct Said {
    since: Instant,
    more: u64,
    level: Level,
    component: &'static str,
    message: Box<str>,
    /// What it is about, but for what was one request's alone.
    fields: Box<[(&'static str, Box<str>)]>,
}

/// For how long an event that is repeated is only counted.
const QUIET: Duration = Duration::from_secs(10);
/// How many different events are written in that time.
const DIFFERENT: usize = 256;

impl Log {
    /// A log to standard error, written by a thread of its own.
    pub fn start(level: Level, style: Style) -> io::Result<Self> {
        let sink = Sink::start("log", Destination::Stderr, 1024, Counter::default(), Counter::default(), |_| {})?;
        Ok(Self::with(level, style, Out::Thread { handle: sink.handle(), _sink: sink }))
    }

    /// A log that forgets.
    pub fn nowhere() -> Self {
        Self::with(Level::Error, Style::Json, Out::Nowhere)
    }

    /// A log that [`Log::captured`] reads: for tests.
    pub fn captive(level: Level, style: Style) -> Self {
        Self::with(level, style, Out::Memory(Mutex::default()))
    }

    fn with(level: Level, style: Style, out: Out) -> Self {
        Self(Arc::new(Inner { level, style, out, state: Mutex::default() }))
    }

    /// What a captive log holds.
    pub fn captured(&self) -> String {
        match &self.0.out {
            Out::Memory(it) => String::from_utf8_lossy(&it.lock().unwrap_or_else(PoisonError::into_inner)).into_owned(),
            _ => String::new(),
        }
    }

    /// Whether events of `level` are written at all.
    pub fn is_on(&self, level: Level) -> bool {
        level <= self.0.level && !matches!(self.0.out, Out::Nowhere)
    }

    pub fn error(&self, component: &'static str, message: fmt::Arguments<'_>, fields: Fields<'_>) {
        self.event(Level::Error, component, message, fields);
    }

    pub fn warn(&self, component: &'static str, message: fmt::Arguments<'_>, fields: Fields<'_>) {
        self.event(Level::Warn, component, message, fields);
    }

    pub fn info(&self, component: &'static str, message: fmt::Arguments<'_>, fields: Fields<'_>) {
        self.event(Level::Info, component, message, fields);
    }

    pub fn debug(&self, component: &'static str, message: fmt::Arguments<'_>, fields: Fields<'_>) {
        self.event(Level::Debug, component, message, fields);
    }

    /// Writes an event, or counts it where the same was written a moment ago.
    pub fn event(&self, level: Level, component: &'static str, message: fmt::Arguments<'_>, fields: Fields<'_>) {
        if self.is_on(level) {
            self.event_at(Instant::now(), level, component, message, fields);
        }
    }

    /// Tells what was only counted and is due. The gateway's housekeeping calls it every few seconds.
    pub fn tick(&self) {
        let mut out = Vec::new();
        let lines = self.due(&mut self.state(), Instant::now(), &mut out);
        self.send(out, lines);
    }

    /// Tells what was only counted, and waits until everything is written or `patience` is over: before the process ends.
    pub fn flush(&self, patience: Duration) {
        let mut out = Vec::new();
        let lines = self.due(&mut self.state(), Instant::now() + QUIET, &mut out);
        self.send(out, lines);
        if let Out::Thread { handle, .. } = &self.0.out {
            handle.flush(patience);
        }
    }

    fn event_at(&self, now: Instant, level: Level, component: &'static str, message: fmt::Arguments<'_>, fields: Fields<'_>) {
        let message = message.to_string();
        let mut key = format!("{level:?} {component} {message}");
        for (name, value) in fields.iter().filter(|it| !OF_ONE_REQUEST.contains(&it.0)) {
            // Writing into a String cannot fail.
            let _ = write!(key, " {name}={value}");
        }
        let mut state = self.state();
        let mut out = Vec::new();
        let mut lines = self.due(&mut state, now, &mut out);
        let hash = state.hasher.hash_one(&key);
        if let Some(said) = state.said.get_mut(&hash) {
            said.more += 1;
        } else if state.said.len() >= DIFFERENT {
            state.unheard += 1;
            state.unheard_since.get_or_insert(now);
        } else {
            self.line(&mut state.stamp, &mut out, level, component, &message, fields);
            lines += 1;
            let about = fields.iter().filter(|it| !OF_ONE_REQUEST.contains(&it.0)).map(|(name, value)| (*name, value.to_string().into()));
            let fields = about.collect();
            state.said.insert(hash, Said { since: now, more: 0, level, component, message: message.into(), fields });
        }
        // Sent under the lock, so that lines stand in the order of their times; sending never waits.
        self.send(out, lines);
    }

    /// Writes what repeats whose quiet time is over have to say, and forgets them.
    fn due(&self, state: &mut State, now: Instant, out: &mut Vec<u8>) -> u64 {
        let mut lines = 0;
        let over = |since: Instant| now.saturating_duration_since(since) >= QUIET;
        let State { stamp, said, unheard, unheard_since, .. } = state;
        said.retain(|_, it| {
            if !over(it.since) {
                return true;
            }
            if it.more > 0 {
                let fields = it.fields.iter().map(|(name, value)| (*name, value as &dyn Display));
                let fields: Vec<(&'static str, &dyn Display)> = fields.chain([("repeated", &it.more as &dyn Display)]).collect();
                self.line(stamp, out, it.level, it.component, &it.message, &fields);
                lines += 1;
            }
            false
        });
        if unheard_since.is_some_and(over) {
            let message = format!("{unheard} other events were not written: there were too many different ones");
            self.line(stamp, out, Level::Warn, "log", &message, &[]);
            (*unheard, *unheard_since) = (0, None);
            lines += 1;
        }
        lines
    }

    fn line(&self, stamp: &mut Stamp, out: &mut Vec<u8>, level: Level, component: &str, message: &str, fields: Fields<'_>) {
        match self.0.style {
            Style::Json => json(stamp, out, level, component, message, fields),
            style => text(stamp, out, style == Style::Coloured, level, component, message, fields),
        }
    }

    fn send(&self, out: Vec<u8>, lines: u64) {
        if lines == 0 {
            return;
        }
        match &self.0.out {
            Out::Thread { handle, .. } => handle.send(out, lines),
            Out::Memory(it) => it.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&out),
            Out::Nowhere => {}
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    fn colour(self) -> &'static [u8] {
        match self {
            Self::Error => b"\x1b[31m",
            Self::Warn => b"\x1b[33m",
            Self::Info => b"\x1b[32m",
            Self::Debug => b"\x1b[2m",
        }
    }
}

fn json(stamp: &mut Stamp, out: &mut Vec<u8>, level: Level, component: &str, message: &str, fields: Fields<'_>) {
    out.extend_from_slice(b"{\"time\":\"");
    stamp.push(out, SystemTime::now());
    let head: [(&str, &dyn Display); 3] = [("level", &level.word()), ("component", &component), ("message", &message)];
    out.push(b'"');
    for (name, value) in head.iter().chain(fields) {
        out.extend_from_slice(b",\"");
        push_json(out, name.as_bytes());
        out.extend_from_slice(b"\":\"");
        push_json(out, value.to_string().as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(b"}\n");
}

fn text(stamp: &mut Stamp, out: &mut Vec<u8>, coloured: bool, level: Level, component: &str, message: &str, fields: Fields<'_>) {
    stamp.push(out, SystemTime::now());
    out.push(b' ');
    if coloured {
        out.extend_from_slice(level.colour());
    }
    out.extend_from_slice(format!("{:5}", level.word()).as_bytes());
    if coloured {
        out.extend_from_slice(b"\x1b[0m");
    }
    out.push(b' ');
    out.extend_from_slice(component.as_bytes());
    out.extend_from_slice(b": ");
    // JSON's escapes keep an event on its line and a terminal from being driven; quotes and the like are only spelt oddly.
    push_json(out, message.as_bytes());
    for (name, value) in fields {
        out.push(b' ');
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        push_json(out, value.to_string().as_bytes());
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(log: &Log, at: Instant, message: &str, id: u32) {
        log.event_at(at, Level::Error, "upstream", format_args!("{message}"), &[("upstream", &"crm"), ("id", &id)]);
    }

    #[test]
    fn an_event_is_one_line_of_json_or_of_text() {
        for (style, want) in [
            (Style::Json, r#"Z","level":"error","component":"upstream","message":"a\nb","upstream":"crm","id":"7"}"#),
            (Style::Text, r"Z error upstream: a\nb upstream=crm id=7"),
            (Style::Coloured, "Z \u{1b}[31merror\u{1b}[0m upstream: a\\nb upstream=crm id=7"),
        ] {
            let log = Log::captive(Level::Info, style);
            say(&log, Instant::now(), "a\nb", 7);
            let text = log.captured();
            assert!(text.ends_with(&format!("{want}\n")), "{text}");
            assert_eq!(text.lines().count(), 1);
        }
    }

    #[test]
    fn repeats_are_counted_and_told_when_it_is_quiet_again() {
        let (log, start) = (Log::captive(Level::Info, Style::Text), Instant::now());
        for id in 0..121 {
            say(&log, start, "connection refused", id);
        }
        say(&log, start, "other", 0);
        assert_eq!(log.captured().lines().count(), 2, "{}", log.captured());
        say(&log, start + QUIET, "connection refused", 1);
        let text = log.captured();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[2].ends_with("error upstream: connection refused upstream=crm repeated=120"), "{text}");
        assert!(lines[3].contains("connection refused upstream=crm id=1"), "{text}");
    }

    #[test]
    fn the_end_tells_what_was_only_counted() {
        let log = Log::captive(Level::Info, Style::Text);
        for _ in 0..3 {
            log.warn("reload", format_args!("odd"), &[]);
        }
        log.tick();
        assert_eq!(log.captured().lines().count(), 1);
        log.flush(Duration::ZERO);
        assert!(log.captured().ends_with("reload: odd repeated=2\n"), "{}", log.captured());
    }

    #[test]
    fn too_many_different_events_are_counted_together() {
        let (log, start) = (Log::captive(Level::Info, Style::Text), Instant::now());
        for at in 0..DIFFERENT + 5 {
            say(&log, start, &format!("event {at}"), 0);
        }
        assert_eq!(log.captured().lines().count(), DIFFERENT);
        say(&log, start + QUIET, "later", 0);
        assert!(log.captured().contains("5 other events were not written"), "{}", log.captured());
    }

    #[test]
    fn what_is_below_the_level_is_not_written() {
        let log = Log::captive(Level::Warn, Style::Text);
        log.info("app", format_args!("started"), &[]);
        log.debug("app", format_args!("looked"), &[]);
        assert!(!log.is_on(Level::Info) && log.is_on(Level::Error));
        assert_eq!(log.captured(), "");
    }
}
