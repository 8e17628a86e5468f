//! Limits: who is counted together, what is nested, what a reload leaves alone.
use tests::harness::{Gateway, SILENT};

/// How many of so many requests pass, one after the other.
async fn passed(gateway: &Gateway, path: &str, headers: &[&str], asked: usize) -> usize {
    let mut wire = gateway.wire().await;
    let mut count = 0;
    for _ in 0..asked {
        wire.send(tests::wire::request(&format!("GET {path}"), headers, "")).await;
        let answer = wire.answer().await;
        count += usize::from(answer.status == 200);
        assert!(matches!(answer.status, 200 | 429), "{}", answer.status);
    }
    count
}

fn api(name: &str, rings: &str) -> String {
    format!(
        "---\nkind: Api\ninfo: {{name: {name}, version: v1}}\ninbound: {{match: /{name}}}\nplugins: [{rings}]\nproxy: {{respond: {{status: 200}}}}\n"
    )
}

/// Two Apps on one Plan, each with a key of its name.
const APPS: &str = "kind: Plan
name: gold
rate: 20/m
burst: 20
---
kind: App
name: one
plan: gold
credentials: [{api_key: {file: secrets/one}}]
---
kind: App
name: two
plan: gold
credentials: [{api_key: {file: secrets/two}}]
---
kind: App
name: free
credentials: [{api_key: {file: secrets/free}}]
";

async fn with_apps(apis: &str) -> Gateway {
    let setup = Gateway::with(&format!("{APPS}{apis}")).settings(&format!("secrets: {{files: secrets}}\n{SILENT}"));
    setup.file("secrets/one", "one").file("secrets/two", "two").file("secrets/free", "free").start().await
}

#[tokio::test]
async fn a_client_that_asks_too_much_is_told_when_to_come_back_and_others_go_on() {
    let gateway =
        Gateway::serving(&api("a", "{rate-limit: {name: front, rate: 30/m, burst: 5, key: \"${headers['x-user']}\"}}")[4..]).await;
    assert_eq!(passed(&gateway, "/a", &["x-user: a"], 12).await, 5);
    assert_eq!(passed(&gateway, "/a", &["x-user: b"], 12).await, 5);
    let refused = gateway.ask("GET /a", &["x-user: a"], "").await.is(429);
    assert_eq!(refused.header("retry-after"), Some("2"));
    assert!(refused.header("ratelimit").is_some_and(|it| it.starts_with("\"front\";r=0;t=")), "{:?}", refused.header("ratelimit"));
    assert_eq!(refused.header("ratelimit-policy"), Some("\"front\";q=30;w=60;burst=5"));
    assert_eq!(refused.json()["message"], "too many requests");
    let metrics = gateway
        .figures(&[
            "allium_rate_limit_requests_total{owner=\"Api/a@v1\",result=\"admitted\",ring=\"front\"} 10",
            "allium_rate_limit_requests_total{owner=\"Api/a@v1\",result=\"refused\",ring=\"front\"} 15",
            "allium_refused_total{reason=\"rate_limit\"} 15",
        ])
        .await;
    assert!(!metrics.contains("x-user"), "no client's value becomes a label");
}

#[tokio::test]
async fn what_a_limit_refuses_its_parents_do_not_count() {
    let tenant = "{rate-limit: {name: tenant, rate: 10/m, burst: 10, key: \"${headers['x-tenant']}\"}}";
    let own = |parent: &str| format!("{{rate-limit: {{rate: 3/m, burst: 3, key: \"${{headers['x-user']}}\"{parent}}}}}");
    let text = format!(
        "{}{}",
        &api("nested", &format!("{tenant}, {}", own(", parent: tenant")))[4..],
        api("apart", &format!("{tenant}, {}", own("")))
    );
    let gateway = Gateway::serving(&text).await;
    for (path, left) in [("/nested", 7), ("/apart", 0)] {
        assert_eq!(passed(&gateway, path, &["x-tenant: t", "x-user: a"], 40).await, 3);
        let mut others = 0;
        for user in 0..10 {
            others += passed(&gateway, path, &["x-tenant: t", &format!("x-user: {user}x")], 1).await;
        }
        assert_eq!(others, left, "{path}");
    }
}

