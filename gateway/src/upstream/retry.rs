//! What the end of a call means, and whether and when it is made again.
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use contract::{CallError, Exchange, Outcome, expression::Expression};
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use tokio::time::Instant;

use crate::{strategy::chance, telemetry::metrics::upstream::CallOutcome};

/// What stands beside a call.
#[derive(Default)]
pub struct Rules {
    /// The first whose condition holds decides.
    pub outcomes: Box<[(CallOutcome, Expression)]>,
    /// Some condition looks at the answer's body.
    pub reads_body: bool,
    pub retry: Option<Retry>,
    /// What the call is to a breaker, beside its HTTP method: the RPC, or the path as written. The route's pattern, when left out.
    pub point: Option<std::sync::Arc<str>>,
    /// The backend is told how long anybody waits for its answer, of each attempt anew.
    pub tells_time: bool,
}

/// How long anybody waits for an answer, in milliseconds.
pub const TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout-ms");

/// When and how often a call is made again.
#[derive(Debug)]
pub struct Retry {
    /// How many calls in all.
    pub tries: u32,
    pub errors: Box<[CallError]>,
    pub statuses: Box<[StatusCode]>,
    pub outcomes: Box<[CallOutcome]>,
    /// The pause before the second call is by chance below `first`, which doubles each time, up to `most`.
    pub first: Duration,
    pub most: Duration,
    /// The share of calls that repetitions may add.
    pub budget: f64,
    /// The time of each call; a share of the whole when left out.
    pub per_try: Option<Duration>,
    /// What may have reached the backend is repeated for every method.
    pub idempotent: bool,
}

/// How one attempt ended.
pub struct Ended<'a> {
    pub method: &'a Method,
    pub class: CallOutcome,
    pub error: Option<CallError>,
    pub status: Option<StatusCode>,
    /// Whether any byte may have reached the backend.
    pub sent: bool,
}

impl Rules {
    /// What the end of a call means; what no rule names means what its status says.
    pub fn class(&self, ex: &Exchange, outcome: &Outcome, otherwise: CallOutcome) -> CallOutcome {
        if self.outcomes.is_empty() {
            return otherwise;
        }
        let scope = ex.scope_after(outcome);
        let found = self.outcomes.iter().find(|(_, when)| when.passes(&scope).unwrap_or(false));
        found.map_or(otherwise, |it| it.0)
    }
}

impl Retry {
    /// Whether the definition asks for another call, and it can do no harm.
    pub fn wants(&self, it: &Ended<'_>) -> bool {
        let status = it.status.filter(|it| self.statuses.contains(it));
        let class = self.outcomes.contains(&it.class);
        if it.class == CallOutcome::Cancelled || !(class || status.is_some() || it.error.is_some_and(|it| self.errors.contains(&it))) {
            return false;
        }
        let refused = matches!(status, Some(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE))
            || (class && it.class == CallOutcome::Throttled && it.status.is_some());
        !it.sent || refused || self.idempotent || is_idempotent(it.method)
    }

    /// How long to wait before the call after the one with this number, from 1.
    pub fn pause(&self, number: u32, answer: Option<&HeaderMap>) -> Duration {
        let chance = |most: Duration| Duration::from_nanos(chance::below(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX).max(1)));
        match answer.and_then(retry_after) {
            // Never early, and not all at once.
            Some(it) => it + chance(self.first),
            None => chance(self.first.saturating_mul(1u32.checked_shl(number - 1).unwrap_or(u32::MAX)).min(self.most)),
        }
    }
}

/// Whether a method may be repeated though its first try may have reached the backend (RFC 9110, section 9.2.2).
fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE)
}

