//! A circuit that opens at a share of failures, waits, and closes again after calls that were let through to try.
use std::time::Duration;

use tokio::time::Instant;

use crate::{strategy::chance, upstream::breaker::standing::Standing};

const PARTS: usize = 10;
/// Calls that were let through to try are waited for at most so long; then those decide that have ended.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub window: Duration,
    /// The share of failures that opens it.
    pub failures: f64,
    /// Not before so many calls in the window.
    pub min_calls: u32,
    pub open_for: Duration,
    /// So many calls are let through to try.
    pub probes: u32,
    /// A call that takes as long is a failure.
    pub slow: Option<Duration>,
}

/// Invariant: what a call comes to is counted only in the state in which it began; each change of state is a new generation.
pub struct Gate {
    rule: Ratio,
    epoch: Instant,
    generation: u64,
    phase: Phase,
}

enum Phase {
    /// Calls and failures of each part of the window; the part that was counted last.
    Closed {
        parts: [(u32, u32); PARTS],
        last: u64,
    },
    Open {
        until: Instant,
    },
    /// `given` counts calls on their way and those that ended.
    HalfOpen {
        since: Instant,
        given: u32,
        good: u32,
        bad: u32,
    },
}

impl Gate {
    pub fn new(rule: Ratio, now: Instant) -> Self {
        Self { rule, epoch: now, generation: 0, phase: closed() }
    }

    /// Lets a call of this generation through, or says after how long to ask again.
    pub fn ask(&mut self, now: Instant) -> Result<u64, Duration> {
        self.turn(now);
        match &mut self.phase {
            Phase::Closed { .. } => Ok(self.generation),
            Phase::Open { until } => Err(until.saturating_duration_since(now)),
            Phase::HalfOpen { given, .. } if *given < self.rule.probes => {
                *given += 1;
                Ok(self.generation)
            }
            Phase::HalfOpen { since, .. } => Err((*since + LONGEST).saturating_duration_since(now).min(Duration::from_secs(1))),
        }
    }

    /// A call of a generation ended.
    pub fn ended(&mut self, now: Instant, generation: u64, good: bool) {
        self.turn(now);
        if generation != self.generation {
            return;
        }
        let part = self.part(now);
        match &mut self.phase {
            Phase::Closed { parts, last } => {
                let part = part.max(*last);
                for it in (*last + 1..=part).take(PARTS) {
                    parts[it as usize % PARTS] = (0, 0);
                }
                *last = part;
                let here = &mut parts[part as usize % PARTS];
                here.0 += 1;
                here.1 += u32::from(!good);
                let (calls, bad) = parts.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
                if calls >= self.rule.min_calls && share(bad, calls) >= self.rule.failures {
                    self.open(now);
                }
            }
            Phase::HalfOpen { good: fine, bad, .. } => {
                *fine += u32::from(good);
                *bad += u32::from(!good);
                let (fine, bad, probes) = (*fine, *bad, self.rule.probes);
                // As soon as the calls that are missing can change nothing.
                if share(bad, probes) >= self.rule.failures {
                    self.open(now);
                } else if fine + bad >= probes {
                    self.close();
                }
            }
            Phase::Open { .. } => (),
        }
    }

    /// A call of a generation came to nothing: another one may be let through in its place.
    pub fn returned(&mut self, generation: u64) {
        if let Phase::HalfOpen { given, .. } = &mut self.phase
            && generation == self.generation
        {
            *given = given.saturating_sub(1);
        }
    }

    pub fn standing(&mut self, now: Instant) -> Standing {
        self.turn(now);
        match self.phase {
            Phase::Closed { .. } => Standing::Closed,
            Phase::Open { .. } => Standing::Open,
            Phase::HalfOpen { .. } => Standing::HalfOpen,
        }
    }

    /// What changes with time alone.
    fn turn(&mut self, now: Instant) {
        match self.phase {
            Phase::Open { until } if now >= until => self.half_open(now),
            // Never stuck, whatever became of the calls that were let through.
            Phase::HalfOpen { since, given, good, bad } if now >= since + LONGEST => match (good + bad, given) {
                (0, 0) => self.half_open(now),
                (0, _) => self.open(now),
                (ended, _) if share(bad, ended) >= self.rule.failures => self.open(now),
                _ => self.close(),
            },
            _ => (),
        }
    }

    fn open(&mut self, now: Instant) {
        // Not all gateways at once.
        let most = (self.rule.open_for / 10).as_nanos() as u64;
        self.enter(Phase::Open { until: now + self.rule.open_for + Duration::from_nanos(chance::below(most.max(1))) });
    }

    fn half_open(&mut self, now: Instant) {
        self.enter(Phase::HalfOpen { since: now, given: 0, good: 0, bad: 0 });
    }

    fn close(&mut self) {
        self.enter(closed());
    }

    fn enter(&mut self, phase: Phase) {
        self.generation += 1;
        self.phase = phase;
    }

    fn part(&self, now: Instant) -> u64 {
        let length = (self.rule.window.as_nanos() / PARTS as u128).max(1);
        (now.saturating_duration_since(self.epoch).as_nanos() / length) as u64
    }
}

fn closed() -> Phase {
    Phase::Closed { parts: [(0, 0); PARTS], last: 0 }
}

fn share(part: u32, of: u32) -> f64 {
    f64::from(part) / f64::from(of.max(1))
}
