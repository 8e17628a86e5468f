//! Answers 503 while an API is being worked on.
use contract::{
    Exchange, Kind, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::Env,
    expression::{Context, Expression, Template},
    meter::Counter,
    onion::{Filter, Flow},
};
use schemas::units::Duration;

/// The ring.
pub struct Maintenance {
    except: Option<Expression>,
    message: Template,
    retry_after: std::time::Duration,
    refused: Counter,
}

/// # Config
/// Every request is answered with 503, but for those that `except` lets pass.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A condition, as in `when`; requests for which it is true go on.
    #[serde(default)]
    pub except: Option<String>,
    /// What clients are told; may hold `${…}`.
    #[serde(default = "default_message")]
    pub message: String,
    /// When clients may ask again: the header `Retry-After`.
    pub retry_after: Duration,
}

fn default_message() -> String {
    "this API is being worked on".into()
}

impl Configure for Maintenance {
    type Config = Config;
    const NAME: &'static str = "maintenance";
    const ABOUT: &'static str = "Answers 503 while an API is being worked on.";
    const NOTES: RingNotes =
        RingNotes { reads: "what `except` and `message` name", answers: "503", authenticates: false, rewrites_body: false };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        // Every fault is collected, so that an author mends them all at once.
        let mut faults = Vec::new();
        let retry_after = config.retry_after.0;
        if retry_after.as_secs() == 0 {
            faults.push(Fault::new("/retry_after", "`Retry-After` counts whole seconds").help("write 1s or more"));
        }
        let except = config.except.map(|it| env.condition("/except", &it)).transpose();
        let message = env.template("/message", &config.message, Context::Plain);
        match (except, message) {
            (Ok(except), Ok(message)) if faults.is_empty() => {
                let labels = [("owner", &*env.scope.owner), ("ring", &*env.scope.name)];
                let refused = env.meter.counter("allium_maintenance_refused_total", "Requests refused by maintenance.", &labels);
                Ok(Self { except, message, retry_after, refused })
            }
            (except, message) => {
                faults.extend(except.err().into_iter().flatten());
                faults.extend(message.err().into_iter().flatten());
                Err(faults)
            }
        }
    }
}

impl Filter for Maintenance {
    fn request(&self, ex: &mut Exchange) -> Flow {
        let scope = ex.scope();
        // What cannot be evaluated is not surely true, so it does not pass.
        if self.except.as_ref().is_some_and(|it| it.passes(&scope).unwrap_or(false)) {
            return Ok(None);
        }
        self.refused.add(1);
        let message = self.message.text(&scope).ok().flatten().unwrap_or_default().into_owned();
        let mut problem = Problem::new(Kind::Unavailable, message).reason("maintenance");
        problem.retry_after = Some(self.retry_after);
        Err(problem)
    }
}

#[cfg(test)]
mod tests {
    use contract::{Body, catalog::filter, testkit::Bench};
    use serde_json::json;

    use super::*;

    fn request(header: &str) -> http::Request<Body> {
        http::Request::builder().header("x-role", header).body(Body::Empty).unwrap()
    }

    #[tokio::test]
    async fn everybody_is_refused_but_who_is_excepted() {
        let bench = Bench::of(&filter::<Maintenance>(), json!({"retry_after": "5m", "except": "headers['x-role'] == 'operator'"}));
        assert_eq!(bench.send(request("visitor")).await.status(), 503);
        assert_eq!(bench.send(request("operator")).await.status(), 200);
    }

    #[test]
    fn every_fault_is_told_in_its_place() {
        let config = json!({"retry_after": "10ms", "except": "header.x", "message": "${nope}"});
        let faults = Bench::faults(&filter::<Maintenance>(), config);
        assert_eq!(faults.iter().map(|it| it.pointer.as_str()).collect::<Vec<_>>(), ["/retry_after", "/except", "/message"]);
    }
}
