//! Lets so many requests pass in a time, for each key.
mod keys;
mod limit;
mod limiter;
mod told;

use std::sync::Arc;

use contract::{
    Exchange, Kind, Outcome, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::{Env, StateKey},
    expression::{Context, Scope, Template},
    meter::Counter,
    onion::{Filter, Flow},
};
use schemas::units::Rate;

use self::{
    limit::{Limit, Verdict},
    limiter::{Charge, Counts, Limiter},
    told::Told,
};

/// The ring.
pub struct RateLimit {
    /// As others call it: `parent` of rings further in.
    name: Box<str>,
    limiter: Arc<Limiter>,
    key: Key,
    rate: Allowed,
    burst: Option<Whole>,
    cost: Whole,
    default: Option<Rate>,
    parent: Parent,
    told: Option<Told>,
    admitted: Counter,
    refused: Counter,
    rateless: Counter,
    keyless: Counter,
}

/// # Config
/// Requests beyond the rate are answered with 429. Without Redis every gateway counts for itself.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The ring's name: what `parent` calls it, and what clients read in `RateLimit`. Left out, it is the ring's number.
    #[serde(default)]
    pub name: Option<String>,
    /// Whose requests are counted together: a text with `${…}`. Where it is null or empty, the client's address.
    #[serde(default = "default_key")]
    pub key: String,
    /// How many: `100/s`, or an expression that gives one, such as `${plan.rate}`. `0/s` refuses all.
    pub rate: String,
    /// How many at once: a number, or an expression that gives one. One second's worth, and at least 1, where it is left out.
    #[serde(default)]
    pub burst: Option<Number>,
    /// How requests are counted.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// Who counts.
    #[serde(default)]
    pub scope: Reach,
    /// How many requests this one counts as: a number, or an expression that gives one; what is null or no number counts as 1.
    #[serde(default = "default_cost")]
    pub cost: Number,
    /// The name of a `rate-limit` further out, or `plan`: what this ring refuses is not counted there either.
    #[serde(default)]
    pub parent: Option<String>,
    /// The rate where the expression in `rate` gives none. Left out, such a request is refused with 403.
    #[serde(default)]
    pub default: Option<Rate>,
    /// In a Preset: all Apis that use it count together. It needs a `name`.
    #[serde(default)]
    pub across: Option<Across>,
    /// Whether answers carry `RateLimit` and `RateLimit-Policy`; those of 429 always do.
    #[serde(default = "yes")]
    pub headers: bool,
}

/// A whole number, or an expression.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Number {
    /// A number.
    Of(u64),
    /// An expression, `${…}`.
    Text(String),
}

/// How requests are counted.
#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// `burst` at once, and then evenly.
    #[default]
    TokenBucket,
    /// Never more than the rate's number in any window of its time; no `burst`.
    SlidingWindow,
    /// As `token_bucket`, kept in less memory.
    Gcra,
}

/// Who counts.
#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// This gateway alone.
    #[default]
    Node,
    /// All gateways together, in Redis. Known, not built.
    Shared,
}

/// What counts together.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Across {
    /// All Apis that use the Preset.
    Apis,
}

const DEFAULT_KEY: &str = "${request.client_ip}";
const PLAN: &str = "plan";
/// Of a refusal that no waiting ends.
const NEVER: std::time::Duration = std::time::Duration::from_secs(3600);

fn default_key() -> String {
    DEFAULT_KEY.into()
}

fn default_cost() -> Number {
    Number::Of(1)
}

fn yes() -> bool {
    true
}

enum Key {
    Address,
    Text(Template),
}

enum Allowed {
    Always(Limit),
    Text(Template),
}

/// A whole number on a request.
enum Whole {
    Of(u64),
    Text(Template),
}

enum Parent {
    None,
    Ring(Box<str>),
    Plan(Arc<Limiter>),
}

/// What an exchange was charged, by every limit that let it pass; further in it may be given back.
#[derive(Default)]
struct Charges(Vec<Charged>);

struct Charged {
    name: Box<str>,
    own: Charge,
    plan: Option<Charge>,
    parent: Option<Box<str>>,
    verdict: Verdict,
    limit: Limit,
}

