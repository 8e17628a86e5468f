//! Lets so many requests be inside at once, for each key, and some more wait.
mod places;

use std::sync::Arc;

use contract::{
    Exchange, Kind, Outcome, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::Env,
    expression::{Context, Template},
    meter::{Counter, Gauge},
    onion::{Next, Plugin},
};
use schemas::units::Duration;
use tokio::time::timeout;

use self::places::{Asked, Place, Places};

/// The ring.
pub struct Concurrency {
    places: Arc<Places>,
    key: Option<Template>,
    wait: std::time::Duration,
    admitted: Counter,
    waited: Counter,
    refused: Counter,
    late: Counter,
    inside: Gauge,
}

/// # Config
/// A request has its place from here until the last byte of its answer, or until the client leaves. Without a place it is answered with 503.
/// Every gateway counts for itself.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The ring's name. Left out, it is the ring's number.
    #[serde(default)]
    #[allow(dead_code, reason = "the gateway reads it")]
    pub name: Option<String>,
    /// Whose requests are counted together: a text with `${…}`; those where it is null or empty count together, too. Left out, all of them.
    #[serde(default)]
    pub key: Option<String>,
    /// How many may be inside at once.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max: usize,
    /// How many may wait for a place, first come, first served. None, where it is left out.
    #[serde(default)]
    #[schemars(range(max = 100_000))]
    pub queue: usize,
    /// How long one may wait. Who would have to wait longer, or longer than the request has time, is refused at once.
    #[serde(default = "default_wait")]
    pub max_wait: Duration,
    /// In a Preset: all Apis that use it count together. It needs a `name`.
    #[serde(default)]
    pub across: Option<Across>,
}

/// What counts together.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Across {
    /// All Apis that use the Preset.
    Apis,
}

fn default_wait() -> Duration {
    Duration(std::time::Duration::from_secs(1))
}

impl Configure for Concurrency {
    type Config = Config;
    const NAME: &'static str = "concurrency";
    const ABOUT: &'static str = "Lets so many requests be inside at once, for each key, and some more wait.";
    const NOTES: RingNotes = RingNotes { reads: "what `key` names", answers: "503 when full", authenticates: false, rewrites_body: false };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        if config.across.is_some() {
            if config.name.is_none() {
                faults.push(Fault::new("/across", "what Apis count together needs a `name`"));
            }
            if !env.scope.owner.starts_with("Preset/") {
                faults.push(Fault::new("/across", "`across` has a meaning in a Preset").help("put the ring into a Preset, and `use` that"));
            }
        }
        if config.queue > 0 && config.max_wait.0.is_zero() {
            faults.push(Fault::new("/max_wait", "nobody waits for no time").help("leave `queue` out, or write how long"));
        }
        let key = config.key.map(|it| env.template("/key", &it, Context::Plain)).transpose();
        let key = key.unwrap_or_else(|it| {
            faults.extend(it);
            None
        });
        if !faults.is_empty() {
            return Err(faults);
        }
        let labels = [("owner", &*env.scope.owner), ("ring", &*env.scope.name)];
        let count = |result: &str| {
            let labels = [labels[0], labels[1], ("result", result)];
            env.meter.counter("allium_concurrency_requests_total", "Requests by how they came by a place.", &labels)
        };
        Ok(Self {
            places: env.state(|| Places::new(config.max, config.queue)),
            key,
            wait: config.max_wait.0,
            admitted: count("admitted"),
            waited: count("waited"),
            refused: count("refused"),
            late: count("late"),
            inside: env.meter.gauge("allium_concurrency_inside", "Requests that have a place.", &labels),
        })
    }
}

/// Held by the exchange until it is over.
struct Held {
    _place: Place,
    inside: Gauge,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.inside.sub(1);
    }
}

/// One for each ring: an exchange may have passed several.
#[derive(Default)]
struct AllHeld(Vec<Held>);

impl Concurrency {
    async fn place(&self, ex: &Exchange) -> Result<Place, Box<Problem>> {
        let scope = ex.scope();
        let key = self.key.as_ref().and_then(|it| it.text(&scope).ok().flatten());
        let most = self.wait.min(ex.time_left());
        let waiting = match self.places.ask(key.as_deref().unwrap_or(""), most) {
            Asked::Place(it) => {
                self.admitted.add(1);
                return Ok(it);
            }
            Asked::Full(wait) => {
                self.refused.add(1);
                return Err(full(wait));
            }
            Asked::Wait(it) => it,
        };
        match timeout(most, waiting).await {
            Ok(Ok(it)) => {
                self.waited.add(1);
                Ok(it)
            }
            _ => {
                self.late.add(1);
                Err(full(most))
            }
        }
    }
}

fn full(wait: std::time::Duration) -> Box<Problem> {
    let mut it = Problem::new(Kind::Unavailable, "too much is going on here at once").reason("concurrency");
    it.retry_after = Some(wait);
    it
}

impl Plugin for Concurrency {
    async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
        let place = self.place(ex).await?;
        self.inside.add(1);
        let held = Held { _place: place, inside: self.inside.clone() };
        match ex.notes.get_mut::<AllHeld>() {
            Some(it) => it.0.push(held),
            None => ex.notes.put(AllHeld(vec![held])),
        }
        next.run(ex).await
    }
}

#[cfg(test)]
mod tests {
    use contract::{Body, catalog::plugin, testkit::Bench};
    use serde_json::json;

    use super::*;

    #[test]
    fn every_fault_is_told_in_its_place() {
        for (config, pointers) in [
            (json!({"max": 1, "key": "${nope}"}), &["/key"][..]),
            (json!({"max": 1, "queue": 1, "max_wait": "0s"}), &["/max_wait"]),
            (json!({"max": 1, "across": "apis"}), &["/across", "/across"]),
        ] {
            let faults = Bench::faults(&plugin::<Concurrency>(), config);
            assert_eq!(faults.iter().map(|it| it.pointer.as_str()).collect::<Vec<_>>(), pointers, "{faults:?}");
        }
    }

    #[tokio::test]
    async fn a_place_is_given_back_when_the_exchange_is_over() {
        let bench = Bench::of(&plugin::<Concurrency>(), json!({"max": 1}));
        for _ in 0..3 {
            assert_eq!(bench.send(http::Request::new(Body::Empty)).await.status(), 200);
        }
    }
}
