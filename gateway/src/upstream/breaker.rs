//! When calls are refused to spare a backend that fails: one circuit for each thing that is counted by itself.
pub mod adaptive;
pub mod ratio;
pub mod standing;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use contract::{Exchange, discovery::Node, expression::Template};
use http::Method;
use tokio::time::Instant;

use self::{
    adaptive::{Adaptive, Throttle},
    ratio::{Gate, Ratio},
    standing::Standing,
};
use crate::telemetry::metrics::upstream::{CallOutcome, UpstreamMetrics};

/// More circuits than one upstream has; those beyond share one for each node.
const MOST: usize = 10_000;

/// `breaker` of an Upstream.
pub struct Breaker {
    /// What it was written as: a breaker that is written the same goes on as it stands.
    pub rule: Rule,
    pub per: Per,
    /// How much a call matters; as [`Criticality::High`] where it has no value.
    pub criticality: Option<Template>,
    circuits: Arc<Circuits>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    Adaptive(Adaptive),
    Ratio(Ratio),
}

/// What is counted by itself. Neither is the upstream as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Per {
    pub node: bool,
    pub method: bool,
}

/// How much a call matters: what matters less is refused first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criticality {
    Sheddable,
    Normal,
    High,
    Critical,
}

/// Told to nobody but the log and admin: what is counted, and how it stands.
pub struct Stand {
    pub what: String,
    pub standing: Standing,
}

/// A call that was let through. Dropped without an end, as when its client leaves, it counts for nothing.
#[must_use]
pub struct Permit {
    circuit: Arc<Circuit>,
    generation: u64,
    slow: Option<Duration>,
    ended: bool,
}

/// A call that was not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// When it may be worth asking again.
    pub after: Duration,
}

/// Shared by a breaker and those that were written the same before it.
#[derive(Default)]
struct Circuits(Mutex<HashMap<Key, Arc<Circuit>, foldhash::fast::FixedState>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    node: Option<SocketAddr>,
    /// The HTTP method, but none that only a client knows; and the template of the path, or the RPC's name.
    method: Option<(Option<Method>, Arc<str>)>,
}

struct Circuit {
    what: Key,
    metrics: UpstreamMetrics,
    state: Mutex<State>,
}

struct State {
    machine: Machine,
    /// As the metrics say it.
    shown: Standing,
}

#[expect(clippy::large_enum_variant, reason = "all circuits of a breaker are of one kind, and each is on the heap already")]
enum Machine {
    Adaptive(Throttle),
    Ratio(Gate),
}

// === impl Criticality ===

impl Criticality {
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "sheddable" => Self::Sheddable,
            "normal" => Self::Normal,
            "high" => Self::High,
            "critical" => Self::Critical,
            _ => return None,
        })
    }

    /// What `k` is multiplied with: 1.3, 1.6, 2 and 4 at the default of 2.
    pub fn share(self) -> f64 {
        match self {
            Self::Sheddable => 0.65,
            Self::Normal => 0.8,
            Self::High => 1.0,
            Self::Critical => 2.0,
        }
    }
}

// === impl Breaker ===

impl Breaker {
    pub fn new(rule: Rule, per: Per, criticality: Option<Template>) -> Self {
        Self { rule, per, criticality, circuits: Arc::default() }
    }

    /// Goes on as another one stands, where that was written the same.
    pub fn after(mut self, former: Option<&Self>) -> Self {
        if let Some(it) = former.filter(|it| it.rule == self.rule && it.per == self.per) {
            self.circuits = it.circuits.clone();
        }
        self
    }

    /// How much this call matters.
    pub fn criticality(&self, ex: &Exchange) -> Criticality {
        let Some(it) = &self.criticality else { return Criticality::High };
        let scope = ex.scope();
        let word = it.text(&scope).ok().flatten();
        word.and_then(|it| Criticality::of(&it)).unwrap_or(Criticality::High)
    }

    /// Whether a call of a node may be made now. Each attempt asks once, and tells the permit how it ended.
    pub fn ask(
        &self,
        node: &Node,
        method: &Method,
        point: Option<&Arc<str>>,
        criticality: Criticality,
        metrics: &UpstreamMetrics,
    ) -> Result<Permit, Refused> {
        let named = || is_standard(method).then(|| method.clone());
        let key = Key { node: self.per.node.then_some(node.address), method: point.map(|it| (named(), it.clone())) };
        let circuit = self.circuit(key, metrics);
        let now = Instant::now();
        let mut state = circuit.lock();
        let answer = match &mut state.machine {
            Machine::Adaptive(it) => it.ask(now, criticality.share()).map(|()| 0),
            Machine::Ratio(it) => it.ask(now),
        };
        circuit.show(&mut state, now);
        drop(state);
        match answer {
            Ok(generation) => Ok(Permit { circuit, generation, slow: self.slow(), ended: false }),
            Err(after) => Err(Refused { after }),
        }
    }