impl Configure for RateLimit {
    type Config = Config;
    const NAME: &'static str = "rate-limit";
    const ABOUT: &'static str = "Lets so many requests pass in a time, for each key.";
    const NOTES: RingNotes = RingNotes {
        reads: "what `key`, `rate`, `burst` and `cost` name",
        answers: "429 beyond the rate, 403 where there is none",
        authenticates: false,
        rewrites_body: false,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let window = config.algorithm == Algorithm::SlidingWindow;
        if config.scope == Reach::Shared {
            let fault = Fault::new("/scope", "`shared` is known, but not built into this gateway");
            faults.push(fault.help("`node` counts on each gateway: with four of them behind a load balancer, write a quarter of the rate"));
        }
        if let Some(name) = &config.name {
            if name.is_empty() || name == PLAN || !name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it)) {
                faults.push(
                    Fault::new("/name", format!("`{name}` is no name for a limit")).help("letters, digits, `-`, `_` and `.`; not `plan`"),
                );
            } else if env.outside.iter().any(|it| **it == **name) {
                faults.push(Fault::new("/name", format!("a limit further out is called `{name}` too")));
            }
        }
        if config.across.is_some() {
            if config.name.is_none() {
                faults.push(Fault::new("/across", "what Apis count together needs a `name`"));
            }
            if !env.scope.owner.starts_with("Preset/") {
                faults.push(Fault::new("/across", "`across` has a meaning in a Preset").help("put the ring into a Preset, and `use` that"));
            }
        }
        let burst = config.burst.and_then(|it| whole(env, "/burst", it, &mut faults));
        let cost = whole(env, "/cost", config.cost, &mut faults).unwrap_or(Whole::Of(1));
        if window && burst.is_some() {
            let help = "the window's own number is how many may come at once";
            faults.push(Fault::new("/burst", "a sliding window has no burst").help(help));
        }
        let key = match config.key.as_str() {
            DEFAULT_KEY => Key::Address,
            it => env.template("/key", it, Context::Plain).map(Key::Text).unwrap_or_else(|it| {
                faults.extend(it);
                Key::Address
            }),
        };
        let fixed = match &burst {
            Some(Whole::Of(it)) => Some(*it),
            _ => None,
        };
        let rate = match config.rate.contains("${") {
            true => env.template("/rate", &config.rate, Context::Plain).map(Allowed::Text).map_err(|it| faults.extend(it)).ok(),
            false => match config.rate.parse::<Rate>() {
                Ok(it) => Some(Allowed::Always(Limit::new(it, fixed))),
                Err(it) => {
                    faults.push(Fault { help: it.help, ..Fault::new("/rate", it.message) });
                    None
                }
            },
        };
        if let Some(Allowed::Always(limit)) = &rate {
            let most = if window { limit.count } else { limit.burst };
            match cost {
                _ if window && limit.count > 0.0 && limit.count < 1.0 => {
                    faults.push(Fault::new("/rate", "a sliding window counts whole requests").help("write 1/2s in place of 0.5/s"));
                }
                Whole::Of(cost) if (cost as f64) > most && limit.count > 0.0 => {
                    let fault = if fixed.is_some() || window { "/cost" } else { "/burst" };
                    let message = format!("a request costs {cost}, and never more than {most} are there");
                    let it = Fault::new(fault, message);
                    faults.push(if window { it } else { it.help(format!("write a `burst` of {cost} or more")) });
                }
                _ => (),
            }
            if config.default.is_some() {
                faults.push(Fault::new("/default", "the rate is always the same, so there is nothing to fall back on"));
            }
        }
        if matches!(cost, Whole::Of(0)) {
            faults.push(Fault::new("/cost", "what costs nothing is not limited").help("write 1 or more"));
        }
        let parent = match config.parent.as_deref() {
            None => Parent::None,
            Some(PLAN) if !env.authenticated => {
                let fault = Fault::new("/parent", "nobody's plan is known here: no plugin outside this place authenticates");
                faults.push(fault);
                Parent::None
            }
            Some(PLAN) => {
                let scope = StateKey { owner: "Plan".into(), plugin: Self::NAME.into(), name: PLAN.into(), config: 0 };
                Parent::Plan(Limiter::of(env, &scope, Counts::bucket))
            }
            Some(it) if env.outside.iter().any(|outer| **outer == *it) => Parent::Ring(it.into()),
            Some(it) => {
                let fault = Fault::new("/parent", format!("no `rate-limit` further out is called `{it}`"));
                faults.push(fault.help("a parent stands in the same chain, outside of its children, and has a `name`"));
                Parent::None
            }
        };
        let Some(rate) = rate.filter(|_| faults.is_empty()) else { return Err(faults) };
        let limiter = Limiter::of(env, &env.scope, || match config.algorithm {
            Algorithm::TokenBucket => Counts::bucket(),
            Algorithm::Gcra => Counts::gcra(),
            Algorithm::SlidingWindow => Counts::window(),
        });
        let count = |result: &str| {
            let labels = [("owner", &*env.scope.owner), ("ring", &*env.scope.name), ("result", result)];
            env.meter.counter("allium_rate_limit_requests_total", "Requests by what limits made of them.", &labels)
        };
        let labels = [("owner", &*env.scope.owner), ("ring", &*env.scope.name)];
        let keyless = env.meter.counter("allium_rate_limit_keyless_total", "Requests whose key was null or empty.", &labels);
        Ok(Self {
            name: env.scope.name.clone(),
            told: Some(Told::new(&env.scope.name, config.headers)),
            limiter,
            key,
            rate,
            burst,
            cost,
            default: config.default,
            parent,
            admitted: count("admitted"),
            refused: count("refused"),
            rateless: count("no_rate"),
            keyless,
        })
    }
}

