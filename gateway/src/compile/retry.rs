//! `outcomes` and `retry`: what the end of a call means, and when it is made again.
use contract::{
    CallError,
    expression::{Names, Place},
};
use http::StatusCode;
use schemas::{units, v1};

use super::told::Told;
use crate::{
    telemetry::metrics::upstream::CallOutcome,
    upstream::retry::{Retry, Rules},
};

/// The first pause and the longest, where nothing is said.
const BACKOFF: &str = "50ms..1s";
/// The share of calls that repetitions may add, where nothing is said.
const BUDGET: f64 = 0.2;

/// What stands beside one call, written at `place`.
pub fn rules(told: &Told<'_>, place: &str, it: &v1::Call, names: &Names<'_>) -> Rules {
    let names = Names { place: Place::Outcomes, secrets: false, ..*names };
    let mut rules = Rules::default();
    let outcomes = it.outcomes.iter().enumerate().filter_map(|(number, it)| {
        let when = told.condition(&format!("{place}/outcomes/{number}/when"), &it.when, &names)?;
        told.reads.set(told.reads.get().and(when.reads()));
        rules.reads_body |= when.reads().response_body();
        Some((outcome(&it.is)?, when))
    });
    rules.outcomes = outcomes.collect();
    rules.retry = it.retry.as_ref().map(|it| retry(told, &format!("{place}/retry"), it));
    rules
}

fn retry(told: &Told<'_>, place: &str, it: &v1::Retry) -> Retry {
    let (mut errors, mut statuses, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for it in &it.conditions {
        match it.as_str() {
            "connect" => errors.extend([CallError::Connect, CallError::Tls, CallError::ConnectTimeout]),
            "tls" => errors.push(CallError::Tls),
            "connect_timeout" => errors.push(CallError::ConnectTimeout),
            "reset" => errors.push(CallError::Reset),
            "read_timeout" => errors.push(CallError::ReadTimeout),
            "timeout" => errors.extend([CallError::Timeout, CallError::ReadTimeout]),
            "protocol" => errors.push(CallError::Protocol),
            word => match (outcome(word), word.parse::<u16>().ok().and_then(|it| StatusCode::from_u16(it).ok())) {
                (Some(it), _) => outcomes.push(it),
                (None, Some(it)) => statuses.push(it),
                // Refused by the check of the form.
                (None, None) => (),
            },
        }
    }
    if it.conditions.is_empty() {
        told.error_help(
            place,
            "no-condition",
            "nothing is retried that is not named, and nothing is named",
            "write `conditions`, as in `conditions: [connect, reset, \"503\"]`",
        );
    }
    let (first, most) = backoff(told, &format!("{place}/backoff"), it.backoff.as_deref().unwrap_or(BACKOFF));
    let budget = match it.budget.as_deref().map(str::parse::<units::Percent>) {
        None => BUDGET,
        Some(Ok(it)) => it.fraction(),
        Some(Err(fault)) => {
            told.error(&format!("{place}/budget"), "bad-unit", fault.message);
            BUDGET
        }
    };
    let per_try = told.duration(&format!("{place}/per_try"), it.per_try.as_deref());
    if per_try.is_some_and(|it| it.is_zero()) {
        told.error(&format!("{place}/per_try"), "bad-unit", "no time at all is not enough for any call");
    }
    Retry {
        tries: it.tries.unwrap_or(2).max(1),
        errors: errors.into(),
        statuses: statuses.into(),
        outcomes: outcomes.into(),
        first,
        most,
        budget,
        per_try,
        idempotent: it.idempotent.unwrap_or(false),
    }
}

/// `50ms..1s`, or one duration that is both.
fn backoff(told: &Told<'_>, place: &str, text: &str) -> (std::time::Duration, std::time::Duration) {
    let (first, most) = text.split_once("..").unwrap_or((text, text));
    let one = |text: &str| told.duration(place, Some(text)).unwrap_or_default();
    let (first, most) = (one(first), one(most));
    if first > most {
        told.error(place, "bad-unit", "the first pause is longer than the longest");
    }
    (first, most)
}

fn outcome(word: &str) -> Option<CallOutcome> {
    Some(match word {
        "ok" => CallOutcome::Ok,
        "throttled" => CallOutcome::Throttled,
        "transient" => CallOutcome::Transient,
        "unknown" => CallOutcome::Unknown,
        "fatal" => CallOutcome::Fatal,
        _ => return None,
    })
}
