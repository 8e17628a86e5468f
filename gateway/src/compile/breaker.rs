//! `breaker` of an Upstream.
use std::time::Duration;

use contract::expression::{Context, Names, Place};
use schemas::{units, v1};

use super::told::Told;
use crate::upstream::breaker::{Breaker, Criticality, Per, Rule, adaptive::Adaptive, ratio::Ratio};

/// What is remembered, where nothing is said.
const WINDOW: Duration = Duration::from_secs(10);

pub fn breaker(told: &Told<'_>, it: &v1::Breaker) -> Option<Breaker> {
    use v1::breaker::Rule as Written;
    let (rule, criticality) = match it.rule.as_ref() {
        Some(Written::Adaptive(it)) => {
            let at = |key: &str| format!("/breaker/adaptive/{key}");
            let k = it.k.unwrap_or(2.0);
            if !(1.0..=1000.0).contains(&k) {
                let help =
                    "2 lets through twice of what the backend accepts; nearer to 1 spares it more, and takes longer to see that it is well";
                told.error_help(&at("k"), "bad-number", format!("{k} is not between 1 and 1000"), help);
            }
            let adaptive =
                Adaptive { k, window: positive(told, &at("window"), &it.window, WINDOW), slow: slow(told, &at("slow"), &it.slow) };
            let criticality = it.criticality.as_deref().and_then(|text| {
                if !text.contains("${") && Criticality::of(text).is_none() {
                    let help = "`sheddable`, `normal`, `high` or `critical`, mostly by an expression such as ${plan.criticality}";
                    told.error_help(&at("criticality"), "bad-word", format!("'{text}' is no criticality"), help);
                }
                told.template(&at("criticality"), text, &Names::new(Place::Balance), Context::Plain)
            });
            (Rule::Adaptive(adaptive), criticality)
        }
        Some(Written::Ratio(it)) => {
            let at = |key: &str| format!("/breaker/ratio/{key}");
            let failures = match it.failures.as_deref().map(str::parse::<units::Percent>) {
                None => 0.5,
                Some(Ok(share)) if share.fraction() > 0.0 => share.fraction(),
                Some(Ok(_)) => {
                    told.error(&at("failures"), "bad-unit", "at 0% it would open without any failure");
                    0.5
                }
                Some(Err(fault)) => {
                    told.error(&at("failures"), "bad-unit", fault.message);
                    0.5
                }
            };
            let ratio = Ratio {
                window: positive(told, &at("window"), &it.window, WINDOW),
                failures,
                min_calls: it.min_calls.unwrap_or(20),
                open_for: positive(told, &at("open_for"), &it.open_for, Duration::from_secs(30)),
                probes: it.probes.unwrap_or(10),
                slow: slow(told, &at("slow"), &it.slow),
            };
            (Rule::Ratio(ratio), None)
        }
        // Refused by the check of the form.
        None => return None,
    };
    let counted = |word: &str| it.per.iter().any(|it| it == word);
    let per = Per { node: it.per.is_empty() || counted("node"), method: counted("method") };
    Some(Breaker::new(rule, per, criticality))
}

fn positive(told: &Told<'_>, pointer: &str, text: &Option<String>, or: Duration) -> Duration {
    match told.duration(pointer, text.as_deref()) {
        Some(it) if it.is_zero() => {
            told.error(pointer, "bad-unit", "no time at all would remember nothing, and spare nobody");
            or
        }
        it => it.unwrap_or(or),
    }
}

fn slow(told: &Told<'_>, pointer: &str, text: &Option<String>) -> Option<Duration> {
    text.as_ref().map(|_| positive(told, pointer, text, Duration::MAX))
}