fn whole(env: &Env<'_>, pointer: &str, it: Number, faults: &mut Vec<Fault>) -> Option<Whole> {
    match it {
        Number::Of(it) => Some(Whole::Of(it)),
        Number::Text(it) if it.contains("${") => {
            env.template(pointer, &it, Context::Plain).map(Whole::Text).map_err(|it| faults.extend(it)).ok()
        }
        Number::Text(it) => {
            faults.push(Fault::new(pointer, format!("`{it}` is no whole number and no expression")).help("write 5, or ${…}"));
            None
        }
    }
}

impl Whole {
    fn get(&self, scope: &dyn Scope) -> Option<u64> {
        match self {
            Self::Of(it) => Some(*it),
            Self::Text(it) => it.text(scope).ok().flatten().and_then(|it| it.parse().ok()),
        }
    }
}

impl Filter for RateLimit {
    fn request(&self, ex: &mut Exchange) -> Flow {
        let cost = match self.cost {
            Whole::Of(it) => it,
            ref it => it.get(&ex.scope()).unwrap_or(1),
        };
        let Some(limit) = self.limit(ex) else {
            self.rateless.add(1);
            self.give_back(ex, self.parent_name());
            return Err(Problem::new(Kind::Forbidden, "no rate is agreed on for who is calling").reason("no_rate"));
        };
        let now = self.limiter.now();
        let mut plan = None;
        if let Parent::Plan(limiter) = &self.parent {
            let Some((charge, limit)) = self.plan(ex, limiter, cost) else {
                self.rateless.add(1);
                return Err(Problem::new(Kind::Forbidden, "no rate is agreed on for who is calling").reason("no_rate"));
            };
            let verdict = charge.take(now, &limit);
            if !verdict.admitted {
                return Err(self.refusal(&limit, verdict));
            }
            plan = Some(charge);
        }
        let own = Charge::new(&self.limiter, self.key(ex), cost, limit);
        let verdict = own.take(now, &limit);
        if !verdict.admitted {
            if let Some(it) = plan {
                it.give_back(now);
            }
            self.give_back(ex, self.parent_name());
            return Err(self.refusal(&limit, verdict));
        }
        self.admitted.add(1);
        let charged = Charged { name: self.name.clone(), own, plan, parent: self.parent_name().map(Into::into), verdict, limit };
        match ex.notes.get_mut::<Charges>() {
            Some(it) => it.0.push(charged),
            None => ex.notes.put(Charges(vec![charged])),
        }
        Ok(None)
    }

    fn response(&self, ex: &mut Exchange, outcome: &mut Outcome) {
        let Some(told) = self.told.as_ref().filter(|it| it.always) else { return };
        let charged = ex.notes.get::<Charges>().and_then(|it| it.0.iter().find(|it| it.own.is_of(&self.limiter)));
        let Some(it) = charged else { return };
        let headers = match outcome {
            Ok(it) => it.headers_mut(),
            Err(it) => &mut it.headers,
        };
        told.tell(headers, &it.limit, it.verdict, self.limiter.is_window());
    }
}

