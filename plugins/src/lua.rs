//! Runs a script of the author's on the request, on the answer, or on both.
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use contract::{
    Exchange, Kind, Outcome, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::{Env, Journal, StateKey},
    meter::{Counter, Gauge},
    onion::{Next, Plugin},
};
use lua::{Cache, Failure, Hook, Limits, Machines, Ran, Script, Source};
use schemas::units;

/// So many trips within [`WINDOW`] switch a script off.
const MOST_TRIPS: usize = 3;
/// For how long trips are remembered, and for how long a script stays off.
const WINDOW: Duration = Duration::from_secs(60);

/// The ring.
pub struct Lua {
    script: Arc<Script>,
    on_failure: OnFailure,
    health: Health,
    journal: Journal,
    figures: Figures,
}

/// # Config
/// A script returns a table with `on_request`, `on_response`, or both; see `docs/LUA.md`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The script's file, relative to the folder of the settings.
    #[serde(default)]
    pub file: Option<String>,
    /// The script itself, in place of a file; it cannot `require`.
    #[serde(default)]
    pub source: Option<String>,
    /// What one run may use.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// What happens while the script is switched off, because it overdrew its limits three times in a minute: `reject` answers 500, `pass` goes on
    /// without it. A minute later it is tried again. A single failure always answers 500.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Names this ring in metrics.
    #[serde(default)]
    #[expect(dead_code, reason = "the gateway reads it before the ring does")]
    pub name: Option<String>,
}

/// What one run may use.
#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsConfig {
    /// Time on the processor, waits not counted: `50ms` where nothing is said, at most `10s`.
    #[serde(default)]
    pub time: Option<String>,
    /// Memory: `16MiB` where nothing is said, at most `64MiB`.
    #[serde(default)]
    pub memory: Option<String>,
}

/// What happens while a script is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// 500.
    #[default]
    Reject,
    /// As if there were no script.
    Pass,
}

/// How a script did lately.
struct Health {
    born: Instant,
    /// Milliseconds since `born`; 0 while it runs.
    off_until: AtomicU64,
    trips: Mutex<Vec<Instant>>,
}

/// What is counted of one script.
struct Figures {
    calls: Counter,
    errors: Counter,
    trips: Counter,
    micros: Counter,
    memory: Gauge,
    off: Gauge,
    within: [(Duration, Counter); 6],
}

impl Configure for Lua {
    type Config = Config;
    const NAME: &'static str = "lua";
    const ABOUT: &'static str = "Runs a script of the author's on the request, on the answer, or on both.";
    const NOTES: RingNotes = RingNotes {
        reads: "what the script looks at",
        answers: "what the script answers; 500 when it fails",
        authenticates: false,
        rewrites_body: true,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let limits = limits(&config.limits, &mut faults);
        let key = StateKey { config: 0, ..env.scope.clone() };
        let cache = env.states.get(&key, &mut || Arc::new(Cache::default())).downcast::<Cache>().unwrap_or_default();
        let load = |pointer: &str, source: &Source<'_>| {
            Script::load(source, limits, cache.clone(), env.journal.clone()).map_err(|it| Fault::new(pointer, it.message))
        };
        let script = match (&config.file, &config.source) {
            (Some(file), None) => (env.files)(file)
                .map_err(|it| Fault::new("/file", it))
                .and_then(|text| load("/file", &Source { name: file, text: &text, files: Some(env.files) })),
            (None, Some(text)) => {
                let name = format!("{}/{}", env.scope.owner, env.scope.plugin);
                load("/source", &Source { name: &name, text: text.as_bytes(), files: None })
            }
            (Some(_), Some(_)) => Err(Fault::new("/source", "`file` and `source` cannot both be the script")),
            (None, None) => Err(Fault::new("", "there is no script").help("give `file: lua/hooks/….lua`, or `source`")),
        };
        let script = script.map_err(|it| faults.push(it)).ok().filter(|_| faults.is_empty());
        let Some(script) = script else { return Err(faults) };
        Ok(Self { script, on_failure: config.on_failure, health: Health::new(), journal: env.journal.clone(), figures: Figures::new(env) })
    }
}

fn limits(config: &LimitsConfig, faults: &mut Vec<Fault>) -> Limits {
    let mut limits = Limits::default();
    if let Some(text) = &config.time {
        match text.parse::<units::Duration>() {
            Ok(it) if (Duration::from_millis(1)..=Duration::from_secs(10)).contains(&it.get()) => limits.time = it.get(),
            Ok(_) => faults.push(Fault::new("/limits/time", "a script runs from 1ms to 10s")),
            Err(it) => faults.push(Fault::new("/limits/time", it.message)),
        }
    }
    if let Some(text) = &config.memory {
        match text.parse::<units::Size>() {
            Ok(it) if (64 << 10..=64 << 20).contains(&it.get()) => limits.memory = it.get() as usize,
            Ok(_) => faults.push(Fault::new("/limits/memory", "a script has from 64KiB to 64MiB")),
            Err(it) => faults.push(Fault::new("/limits/memory", it.message)),
        }
    }
    limits
}

