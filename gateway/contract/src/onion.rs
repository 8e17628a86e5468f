//! The rings around a target: who sees what, in which order, is decided here and nowhere else.
use std::{future::Future, pin::Pin, sync::Arc};

use crate::{Body, Exchange, Outcome, Problem, exchange::End};

pub type Response = http::Response<Body>;
/// A boxed future of the request's own thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
/// `Ok(None)`: go on inward. `Ok(Some(response))`: answer here.
pub type Flow = Result<Option<Response>, Box<Problem>>;
/// Whether a ring takes part in an exchange.
pub type Condition = Box<dyn Fn(&Exchange) -> bool + Send + Sync>;

/// The most rings one route can have: [`Exchange::entered`] has a bit for each.
pub const MOST_RINGS: usize = 64;

/// A ring that may wait: it does I/O, or reads a body. It runs around everything inside it.
///
/// The object is shared by all threads; its future stays on the thread of the request.
/// If the client leaves, the future is dropped: what must be given back is held by a guard.
pub trait Plugin: Send + Sync + 'static {
    fn call(&self, ex: &mut Exchange, next: Next) -> impl Future<Output = Outcome>;
}

/// A ring that never waits: it looks at the head, and answers at once.
///
/// Invariant: `response` runs once, inside-out, for every filter whose `request` let the exchange
/// pass, whatever happened inside. The ring that answered does not see its own answer again.
pub trait Filter: Send + Sync + 'static {
    fn request(&self, _ex: &mut Exchange) -> Flow {
        Ok(None)
    }
    fn response(&self, _ex: &mut Exchange, _outcome: &mut Outcome) {}
    /// The last byte went out, or the client left. Runs where `request` let the exchange pass.
    fn done(&self, _end: &End<'_>) {}
    /// Whether this ring answers CORS preflights; such a request goes no further in than it.
    fn preflight(&self) -> bool {
        false
    }
}

/// The heart of the onion: what is inside the innermost ring.
pub trait Target: Send + Sync + 'static {
    fn call(&self, ex: &mut Exchange) -> impl Future<Output = Outcome>;
}

/// One ring of a route, ready to run.
pub struct Ring {
    /// The plugin's name, as authors write it.
    pub name: Box<str>,
    /// Decided once, on the way in.
    pub when: Option<Condition>,
    /// The body is read, up to the route's `max_size`, before this ring runs.
    pub reads_body: bool,
    pub kind: RingKind,
}

pub enum RingKind {
    Filter(Box<dyn Filter>),
    Plugin(Arc<dyn DynPlugin>),
}

/// The rings of one route, outermost first; built once, when the route is.
pub struct Chain {
    rings: Box<[Ring]>,
    target: Arc<dyn DynTarget>,
    waits: bool,
    preflight: Option<usize>,
}

/// What is left of the onion, seen from one ring. A clone runs it again: a retry, a refresh in the background.
#[derive(Clone)]
pub struct Next {
    chain: Arc<Chain>,
    at: usize,
}

impl Ring {
    pub fn filter(name: &str, it: impl Filter) -> Self {
        Self { name: name.into(), when: None, reads_body: false, kind: RingKind::Filter(Box::new(it)) }
    }

    pub fn plugin(name: &str, it: impl Plugin) -> Self {
        Self { name: name.into(), when: None, reads_body: false, kind: RingKind::Plugin(Arc::new(it)) }
    }

    fn waits(&self) -> bool {
        self.reads_body || matches!(self.kind, RingKind::Plugin(_))
    }

    fn takes_part(&self, ex: &Exchange) -> bool {
        self.when.as_ref().is_none_or(|it| it(ex))
    }

    /// One filter on the way in; `Ok(None)` whether it passed or took no part.
    fn enter(&self, at: usize, ex: &mut Exchange) -> Flow {
        let RingKind::Filter(it) = &self.kind else { return Ok(None) };
        if !self.takes_part(ex) {
            return Ok(None);
        }
        let flow = it.request(ex);
        if matches!(flow, Ok(None)) {
            ex.entered |= 1 << at;
        }
        flow
    }
}

impl Chain {
    /// At most [`MOST_RINGS`] rings; the caller has told the author otherwise.
    pub fn new<T: Target>(rings: Vec<Ring>, target: Arc<T>) -> Arc<Self> {
        assert!(rings.len() <= MOST_RINGS, "a route has at most {MOST_RINGS} rings");
        let preflight = rings.iter().position(|it| matches!(&it.kind, RingKind::Filter(it) if it.preflight()));
        let waits = rings.iter().any(Ring::waits);
        Arc::new(Self { rings: rings.into(), target, waits, preflight })
    }

    pub fn rings(&self) -> &[Ring] {
        &self.rings
    }

    /// Whether one of the rings answers CORS preflights.
    pub fn answers_preflight(&self) -> bool {
        self.preflight.is_some()
    }

