//! What the gateway tells about itself, and to whom.
use std::{path::PathBuf, time};

use schemars::JsonSchema;
use schemas::units::{Duration, Size};
use serde::{Deserialize, Serialize};

use super::{fault::Faults, values::Header};

/// Logs and figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// One line of JSON for each request.
    pub access_log: AccessLog,
    /// What went wrong and what changed, on standard error.
    pub log: EventLog,
    /// `/metrics`.
    pub metrics: Metrics,
    /// What logs never show.
    pub redact: Redact,
}

/// One line of JSON for each request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccessLog {
    /// Whether it is written at all.
    pub enabled: bool,
    /// The file to append to, relative to the folder of `allium.yaml`; standard output where left out. Opened anew when it is renamed, and on SIGHUP.
    pub file: Option<PathBuf>,
    /// Names of request headers to write as well, under `headers`.
    pub headers: Vec<Header>,
    /// A worker hands on its lines when it has this much.
    pub buffer: Size,
    /// A worker hands on its lines when the first has waited this long.
    pub flush: Duration,
    /// How much may wait to be written. Lines beyond are dropped, and counted in `allium_access_log_dropped_total`: no request waits for a disk.
    pub queue: Size,
}

/// What went wrong and what changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EventLog {
    /// The least that is written: `error`, `warn`, `info` or `debug`.
    pub level: Level,
    /// `text`, `json`, or `auto`: text on a terminal, JSON otherwise.
    pub format: Format,
}

/// The least that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
}

/// How events are spelt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    #[default]
    Auto,
    Text,
    Json,
}

/// `/metrics`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// The bounds of the histograms, at most 24. Each is a line for every Api that was asked for.
    pub bounds: Vec<Duration>,
    /// How many Apis have figures of their own; those beyond are counted together.
    pub apis: u32,
    /// How many figures plugins and scripts may have in all.
    pub series: u32,
}

/// What logs never show: query parameters and headers by name. Case, `-` and `_` do not count; `*token` is every name that ends in `token`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Redact {
    /// Names to hide beside the built-in ones, which OPERATIONS.md lists.
    pub add: Vec<String>,
    /// Built-in names to show after all, spelt as they are listed.
    pub remove: Vec<String>,
}

impl Default for AccessLog {
    fn default() -> Self {
        Self {
            enabled: true,
            file: None,
            headers: Vec::new(),
            buffer: Size(32 << 10),
            flush: Duration(time::Duration::from_millis(200)),
            queue: Size(8 << 20),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let millis = [1, 5, 25, 100, 250, 500, 1000, 2500, 10_000];
        Self { bounds: millis.map(|it| Duration(time::Duration::from_millis(it))).to_vec(), apis: 10_000, series: 100_000 }
    }
}

impl Telemetry {
    /// `built_in` are the names that are hidden of themselves.
    pub fn check(&self, built_in: &[&str], faults: &mut Faults) {
        let log = &self.access_log;
        if log.buffer < Size(1 << 10) || log.buffer > Size(1 << 20) {
            faults.error("/telemetry/access_log/buffer", format!("`{}` is not from `1KiB` to `1MiB`", log.buffer));
        }
        if log.queue < log.buffer || log.queue > Size(1 << 30) {
            faults.error("/telemetry/access_log/queue", format!("`{}` is not from `{}`, the buffer, to `1GiB`", log.queue, log.buffer));
        }
        if log.flush.get() < time::Duration::from_millis(1) || log.flush.get() > time::Duration::from_secs(60) {
            faults.error("/telemetry/access_log/flush", format!("`{}` is not from `1ms` to `60s`", log.flush));
        }
        let bounds = &self.metrics.bounds;
        if bounds.is_empty() || bounds.len() > 24 || bounds[0].get().is_zero() || !bounds.windows(2).all(|it| it[0] < it[1]) {
            faults.error("/telemetry/metrics/bounds", "expected 1 to 24 durations above zero, each longer than the one before");
        }
        for (at, name) in self.redact.remove.iter().enumerate().filter(|(_, it)| !built_in.contains(&it.as_str())) {
            let near = schemas::nearest(name, built_in.iter().copied());
            let fault = faults
                .error(&format!("/telemetry/redact/remove/{at}"), format!("`{name}` is none of the names that are hidden of themselves"));
            if let Some(near) = near {
                fault.help(format!("did you mean `{near}`?"));
            }
        }
        for (at, name) in self.redact.add.iter().enumerate() {
            let plain = name.strip_prefix('*').unwrap_or(name);
            if plain.len() > 64 || !plain.bytes().any(|it| it.is_ascii_alphanumeric()) || plain.contains('*') {
                faults.error(
                    &format!("/telemetry/redact/add/{at}"),
                    format!("`{name}` is no name: expected `name` or `*ending`, of at most 64 letters"),
                );
            }
        }
    }

    /// All names that are hidden.
    pub fn hidden<'a>(&'a self, built_in: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
        let kept = built_in.iter().copied().filter(|it| !self.redact.remove.iter().any(|other| other == it));
        kept.chain(self.redact.add.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_or_counted_is_told() {
        type Change = fn(&mut Telemetry);
        let cases: &[(Change, &str)] = &[
            (|_| {}, ""),
            (|it| it.access_log.buffer = Size(1), "/telemetry/access_log/buffer"),
            (|it| it.access_log.queue = Size(1), "/telemetry/access_log/queue"),
            (|it| it.access_log.flush = Duration(time::Duration::ZERO), "/telemetry/access_log/flush"),
            (|it| it.metrics.bounds.clear(), "/telemetry/metrics/bounds"),
            (|it| it.metrics.bounds.swap(0, 1), "/telemetry/metrics/bounds"),
            (|it| it.redact.remove = vec!["code".into(), "cod".into()], "/telemetry/redact/remove/1"),
            (|it| it.redact.add = vec!["phone".into(), "*".into()], "/telemetry/redact/add/1"),
        ];
        for (change, want) in cases {
            let (mut it, mut faults) = (Telemetry::default(), Faults::default());
            change(&mut it);
            it.check(&["*token", "code"], &mut faults);
            let got: Vec<_> = faults.list.iter().map(|it| it.pointer.as_str()).collect();
            assert_eq!(got, if want.is_empty() { vec![] } else { vec![*want] });
        }
    }

    #[test]
    fn names_are_hidden_beside_the_built_in_ones_or_shown_after_all() {
        let it = Telemetry { redact: Redact { add: vec!["phone".into()], remove: vec!["code".into()] }, ..Telemetry::default() };
        assert_eq!(it.hidden(&["*token", "code"]).collect::<Vec<_>>(), ["*token", "phone"]);
    }
}
