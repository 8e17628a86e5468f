//! Masks personal data in answers: by path and preset, in JSON and in server-sent events.
mod coding;
mod document;
mod events;
mod mask;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use contract::{
    Body, BodyError, Exchange, Kind, Outcome, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::{Env, HEAVY, Spawn, heavy},
    expression::{Context, Expression, Template},
    json::pattern::{MOST_STEPS, Pattern, Patterns},
    meter::Counter,
    onion::{Next, Plugin, Response},
    scope::media_type,
};
use http::{HeaderValue, Method, StatusCode, header};
use schemas::units::Size;

use self::{
    coding::Undecodable,
    document::{Case, Rules},
    events::Events,
    mask::Mask,
};

/// The ring.
pub struct Desensitize {
    rules: Arc<Rules>,
    conditions: Box<[Conditions]>,
    salt: Option<Template>,
    pass: bool,
    max_size: usize,
    spawn: Arc<dyn Spawn>,
    masked: Counter,
    blocked: Counter,
    unread: Counter,
}

/// When a rule is applied.
struct Conditions {
    when: Option<Expression>,
    unless: Option<Expression>,
}

/// # Config
/// Values of JSON answers and of server-sent events are masked before they leave.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What is masked, and how. Of several rules that name a value, the first holds.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// A program of jq (not built yet).
    #[serde(default)]
    pub jq: Option<String>,
    /// What happens to an answer that cannot be read: `block` answers 502 in its place, `pass` lets it out unmasked.
    #[serde(default)]
    pub on_error: OnError,
    /// What hashes are made with, such as `${secret('MASK_KEY')}`; without it, whoever knows a phone number knows its hash.
    #[serde(default)]
    pub salt: Option<String>,
    /// The largest answer that is read, decoded. A larger one is answered with 502.
    #[serde(default = "default_size")]
    pub max_size: Size,
}

/// One rule.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Where: `user.phone`, `items[*].phone`, `**.phone` at any depth, `['a.b']` for a name with dots.
    pub at: String,
    /// How: `phone`, `id_card`, `email`, `bank_card`, `name`, `address`, `plate`, `remove`, `hash`, `fixed`, `fixed(TEXT)`, `keep(FIRST,LAST)`.
    pub r#as: String,
    /// Applied only where this holds, or cannot be told.
    #[serde(default)]
    pub when: Option<String>,
    /// Left out where this holds, such as `'crm.pii' in auth.scopes`.
    #[serde(default)]
    pub unless: Option<String>,
}

/// What happens to an answer that cannot be read.
#[derive(Clone, Copy, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It is not let out: 502. Of events, the one is left out.
    #[default]
    Block,
    /// It goes out as it is.
    Pass,
}

fn default_size() -> Size {
    Size(16 << 20)
}