    /// Runs the whole onion. `target` is the one the chain was built with: known by its type here, so that a
    /// chain in which nobody waits allocates nothing.
    pub async fn run<T: Target>(self: &Arc<Self>, ex: &mut Exchange, target: &T) -> Outcome {
        if self.waits {
            return walk(Next { chain: self.clone(), at: 0 }, ex).await;
        }
        let (reached, early) = enter(&self.rings, 0, self.rings.len(), ex);
        let mut outcome = match early {
            Some(outcome) => outcome,
            None => target.call(ex).await,
        };
        leave(&self.rings, 0, reached, ex, &mut outcome);
        outcome
    }

    /// Tells every filter that let the exchange pass how it ended.
    pub fn done(&self, entered: u64, end: &End<'_>) {
        let mut left = entered;
        while left != 0 {
            let at = 63 - left.leading_zeros() as usize;
            left &= !(1 << at);
            if let Some(Ring { kind: RingKind::Filter(it), .. }) = self.rings.get(at) {
                it.done(end);
            }
        }
    }
}

impl Next {
    /// Runs what is inside; may be called on a clone again.
    pub fn run(self, ex: &mut Exchange) -> LocalFuture<'_, Outcome> {
        match self.chain.rings.get(self.at) {
            None => self.chain.target.clone().call(ex),
            Some(_) => Box::pin(walk(self, ex)),
        }
    }
}

async fn walk(next: Next, ex: &mut Exchange) -> Outcome {
    let Next { chain, at } = next;
    let rings = &chain.rings;
    let split = rings[at..].iter().position(Ring::waits).map_or(rings.len(), |it| at + it);
    let (reached, early) = enter(rings, at, split, ex);
    let mut outcome = match early {
        Some(outcome) => outcome,
        None => match rings.get(split) {
            None => chain.target.clone().call(ex).await,
            Some(ring) => wait(ring, &chain, split, ex).await,
        },
    };
    leave(rings, at, reached, ex, &mut outcome);
    outcome
}

/// A ring that waits, and everything inside it.
async fn wait(ring: &Ring, chain: &Arc<Chain>, at: usize, ex: &mut Exchange) -> Outcome {
    if ring.reads_body {
        ex.open_body().await?;
    }
    let inside = Next { chain: chain.clone(), at: at + 1 };
    match &ring.kind {
        RingKind::Plugin(it) if ring.takes_part(ex) => it.clone().call(ex, inside).await,
        RingKind::Plugin(_) => inside.run(ex).await,
        RingKind::Filter(it) => {
            let entered = match ring.enter(at, ex) {
                Ok(None) => ex.entered & (1 << at) != 0,
                Ok(Some(response)) => return Ok(response),
                Err(problem) => return Err(problem),
            };
            let mut outcome = inside.run(ex).await;
            if entered {
                it.response(ex, &mut outcome);
            }
            outcome
        }
    }
}

/// Enters the filters `from..to`. Returns how far it came, and the answer if one of them gave it.
fn enter(rings: &[Ring], from: usize, to: usize, ex: &mut Exchange) -> (usize, Option<Outcome>) {
    for (at, ring) in rings.iter().enumerate().take(to).skip(from) {
        // A second run of the same part of the chain decides anew.
        ex.entered &= !(1 << at);
        match ring.enter(at, ex) {
            Ok(None) => (),
            Ok(Some(response)) => return (at, Some(Ok(response))),
            Err(problem) => return (at, Some(Err(problem))),
        }
    }
    (to, None)
}

fn leave(rings: &[Ring], from: usize, to: usize, ex: &mut Exchange, outcome: &mut Outcome) {
    for (at, ring) in rings.iter().enumerate().take(to).skip(from).rev() {
        if ex.entered & (1 << at) == 0 {
            continue;
        }
        if let RingKind::Filter(it) = &ring.kind {
            it.response(ex, outcome);
        }
    }
}

// === erasure: the only place that boxes a future ===

/// [`Plugin`], callable without knowing its type.
pub trait DynPlugin: Send + Sync {
    fn call<'a>(self: Arc<Self>, ex: &'a mut Exchange, next: Next) -> LocalFuture<'a, Outcome>;
}

impl<P: Plugin> DynPlugin for P {
    fn call<'a>(self: Arc<Self>, ex: &'a mut Exchange, next: Next) -> LocalFuture<'a, Outcome> {
        Box::pin(async move { Plugin::call(&*self, ex, next).await })
    }
}

trait DynTarget: Send + Sync {
    fn call<'a>(self: Arc<Self>, ex: &'a mut Exchange) -> LocalFuture<'a, Outcome>;
}