impl Health {
    fn new() -> Self {
        Self { born: Instant::now(), off_until: AtomicU64::new(0), trips: Mutex::default() }
    }

    fn is_off(&self, now: Instant) -> bool {
        let until = self.off_until.load(Relaxed);
        until != 0 && (now.saturating_duration_since(self.born).as_millis() as u64) < until
    }

    /// True when this trip switches the script off.
    fn trip(&self, now: Instant) -> bool {
        let mut trips = self.trips.lock().unwrap_or_else(PoisonError::into_inner);
        trips.retain(|it| now.saturating_duration_since(*it) < WINDOW);
        trips.push(now);
        if trips.len() < MOST_TRIPS {
            return false;
        }
        trips.clear();
        let until = now.saturating_duration_since(self.born) + WINDOW;
        self.off_until.store(until.as_millis() as u64, Relaxed);
        true
    }
}

impl Figures {
    fn new(env: &Env<'_>) -> Self {
        let labels = [("owner", &*env.scope.owner), ("ring", &*env.scope.name)];
        let within = |time: Duration, text: &str| {
            let labels = [labels[0], labels[1], ("within", text)];
            (time, env.meter.counter("allium_lua_runs_within_total", "Runs of a script that took no longer than this.", &labels))
        };
        Self {
            calls: env.meter.counter("allium_lua_calls_total", "Runs of a script.", &labels),
            errors: env.meter.counter("allium_lua_errors_total", "Runs of a script that failed.", &labels),
            trips: env.meter.counter("allium_lua_trips_total", "Runs of a script that overdrew its time or memory.", &labels),
            micros: env.meter.counter("allium_lua_microseconds_total", "Time that a script took on the processor.", &labels),
            memory: env.meter.gauge(
                "allium_lua_memory_bytes",
                "What the machine that ran the script last holds, other scripts' included.",
                &labels,
            ),
            off: env.meter.gauge("allium_lua_off", "1 while a script is switched off because of its trips.", &labels),
            within: [
                within(Duration::from_micros(10), "10us"),
                within(Duration::from_micros(100), "100us"),
                within(Duration::from_millis(1), "1ms"),
                within(Duration::from_millis(5), "5ms"),
                within(Duration::from_millis(20), "20ms"),
                within(Duration::from_millis(50), "50ms"),
            ],
        }
    }

    fn took(&self, took: Duration) {
        self.micros.add(took.as_micros() as u64);
        self.within.iter().filter(|(it, _)| took <= *it).for_each(|(_, it)| it.add(1));
    }
}

impl Lua {
    /// What a run came to, counted.
    fn settle(&self, ex: &Exchange, outcome: Result<Ran, Failure>) -> Result<Ran, Box<Problem>> {
        self.figures.calls.add(1);
        let failure = match outcome {
            Ok(it) => {
                self.figures.took(it.took);
                self.figures.memory.set(it.memory as u64);
                return Ok(it);
            }
            Err(it) => it,
        };
        self.figures.errors.add(1);
        let id = ex.id.to_str().unwrap_or_default();
        if failure.trip.is_some() {
            self.figures.trips.add(1);
            if self.health.trip(Instant::now()) {
                self.figures.off.set(1);
                let what = if self.on_failure == OnFailure::Pass { "requests pass without it" } else { "requests are refused" };
                let line = format!("{} overdrew its limits {MOST_TRIPS} times within a minute; for a minute, {what}", self.script.name());
                (self.journal)("error", id, &line);
            }
        }
        (self.journal)("error", id, &failure.to_string());
        let reason = if failure.trip.is_some() { "script_limit" } else { "script_error" };
        Err(Problem::new(Kind::Internal, "the gateway could not process this request").reason(reason).because(failure))
    }
}

impl Plugin for Lua {
    async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
        if self.health.off_until.load(Relaxed) != 0 {
            if self.health.is_off(Instant::now()) {
                return match self.on_failure {
                    OnFailure::Pass => next.run(ex).await,
                    OnFailure::Reject => {
                        Err(Problem::new(Kind::Internal, "the gateway could not process this request").reason("script_off"))
                    }
                };
            }
            self.health.off_until.store(0, Relaxed);
            self.figures.off.set(0);
        }
        let machines = ex.local.get::<Machines>();
        if self.script.on_request {
            let outcome = machines.run(&self.script, Hook::Request, ex, None).await;
            if let Some(answer) = self.settle(ex, outcome)?.answer {
                return Ok(answer);
            }
        }
        let mut answer = next.run(ex).await?;
        if self.script.on_response && answer.status() != http::StatusCode::SWITCHING_PROTOCOLS {
            let outcome = machines.run(&self.script, Hook::Response, ex, Some(&mut answer)).await;
            if let Some(other) = self.settle(ex, outcome)?.answer {
                return Ok(other);
            }
        }
        Ok(answer)
    }
}

#[cfg(test)]
#[path = "lua/tests.rs"]
mod tests;