impl RateLimit {
    fn parent_name(&self) -> Option<&str> {
        match &self.parent {
            Parent::Ring(it) => Some(it),
            _ => None,
        }
    }

    /// What this request's key may do; `None` where nothing is agreed on.
    fn limit(&self, ex: &Exchange) -> Option<Limit> {
        let template = match &self.rate {
            Allowed::Always(it) if matches!(self.burst, None | Some(Whole::Of(_))) => return Some(*it),
            Allowed::Always(it) => {
                let burst = self.burst.as_ref().and_then(|it| it.get(&ex.scope()));
                return Some(Limit { burst: burst.map_or(it.burst, |it| it as f64), ..*it });
            }
            Allowed::Text(it) => it,
        };
        let scope = ex.scope();
        let rate = template.text(&scope).ok().flatten().and_then(|it| it.parse::<Rate>().ok()).or(self.default)?;
        Some(Limit::new(rate, self.burst.as_ref().and_then(|it| it.get(&scope))))
    }

    fn key(&self, ex: &Exchange) -> u128 {
        if let Key::Text(it) = &self.key {
            match it.text(&ex.scope()) {
                Ok(Some(it)) if !it.is_empty() => return self.limiter.hash(1, it.as_bytes()),
                // Never one key for all that have none.
                _ => self.keyless.add(1),
            }
        }
        match ex.peer.client_ip.to_canonical() {
            std::net::IpAddr::V4(it) => self.limiter.hash(0, &it.octets()),
            std::net::IpAddr::V6(it) => self.limiter.hash(0, &it.octets()),
        }
    }

    /// The charge of the App's Plan. An App without one has no agreement, but for `default`.
    fn plan(&self, ex: &Exchange, limiter: &Arc<Limiter>, cost: u64) -> Option<(Charge, Limit)> {
        let caller = ex.caller.as_ref();
        let text = |name: &str| caller.and_then(|it| it.plan.get(name)).cloned();
        let rate = text("rate").and_then(|it| it.as_str().and_then(|it| it.parse::<Rate>().ok())).or(self.default)?;
        let burst = match text("burst") {
            Some(contract::Value::Number(it)) => it.parse().ok(),
            _ => None,
        };
        let limit = Limit::new(rate, burst);
        let key = match caller.and_then(|it| it.app.get("name")).and_then(|it| it.as_str()) {
            Some(it) => limiter.hash(1, it.as_bytes()),
            None => limiter.hash(0, &self.key(ex).to_be_bytes()),
        };
        Some((Charge::new(limiter, key, cost, limit), limit))
    }

    /// A request that one level refuses is counted at none of those that are its parents.
    fn give_back(&self, ex: &mut Exchange, parent: Option<&str>) {
        let Some(charges) = ex.notes.get_mut::<Charges>() else { return };
        let now = self.limiter.now();
        let mut wanted: Option<Box<str>> = parent.map(Into::into);
        while let Some(at) = wanted.as_ref().and_then(|it| charges.0.iter().position(|charged| charged.name == *it)) {
            let it = charges.0.swap_remove(at);
            it.own.give_back(now);
            if let Some(it) = it.plan {
                it.give_back(now);
            }
            wanted = it.parent;
        }
    }

    fn refusal(&self, limit: &Limit, verdict: Verdict) -> Box<Problem> {
        self.refused.add(1);
        let (message, reason) = match verdict.wait {
            u64::MAX if limit.count > 0.0 => ("this request costs more than is ever allowed at once", "rate_limit_cost"),
            _ => ("too many requests", "rate_limit"),
        };
        let mut problem = Problem::new(Kind::TooMany, message).reason(reason);
        problem.retry_after = Some(match verdict.wait {
            u64::MAX => NEVER,
            it => std::time::Duration::from_nanos(it),
        });
        if let Some(told) = &self.told {
            told.tell(&mut problem.headers, limit, verdict, self.limiter.is_window());
        }
        problem
    }
}

#[cfg(test)]
mod tests;