impl<T: Target> DynTarget for T {
    fn call<'a>(self: Arc<Self>, ex: &'a mut Exchange) -> LocalFuture<'a, Outcome> {
        Box::pin(async move { Target::call(&*self, ex).await })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{Kind, testkit::exchange};

    type Seen = Arc<Mutex<Vec<String>>>;
    struct Quiet(&'static str, Seen);
    struct Loud(&'static str, Seen);
    struct Early(Seen);
    struct Heart(Seen, bool);

    impl Filter for Quiet {
        fn request(&self, _: &mut Exchange) -> Flow {
            self.1.lock().unwrap().push(format!("+{}", self.0));
            Ok(None)
        }
        fn response(&self, _: &mut Exchange, outcome: &mut Outcome) {
            self.1.lock().unwrap().push(format!("-{}{}", self.0, if outcome.is_ok() { "" } else { "!" }));
        }
    }
    impl Filter for Early {
        fn request(&self, _: &mut Exchange) -> Flow {
            self.0.lock().unwrap().push("=early".into());
            Ok(Some(Response::new(Body::Empty)))
        }
        fn response(&self, _: &mut Exchange, _: &mut Outcome) {
            self.0.lock().unwrap().push("-early".into());
        }
    }
    impl Plugin for Loud {
        async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
            self.1.lock().unwrap().push(format!("+{}", self.0));
            let outcome = next.run(ex).await;
            self.1.lock().unwrap().push(format!("-{}", self.0));
            outcome
        }
    }
    impl Target for Heart {
        async fn call(&self, _: &mut Exchange) -> Outcome {
            self.0.lock().unwrap().push("*".into());
            match self.1 {
                true => Ok(Response::new(Body::Empty)),
                false => Err(Problem::new(Kind::Upstream, "broken")),
            }
        }
    }
    async fn check(rings: impl FnOnce(&Seen) -> Vec<Ring>, heart: bool, expect: &str) {
        let seen = Seen::default();
        let heart = Arc::new(Heart(seen.clone(), heart));
        let chain = Chain::new(rings(&seen), heart.clone());
        let _ = chain.run(&mut exchange(http::Request::new(Body::Empty)), &*heart).await;
        assert_eq!(seen.lock().unwrap().join(" "), expect);
    }
    fn f(name: &'static str, seen: &Seen) -> Ring {
        Ring::filter(name, Quiet(name, seen.clone()))
    }
    fn p(name: &'static str, seen: &Seen) -> Ring {
        Ring::plugin(name, Loud(name, seen.clone()))
    }
    fn never(mut ring: Ring) -> Ring {
        ring.when = Some(Box::new(|_| false));
        ring
    }
    fn reading(mut ring: Ring) -> Ring {
        ring.reads_body = true;
        ring
    }

    #[tokio::test]
    async fn rings_nest_whatever_their_kind() {
        check(|s| vec![f("a", s), f("b", s)], true, "+a +b * -b -a").await;
        check(|s| vec![f("a", s), p("b", s), f("c", s), f("d", s), p("e", s)], true, "+a +b +c +d +e * -e -d -c -b -a").await;
        check(|s| vec![f("a", s), reading(f("b", s)), f("c", s), reading(p("d", s))], true, "+a +b +c +d * -d -c -b -a").await;
        check(|_| vec![], true, "*").await;
    }
    #[tokio::test]
    async fn a_problem_travels_out_through_every_ring() {
        check(|s| vec![f("a", s), p("b", s), f("c", s)], false, "+a +b +c * -c! -b -a!").await;
    }
    #[tokio::test]
    async fn an_early_answer_is_seen_by_the_rings_outside_it_only() {
        let early = |s: &Seen| Ring::filter("early", Early(s.clone()));
        check(|s| vec![f("a", s), p("b", s), f("c", s), early(s), f("d", s)], true, "+a +b +c =early -c -b -a").await;
        check(|s| vec![f("a", s), early(s), f("d", s)], true, "+a =early -a").await;
        check(|s| vec![f("a", s), reading(early(s)), f("d", s)], true, "+a =early -a").await;
    }
    #[tokio::test]
    async fn a_ring_whose_condition_is_false_is_not_there_either_way() {
        check(|s| vec![never(f("a", s)), never(p("b", s)), f("c", s), never(reading(f("d", s)))], true, "+c * -c").await;
        check(|s| vec![never(f("a", s)), f("c", s)], true, "+c * -c").await;
    }
    #[tokio::test]
    async fn the_same_inside_can_run_twice() {
        struct Twice;
        impl Plugin for Twice {
            async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
                let _ = next.clone().run(ex).await;
                next.run(ex).await
            }
        }
        check(|s| vec![Ring::plugin("twice", Twice), f("a", s)], true, "+a * -a +a * -a").await;
    }
    #[tokio::test]
    async fn the_end_is_told_to_those_who_let_it_pass() {
        struct Told(Arc<Mutex<u32>>);
        impl Filter for Told {
            fn done(&self, _: &End<'_>) {
                *self.0.lock().unwrap() += 1;
            }
        }
        let told = Arc::new(Mutex::new(0));
        let heart = Arc::new(Heart(Seen::default(), true));
        let chain = Chain::new(vec![Ring::filter("a", Told(told.clone())), never(Ring::filter("b", Told(told.clone())))], heart.clone());
        let mut ex = exchange(http::Request::new(Body::Empty));
        let _ = chain.run(&mut ex, &*heart).await;
        chain.done(ex.entered, &End { exchange: &ex, status: http::StatusCode::OK, sent: 0, completed: true });
        assert_eq!(*told.lock().unwrap(), 1);
    }
}