impl Configure for Desensitize {
    type Config = Config;
    const NAME: &'static str = "desensitize";
    const ABOUT: &'static str = "Masks personal data in answers: JSON and server-sent events.";
    const NOTES: RingNotes = RingNotes {
        reads: "the answer's body",
        answers: "502 in place of an answer that it cannot read",
        authenticates: false,
        rewrites_body: true,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let (mut patterns, mut masks, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        for (at, it) in config.rules.iter().enumerate() {
            match Pattern::parse(&it.at) {
                Ok(it) => patterns.push(it),
                Err(why) => {
                    let mut fault = Fault::new(format!("/rules/{at}/at"), why.message).help("write it like items[*].phone or **.phone");
                    fault.within = Some((why.offset, 1));
                    faults.push(fault);
                }
            }
            match read_mask(&it.r#as) {
                Some(it) => masks.push(it),
                None => {
                    let words: Vec<_> = mask::WORDS.iter().map(|(it, _)| *it).collect();
                    let fault = Fault::new(format!("/rules/{at}/as"), format!("'{}' is no way to mask", it.r#as));
                    faults.push(fault.help(format!("it is one of {}, fixed, fixed(TEXT), keep(FIRST,LAST)", words.join(", "))));
                }
            }
            let mut condition = |key: &str, text: &Option<String>| {
                let it = text.as_ref().map(|it| env.condition(&format!("/rules/{at}/{key}"), it)).transpose();
                it.map_err(|it| faults.extend(it)).ok().flatten()
            };
            conditions.push(Conditions { when: condition("when", &it.when), unless: condition("unless", &it.unless) });
        }
        if config.jq.is_some() {
            faults.push(Fault::new("/jq", "programs of jq are known, but not built into this gateway").help("write `rules`"));
        } else if config.rules.is_empty() {
            faults.push(Fault::new("/rules", "without a rule nothing is masked").help("try {at: \"**.phone\", as: phone}"));
        }
        if masks.contains(&Mask::Hash) && config.salt.is_none() {
            let warning = Fault::new("/salt", "without `salt`, a hash of a phone number is as good as the number");
            env.warn(warning.help("write salt: \"${secret('NAME')}\""));
        }
        let salt =
            config.salt.map(|it| env.template("/salt", &it, Context::Plain)).transpose().map_err(|it| faults.extend(it)).ok().flatten();
        let patterns = Patterns::new(&patterns);
        if patterns.is_none() {
            faults.push(Fault::new("/rules", format!("the rules have more than {MOST_STEPS} steps together")));
        }
        let Some(patterns) = patterns.filter(|_| faults.is_empty()) else { return Err(faults) };
        let labels = [("owner", &*env.scope.owner), ("ring", &*env.scope.name)];
        let counter = |name, help| env.meter.counter(name, help, &labels);
        Ok(Self {
            rules: Arc::new(Rules { patterns, masks: masks.into() }),
            conditions: conditions.into(),
            salt,
            pass: config.on_error == OnError::Pass,
            max_size: config.max_size.0 as usize,
            spawn: env.spawn.clone(),
            masked: counter("allium_desensitize_masked_total", "Values masked in answers."),
            blocked: counter("allium_desensitize_blocked_total", "Answers kept back because they could not be read."),
            unread: counter("allium_desensitize_unread_total", "Answers and events that could not be read, whatever became of them."),
        })
    }
}

/// `phone`, `fixed(TEXT)`, `keep(3,4)`.
fn read_mask(text: &str) -> Option<Mask> {
    if let Some((_, it)) = mask::WORDS.iter().find(|(word, _)| *word == text) {
        return Some(it.clone());
    }
    if text == "fixed" {
        return Some(Mask::Fixed("***".into()));
    }
    let (word, inner) = text.strip_suffix(')')?.split_once('(')?;
    match word {
        "fixed" => Some(Mask::Fixed(inner.into())),
        "keep" => {
            let (first, last) = inner.split_once(',')?;
            let number = |it: &str| it.trim().parse::<u16>().ok().map(usize::from);
            Some(Mask::Keep(number(first)?, number(last)?))
        }
        _ => None,
    }
}

/// What is known of an answer that was looked at.
enum Looked {
    /// It stays as it is.
    Same,
    /// These bytes, encoded as they came.
    Masked(Bytes, u64),
}

impl Plugin for Desensitize {
    async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
        // A part of an answer could not be read, nor one in a coding that is not understood. Rings outside see what the client said.
        let asked: Vec<_> = [header::RANGE, header::IF_RANGE, header::ACCEPT_ENCODING]
            .into_iter()
            .map(|name| (ex.head.headers.get_all(&name).iter().cloned().collect::<Vec<_>>(), name))
            .collect();
        for (_, name) in &asked {
            ex.head.headers.remove(name);
        }
        let gzip = accepts_gzip(&asked[2].0) && !media_list_has_events(ex);
        let accept = if gzip { coding::UNDERSTOOD } else { "identity" };
        ex.head.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
        let outcome = next.run(ex).await;
        ex.head.headers.remove(header::ACCEPT_ENCODING);
        for (values, name) in asked {
            for it in values {
                ex.head.headers.append(&name, it);
            }
        }
        self.shape(ex, outcome?).await
    }
}

/// The client's own words; deflate is asked for only beside gzip.
fn accepts_gzip(lines: &[HeaderValue]) -> bool {
    let all = lines.iter().filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(','));
    let has = |it: &str, word: &str| {
        let (name, more) = it.split_once(';').unwrap_or((it, ""));
        name.trim().eq_ignore_ascii_case(word) && !matches!(more.replace(' ', "").as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    };
    let (mut gzip, mut deflate) = (false, false);
    for it in all {
        gzip |= has(it, "gzip");
        deflate |= has(it, "deflate");
    }
    gzip && deflate
}

fn media_list_has_events(ex: &Exchange) -> bool {
    ex.head.headers.get_all(header::ACCEPT).iter().any(|it| memchr::memmem::find(it.as_bytes(), b"text/event-stream").is_some())
}

impl Desensitize {
    /// The rules that hold for this exchange. What cannot be told is masked.
    fn case(&self, ex: &Exchange) -> Result<Case, Box<Problem>> {
        let scope = ex.scope();
        let holds = |it: &Conditions| {
            it.when.as_ref().is_none_or(|it| it.passes(&scope).unwrap_or(true))
                && !it.unless.as_ref().is_some_and(|it| it.passes(&scope).unwrap_or(false))
        };
        let salt = match &self.salt {
            None => Default::default(),
            Some(it) => match it.text(&scope) {
                Ok(Some(it)) if !it.is_empty() => it.as_bytes().into(),
                _ => return Err(self.block("the salt is empty")),
            },
        };
        Ok(Case { active: self.conditions.iter().map(holds).collect(), salt, depth: ex.route.json_depth.max(128) })
    }

    fn block(&self, why: &'static str) -> Box<Problem> {
        self.blocked.add(1);
        Problem::new(Kind::Upstream, "the backend's answer could not be made fit to be sent").because(why).reason("desensitize")
    }

    /// An answer that cannot be read.
    fn unread(&self, answer: Response, why: &'static str) -> Outcome {
        self.unread.add(1);
        if self.pass { Ok(answer) } else { Err(self.block(why)) }
    }

    async fn shape(&self, ex: &Exchange, mut answer: Response) -> Outcome {
        let case = self.case(ex)?;
        if !case.active.contains(&true) || matches!(answer.body(), Body::Empty) && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(answer);
        }
        answer.headers_mut().remove(header::ACCEPT_RANGES);
        if ex.head.method == Method::HEAD || matches!(answer.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            // It was the length of what would have been masked.
            answer.headers_mut().remove(header::CONTENT_LENGTH);
            return Ok(answer);
        }
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS => return self.unread(answer, "another protocol was begun"),
            StatusCode::PARTIAL_CONTENT => return self.unread(answer, "a part of a document cannot be read"),
            _ => (),
        }
        let Ok(codings) = coding::of(answer.headers()) else { return self.unread(answer, "its content coding is not understood") };
        if media_type(answer.headers()) == "text/event-stream" {
            if !codings.is_empty() {
                return self.unread(answer, "a stream of events is compressed");
            }
            forget(&mut answer);
            let body = answer.body_mut().take();
            let (rules, masked, unread) = (self.rules.clone(), self.masked.clone(), self.unread.clone());
            *answer.body_mut() =
                Body::stream(Events { body, rules, case, pass: self.pass, masked, unread, held: BytesMut::new(), ended: false });
            return Ok(answer);
        }
        let bytes = match answer.body_mut().bytes(self.max_size).await {
            Ok(it) => it.clone(),
            // What was read of it cannot be given back.
            Err(BodyError::TooLarge { .. }) => {
                self.unread.add(1);
                return Err(self.block("it is larger than `max_size`"));
            }
            Err(it) => return Err(it.of_response()),
        };
        if bytes.is_empty() {
            return Ok(answer);
        }
        let (rules, most, size) = (self.rules.clone(), self.max_size, bytes.len());
        let coding = codings.first().copied();
        let work = move || look(&rules, &case, coding, bytes, most);
        // A compressed answer may be twenty times as large as it looks.
        let looked = match size * if coding.is_some() { 8 } else { 1 } < HEAVY {
            true => work(),
            false => heavy(&*self.spawn, work).await.unwrap_or(Err("it could not be masked")),
        };
        match looked {
            Ok(Looked::Same) => Ok(answer),
            Ok(Looked::Masked(bytes, count)) => {
                self.masked.add(count);
                forget(&mut answer);
                *answer.body_mut() = Body::Full(bytes);
                Ok(answer)
            }
            Err(why) => self.unread(answer, why),
        }
    }
}

fn look(rules: &Rules, case: &Case, coding: Option<coding::Coding>, bytes: Bytes, most: usize) -> Result<Looked, &'static str> {
    let plain = match coding {
        None => bytes.clone(),
        Some(it) => match coding::decode(it, &bytes, most) {
            Ok(it) => it.into(),
            Err(Undecodable::Broken) => return Err("it cannot be decoded"),
            Err(Undecodable::TooLarge) => return Err("decoded, it is larger than `max_size`"),
        },
    };
    let (masked, count) = document::mask(rules, case, plain.clone()).map_err(|_| "it is no JSON")?;
    if masked == plain {
        return Ok(Looked::Same);
    }
    Ok(Looked::Masked(coding.map_or(masked.clone(), |it| coding::encode(it, &masked).into()), count))
}

/// What described the body that was.
fn forget(answer: &mut Response) {
    for name in ["content-length", "etag", "last-modified", "content-md5", "digest", "content-digest", "repr-digest"] {
        answer.headers_mut().remove(name);
    }
}

#[cfg(test)]
mod tests;
