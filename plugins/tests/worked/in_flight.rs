//! Lets a number of requests in at once, and makes the others wait.
use std::sync::Arc;

use contract::{
    Exchange, Kind, Outcome, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::Env,
    onion::{Next, Plugin},
};
use schemas::units::Duration;
use tokio::{sync::Semaphore, time::timeout};

/// The ring.
pub struct InFlight {
    places: Arc<Semaphore>,
    wait: std::time::Duration,
}

/// # Config
/// Requests beyond `max` wait for a place; after `wait` they are answered with 503.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How many may be inside at once.
    #[schemars(range(min = 1, max = 100_000))]
    pub max: usize,
    /// How long a request waits for a place.
    #[serde(default = "default_wait")]
    pub wait: Duration,
}

fn default_wait() -> Duration {
    Duration(std::time::Duration::from_secs(1))
}

impl Configure for InFlight {
    type Config = Config;
    const NAME: &'static str = "in-flight";
    const ABOUT: &'static str = "Lets a number of requests in at once, and makes the others wait.";
    const NOTES: RingNotes = RingNotes { reads: "nothing", answers: "503 when full", authenticates: false, rewrites_body: false };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        // The same places after a reload that left this configuration alone, so that it frees none that is taken.
        let places = env.state(|| Semaphore::new(config.max));
        Ok(Self { places, wait: config.wait.0 })
    }
}

impl Plugin for InFlight {
    async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
        // The place is a guard: it is given back when the answer is there, and when the client leaves and this future is dropped.
        let Ok(Ok(_place)) = timeout(self.wait.min(ex.time_left()), self.places.acquire()).await else {
            return Err(Problem::new(Kind::Unavailable, "too much is going on here, ask again later").reason("in_flight"));
        };
        next.run(ex).await
    }
}

#[cfg(test)]
mod tests {
    use contract::{
        Body,
        catalog::plugin,
        onion::{Chain, Ring, Target},
        testkit::{Bench, exchange},
    };
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_place_is_given_back_for_the_next() {
        let bench = Bench::of(&plugin::<InFlight>(), json!({"max": 1, "wait": "10ms"}));
        for _ in 0..3 {
            assert_eq!(bench.send(http::Request::new(Body::Empty)).await.status(), 200);
        }
    }

    #[tokio::test]
    async fn who_finds_no_place_in_time_is_refused_and_goes_no_further() {
        struct Nobody;
        impl Target for Nobody {
            async fn call(&self, _: &mut Exchange) -> Outcome {
                panic!("it was let in")
            }
        }
        let full = InFlight { places: Arc::new(Semaphore::new(0)), wait: std::time::Duration::from_millis(1) };
        let chain = Chain::new(vec![Ring::plugin("in-flight", full)], Arc::new(Nobody));
        let outcome = chain.run(&mut exchange(http::Request::new(Body::Empty)), &Nobody).await;
        assert_eq!(outcome.expect_err("there is no place").kind, Kind::Unavailable);
    }
}