/// How long a backend asks to be left alone: seconds, or until a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    const MOST: u64 = 86_400;
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if text.bytes().all(|it| it.is_ascii_digit()) && !text.is_empty() {
        return Some(Duration::from_secs(text.parse().unwrap_or(MOST).min(MOST)));
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(Duration::from_secs(date(text)?.saturating_sub(now).min(MOST)))
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(", ")?.1.split([' ', ':']);
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|it| *it == month)? as u64;
    let year: u64 = words.next()?.parse().ok().filter(|it| (1970..10_000).contains(it))?;
    let mut clock = || words.next()?.parse::<u64>().ok().filter(|it| *it <= 60);
    let (hour, minute, second) = (clock()?, clock()?, clock()?);
    if words.next()? != "GMT" || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is the last one: Hinnant's days_from_civil.
    let (year, month) = if month >= 2 { (year, month - 2) } else { (year - 1, month + 10) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// How many calls were repeated of late, for all threads and all definitions that call one upstream: beyond a share, no call is.
pub struct Budget(Mutex<Window>);

/// Seconds that are remembered.
const SECONDS: usize = 10;
/// Repetitions a second that are free, so that a seldom call can be repeated at all.
const FREE: f64 = 10.0;

struct Window {
    epoch: Instant,
    /// The second that was counted last, since `epoch`.
    last: u64,
    calls: [u32; SECONDS],
    repeated: [u32; SECONDS],
}

impl Default for Budget {
    fn default() -> Self {
        Self(Mutex::new(Window { epoch: Instant::now(), last: 0, calls: [0; SECONDS], repeated: [0; SECONDS] }))
    }
}

impl Budget {
    /// A call that may be repeated begins.
    pub fn called(&self) {
        let mut it = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = it.slot();
        it.calls[at] = it.calls[at].saturating_add(1);
    }

    /// Whether one more repetition stays within `share`; then it is counted. It counts while it waits, too.
    pub fn take(&self, share: f64) -> bool {
        let mut it = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = it.slot();
        let sum = |list: &[u32]| list.iter().map(|it| f64::from(*it)).sum::<f64>();
        let free = if share == 0.0 { 0.0 } else { FREE * SECONDS as f64 };
        let within = sum(&it.repeated) + 1.0 <= sum(&it.calls) * share + free;
        if within {
            it.repeated[at] += 1;
        }
        within
    }
}

impl Window {
    /// Where this second is counted; what is older than the window is forgotten.
    fn slot(&mut self) -> usize {
        let now = self.epoch.elapsed().as_secs();
        for second in (self.last + 1..=now).take(SECONDS) {
            let at = second as usize % SECONDS;
            (self.calls[at], self.repeated[at]) = (0, 0);
        }
        // Further than the window: every slot was cleared, whichever seconds they stood for.
        self.last = now;
        now as usize % SECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry() -> Retry {
        Retry {
            tries: 3,
            errors: [CallError::Connect, CallError::Reset].into(),
            statuses: [StatusCode::SERVICE_UNAVAILABLE, StatusCode::BAD_GATEWAY].into(),
            outcomes: [CallOutcome::Throttled].into(),
            first: Duration::from_millis(50),
            most: Duration::from_millis(150),
            budget: 0.2,
            per_try: None,
            idempotent: false,
        }
    }

    #[test]
    fn only_what_is_named_and_harmless_is_repeated() {
        use CallOutcome::{Ok, Throttled, Transient, Unknown};
        let (get, post) = (&Method::GET, &Method::POST);
        let answer =
            |method, class, status: u16| Ended { method, class, error: None, status: StatusCode::from_u16(status).ok(), sent: true };
        let failed = |method, error, sent| Ended { method, class: Unknown, error: Some(error), status: None, sent };
        for (it, want, why) in [
            (answer(get, Ok, 200), false, "an answer"),
            (answer(get, Transient, 500), false, "a status that is not named"),
            (answer(get, Transient, 502), true, "a named status of an idempotent call"),
            (answer(post, Transient, 502), false, "a POST that reached the backend"),
            (answer(post, Transient, 503), true, "a POST that was refused"),
            (answer(post, Throttled, 429), true, "a POST that was throttled"),
            (failed(get, CallError::Reset, true), true, "a GET that was reset"),
            (failed(post, CallError::Reset, true), false, "a POST that was reset"),
            (failed(post, CallError::Reset, false), true, "a POST of which nothing was sent"),
            (failed(post, CallError::Connect, false), true, "a POST that met nobody"),
            (failed(get, CallError::ReadTimeout, true), false, "an error that is not named"),
            (Ended { class: CallOutcome::Cancelled, ..failed(get, CallError::Reset, true) }, false, "the client left"),
        ] {
            assert_eq!(retry().wants(&it), want, "{why}");
        }
        assert!(Retry { idempotent: true, ..retry() }.wants(&answer(post, Transient, 502)), "declared to be idempotent");
    }

    #[test]
    fn pauses_grow_to_a_limit_and_retry_after_beats_them() {
        let retry = retry();
        let longest = |number| (0..2000).map(|_| retry.pause(number, None)).max().unwrap().as_millis();
        assert!((45..=50).contains(&longest(1)), "{}", longest(1));
        assert!((90..=100).contains(&longest(2)), "{}", longest(2));
        assert!((140..=150).contains(&longest(40)), "{}", longest(40));
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "2".parse().unwrap());
        for _ in 0..100 {
            let pause = retry.pause(1, Some(&headers));
            assert!((2000..2050).contains(&pause.as_millis()), "{pause:?}");
        }
    }

    #[test]
    fn dates_of_retry_after_are_read() {
        for (text, want) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 2024 12:00:00 GMT", Some(1_709_208_000)),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("soon", None),
        ] {
            assert_eq!(date(text), want, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repetitions_stay_below_their_share() {
        let budget = Budget::default();
        // All that is called fails, and everybody wants two more calls each time.
        let (mut calls, mut repeated) = (0u32, 0u32);
        for _ in 0..60_000 {
            tokio::time::advance(Duration::from_millis(1)).await;
            budget.called();
            calls += 1;
            repeated += u32::from(budget.take(0.2)) + u32::from(budget.take(0.2));
        }
        let free = 70.0 * FREE;
        assert!(f64::from(repeated) <= f64::from(calls) * 0.2 + free, "{repeated} of {calls}");
        assert!(f64::from(repeated) >= f64::from(calls) * 0.19, "{repeated} of {calls}");
        tokio::time::advance(Duration::from_secs(3600)).await;
        let free = (0..1000).filter(|_| budget.take(0.2)).count();
        assert_eq!(free, 100, "what was long ago is forgotten");
        assert!(!Budget::default().take(0.0), "a budget of nothing");
    }
}