    /// All circuits that some call asked, and how they stand now.
    pub fn standings(&self) -> Vec<Stand> {
        let all: Vec<_> = self.circuits.lock().values().cloned().collect();
        let now = Instant::now();
        let mut list: Vec<Stand> = all
            .iter()
            .map(|it| {
                let mut state = it.lock();
                let standing = it.show(&mut state, now);
                Stand { what: it.what.words(), standing }
            })
            .collect();
        list.sort_by(|a, b| a.what.cmp(&b.what));
        list
    }

    /// Forgets circuits of nodes that are gone.
    pub fn keep(&self, nodes: &[Arc<Node>]) {
        let mut all = self.circuits.lock();
        all.retain(|key, _| key.node.is_none_or(|at| nodes.iter().any(|it| it.address == at)));
    }

    fn slow(&self) -> Option<Duration> {
        match self.rule {
            Rule::Adaptive(it) => it.slow,
            Rule::Ratio(it) => it.slow,
        }
    }

    fn circuit(&self, mut key: Key, metrics: &UpstreamMetrics) -> Arc<Circuit> {
        let mut all = self.circuits.lock();
        if let Some(it) = all.get(&key) {
            return it.clone();
        }
        if all.len() >= MOST {
            key.method = None;
        }
        let made = |it: &Key| {
            let now = Instant::now();
            let machine = match self.rule {
                Rule::Adaptive(it) => Machine::Adaptive(Throttle::new(it, now)),
                Rule::Ratio(it) => Machine::Ratio(Gate::new(it, now)),
            };
            let state = Mutex::new(State { machine, shown: Standing::Closed });
            Arc::new(Circuit { what: it.clone(), metrics: metrics.clone(), state })
        };
        all.entry(key).or_insert_with_key(made).clone()
    }
}

/// Any other is a word of the client's, of which there is no end.
fn is_standard(it: &Method) -> bool {
    use Method as M;
    [M::GET, M::POST, M::PUT, M::DELETE, M::PATCH, M::HEAD, M::OPTIONS].contains(it)
}

impl Circuits {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Circuit>, foldhash::fast::FixedState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    fn words(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.node.map(|it| it.to_string()));
        if let Some((method, point)) = &self.method {
            words.push(method.as_ref().map_or("OTHER", Method::as_str).to_owned());
            words.push(point.to_string());
        }
        if words.is_empty() { "all".into() } else { words.join(" ") }
    }
}

// === impl Circuit ===

impl Circuit {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the state to the metrics.
    fn show(&self, state: &mut State, now: Instant) -> Standing {
        let standing = match &mut state.machine {
            Machine::Adaptive(it) => it.standing(now),
            Machine::Ratio(it) => it.standing(now),
        };
        if standing != state.shown {
            self.metrics.breaker_stands(state.shown != Standing::Closed, standing != Standing::Closed);
            if standing == Standing::Open {
                self.metrics.breaker_opened();
            }
            state.shown = standing;
        }
        standing
    }
}

impl Drop for Circuit {
    fn drop(&mut self) {
        let shown = self.lock().shown;
        self.metrics.breaker_stands(shown != Standing::Closed, false);
    }
}

// === impl Permit ===

impl Permit {
    /// The call ended so, after so long.
    pub fn end(mut self, outcome: CallOutcome, took: Duration) {
        let good = match outcome {
            CallOutcome::Cancelled => return,
            CallOutcome::Ok | CallOutcome::Fatal => self.slow.is_none_or(|it| took < it),
            CallOutcome::Throttled | CallOutcome::Transient | CallOutcome::Unknown => false,
        };
        self.ended = true;
        let now = Instant::now();
        let mut state = self.circuit.lock();
        match &mut state.machine {
            Machine::Adaptive(it) => it.ended(now, good),
            Machine::Ratio(it) => it.ended(now, self.generation, good),
        }
        self.circuit.show(&mut state, now);
        drop(state);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if let Machine::Ratio(it) = &mut self.circuit.lock().machine {
            it.returned(self.generation);
        }
    }
}