#[tokio::test]
async fn a_plan_is_one_limit_over_all_apis_of_an_app() {
    let rings = "{key-auth: {}}, {rate-limit: {rate: 1000/s, parent: plan}}";
    let narrow = "{key-auth: {}}, {rate-limit: {rate: 2/m, burst: 2, parent: plan}}";
    let gateway = with_apps(&format!("{}{}{}", api("a", rings), api("b", rings), api("c", narrow))).await;
    // What the narrow limit refuses does not count on the plan.
    assert_eq!(passed(&gateway, "/c", &["x-api-key: one"], 30).await, 2);
    assert_eq!(passed(&gateway, "/a", &["x-api-key: one"], 10).await, 10);
    assert_eq!(passed(&gateway, "/b", &["x-api-key: one"], 20).await, 8);
    assert_eq!(passed(&gateway, "/b", &["x-api-key: two"], 30).await, 20);
    assert_eq!(gateway.ask("GET /a", &["x-api-key: free"], "").await.is(403).json()["message"], "no rate is agreed on for who is calling");
}

#[tokio::test]
async fn a_rate_of_the_plan_holds_for_each_app_and_default_for_those_without() {
    let rings = "{key-auth: {}}, {rate-limit: {key: \"${app.name}\", rate: \"${plan.rate}\", burst: \"${plan.burst}\", default: 2/m}}";
    let gateway = with_apps(&api("a", rings)).await;
    for (app, want) in [("one", 20), ("two", 20), ("free", 1)] {
        assert_eq!(passed(&gateway, "/a", &[&format!("x-api-key: {app}")], 25).await, want, "{app}");
    }
}

#[tokio::test]
async fn counts_outlive_a_reload_that_leaves_the_limit_alone_and_are_new_after_another() {
    let text = |rate: &str, other: &str| {
        format!("{}{}", &api("a", &format!("{{rate-limit: {{name: x, rate: {rate}, burst: 4}}}}"))[4..], api(other, ""))
    };
    let gateway = Gateway::serving(&text("4/m", "b")).await;
    assert_eq!(passed(&gateway, "/a", &[], 10).await, 4);
    gateway.redefine(&text("4/m", "c")).await;
    gateway.get("/c").await.is(200);
    assert_eq!(passed(&gateway, "/a", &[], 10).await, 0);
    // The Api itself is built anew, and its ring finds its counts.
    gateway.redefine(&text("4/m", "c").replace("status: 200", "status: 200, headers: {x-a: b}")).await;
    assert_eq!(gateway.get("/c").await.is(200).header("x-a"), Some("b"));
    assert_eq!(passed(&gateway, "/a", &[], 10).await, 0);
    gateway.redefine(&text("5/m", "c")).await;
    assert_eq!(passed(&gateway, "/a", &[], 10).await, 4);
}

#[tokio::test]
async fn a_preset_is_a_limit_for_each_api_unless_they_count_together() {
    let preset = |across: &str| {
        format!(
            "kind: Preset\nname: p\nplugins: [{{rate-limit: {{name: x, rate: 4/m, burst: 4{across}}}}}]\n{}{}",
            api("a", "{use: p}"),
            api("b", "{use: p}")
        )
    };
    for (across, want) in [("", 4), (", across: apis", 0)] {
        let gateway = Gateway::serving(&preset(across)).await;
        assert_eq!(passed(&gateway, "/a", &[], 10).await, 4);
        assert_eq!(passed(&gateway, "/b", &[], 10).await, want, "{across}");
    }
}

#[tokio::test]
async fn many_at_once_pass_no_more_than_one_after_the_other() {
    let gateway =
        Gateway::with(&api("a", "{rate-limit: {rate: 1/h, burst: 50}}")[4..]).settings(&format!("workers: 2\n{SILENT}")).start().await;
    let tasks: Vec<_> = (0..8).map(|_| passed(&gateway, "/a", &[], 25)).collect();
    let mut all = 0;
    for it in futures_of(tasks).await {
        all += it;
    }
    assert_eq!(all, 50);
}

/// Runs them side by side.
async fn futures_of<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.into_iter().map(|it| (Box::pin(it), None)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in &mut all {
            if done.is_none()
                && let std::task::Poll::Ready(it) = future.as_mut().poll(context)
            {
                *done = Some(it);
            }
        }
        if all.iter().all(|(_, done)| done.is_some()) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    all.into_iter().filter_map(|(_, it)| it).collect()
}
