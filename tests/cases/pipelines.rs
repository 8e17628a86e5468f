//! One call in, many calls out, one answer back: what a definition's `pipeline` promises.
use std::time::{Duration, Instant};

use tests::{
    backend::Backend,
    behaviour::{Behaviour, Step},
    harness::{Gateway, SILENT, fill},
    wire::{Answer, request},
};

/// Answers 200 with this JSON.
async fn gives(body: &str) -> Backend {
    Backend::start(Behaviour::answers("200 OK", &["content-type: application/json"], body)).await
}

/// Upstreams `a`, `b`, … at these backends, and an Api `p` at `/p` with these lines.
fn api(backends: &[&Backend], pipeline: &str, more: &str) -> String {
    let upstreams: String = backends
        .iter()
        .zip('a'..)
        .map(|(it, name)| fill("kind: Upstream\nname: $1\nnodes: [{address: $2}]\n---\n", &[&name, &it.address]))
        .collect();
    let inbound = if more.contains("inbound:") { "" } else { "inbound: {match: /p}\n" };
    format!("{upstreams}kind: Api\ninfo: {{name: p, version: v1}}\n{inbound}proxy:\n  pipeline: {pipeline}\n{more}\n")
}

async fn serving(backends: &[&Backend], pipeline: &str, more: &str) -> Gateway {
    Gateway::with(&api(backends, pipeline, more)).settings(SILENT).start().await
}

/// The message of an error, and whether a trace of the inside is in it.
#[track_caller]
fn message(answer: &Answer, backend: &Backend) -> String {
    assert!(!answer.text().contains(&backend.address.port().to_string()), "{}", answer.text());
    answer.json()["message"].as_str().expect("a message").to_owned()
}

#[tokio::test]
async fn tasks_see_earlier_stages_and_the_answer_is_all_of_them_in_order() {
    let (a, b) = (gives(r#"{"account_id": "a1"}"#).await, Backend::echo().await);
    let gateway = serving(
        &[&a, &b],
        r#"
    stages:
      - profile: {http: {upstream: a, path: "/profile/${path.id}"}}
      - orders: {http: {upstream: b, path: /orders}, send: {query: {account: "${profile.account_id}", from: "${tasks.profile.status}"}}}
        none: {when: "profile.account_id == 'other'", http: {upstream: b, path: /none}}"#,
        "inbound: {match: \"/p/{id}\"}",
    )
    .await;
    let answer = gateway.get("/p/7").await.is(200);
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(a.last().head.target(), "/profile/7");
    let text = answer.text();
    assert!(text.starts_with(r#"{"profile":{"account_id": "a1"},"orders":{"#) && text.ends_with(r#","none":null}"#), "{text}");
    assert_eq!(answer.json()["orders"]["target"], "/orders?account=a1&from=200");
    assert_eq!(answer.header("x-partial"), None);
}

#[tokio::test]
async fn a_template_shapes_the_answer_and_keeps_every_byte() {
    let odd = r#"{"n": 10000000000000000000001.50e+2, "t": "\u00e9\/", "e": [ ], "o": {"b":1,  "a":2}, "z": null}"#;
    let (a, b) = (gives(odd).await, gives("[1.0, 2]").await);
    let gateway = serving(
        &[&a, &b],
        "{stages: [{one: {http: {upstream: a}}, two: {http: {upstream: b}}}]}",
        "outbound:
  body: {whole: \"${one}\", part: \"${one.o}\", number: \"${one.n}\", text: \"${one.t}\", list: \"${two}\", status: \"${tasks.two.status}\", none: \"${one.no.such}\", said: \"n is ${two[0]}\"}
  headers: {set: {x-n: \"${two[1]}\"}}",
    )
    .await;
    let answer = gateway.get("/p").await.is(200);
    let want = format!(
        r#"{{"whole":{odd},"part":{{"b":1,  "a":2}},"number":10000000000000000000001.50e+2,"text":"\u00e9\/","list":[1.0, 2],"status":200,"none":null,"said":"n is 1.0"}}"#
    );
    assert_eq!((answer.text(), answer.header("x-n")), (want, Some("2")));
}

#[tokio::test]
async fn a_task_sends_what_is_named_and_of_the_request_only_what_is_asked_for() {
    let headers = [
        "accept-language: de",
        "cookie: a=1",
        "x-mine: 1",
        "accept-encoding: gzip",
        "content-type: application/json",
        "if-none-match: \"1\"",
    ];
    for (send, sent, not_sent, target, body) in [
        (
            "{}",
            vec!["accept-language", "x-request-id"],
            vec!["cookie", "x-mine", "content-type", "accept-encoding", "user-agent", "x-forwarded-for"],
            "/t",
            "",
        ),
        ("{headers: {x-set: \"1\"}, query: {b: \"2\"}}", vec!["x-set", "accept-language"], vec!["cookie", "x-mine"], "/t?b=2", ""),
        ("{inherit: query}", vec![], vec!["x-mine"], "/t?q=%20", ""),
        ("{inherit: headers}", vec!["cookie", "x-mine"], vec!["accept-encoding", "if-none-match", "content-type"], "/t", ""),
        ("{inherit: [headers, query, body]}", vec!["cookie", "content-type"], vec!["accept-encoding"], "/t?q=%20", r#"{"x": 1.0}"#),
        ("{inherit: body}", vec!["content-type"], vec!["cookie"], "/t", r#"{"x": 1.0}"#),
        ("{body: {x: \"${body.x}\"}}", vec!["content-type"], vec!["cookie"], "/t", r#"{"x":1.0}"#),
    ] {
        let a = Backend::echo().await;
        let pipeline = format!("{{stages: [{{t: {{http: {{upstream: a, method: POST, path: /t}}, send: {send}}}}}]}}");
        let gateway = serving(&[&a], &pipeline, "").await;
        gateway.ask("POST /p?q=%20", &headers, r#"{"x": 1.0}"#).await.is(200);
        let last = a.last();
        for name in sent {
            assert!(last.head.get(name).is_some(), "{send}: {name} is missing in {:?}", last.head);
        }
        for name in not_sent {
            assert!(last.head.get(name).is_none(), "{send}: {name} in {:?}", last.head);
        }
        assert_eq!((last.head.target(), &*String::from_utf8_lossy(&last.content.bytes)), (target, body), "{send}");
        assert!(a.nonsense().is_empty());
    }
}

#[tokio::test]
async fn a_call_is_told_how_long_anybody_waits_for_it() {
    let a = Backend::start(Behaviour::Slow(Duration::from_millis(120))).await;
    let pipeline = "{deadline: 5s, stages: [{one: {http: {upstream: a, path: /one}}}, {two: {http: {upstream: a, path: /two}}, three: {http: {upstream: a, path: /three}, timeout: 2s}}]}";
    serving(&[&a], pipeline, "").await.ask("GET /p", &["x-request-timeout-ms: 1"], "").await.is(200);
    let told = |path: &str| {
        let seen = a.seen().into_iter().find(|it| it.head.target() == path).expect("it was asked");
        seen.head.get("x-request-timeout-ms").expect("a time").parse::<u64>().expect("a number")
    };
    let (one, two, three) = (told("/one"), told("/two"), told("/three"));
    assert!((4000..=5000).contains(&one) && (3000..=4900).contains(&two) && (1500..=2000).contains(&three), "{one} {two} {three}");
}

#[tokio::test]
async fn without_a_method_a_task_gets() {
    let a = gives("1").await;
    let gateway = serving(&[&a], "{stages: [{t: {http: {upstream: a, path: /t}}}]}", "").await;
    gateway.ask("POST /p", &[], "body").await.is(200);
    assert_eq!((a.last().head.method(), a.last().content.bytes.len()), ("GET", 0));
}

/// What a backend does, and what is told of the task.
fn bad_backends() -> Vec<(Behaviour, u16, &'static str)> {
    let large = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n200000\r\n{}\r\n0\r\n\r\n", "1".repeat(2 << 20));
    vec![
        (Behaviour::answers("200 OK", &["content-type: text/html"], "<html></html>"), 502, "the backend's answer is not JSON"),
        (Behaviour::answers("200 OK", &["content-type: application/json"], "{\"a\": 1,}"), 502, "the backend's answer is not JSON"),
        (Behaviour::answers("200 OK", &[], "{} {}"), 502, "the backend's answer is not JSON"),
        (Behaviour::answers("200 OK", &["content-encoding: gzip"], "\u{1f}\u{8b}"), 502, "the backend's answer is not JSON"),
        (Behaviour::Truncates, 502, "the backend closed the connection before it answered"),
        (Behaviour::TruncatesChunks, 502, "the backend closed the connection before it answered"),
        (
            Behaviour::Script(vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\ncontent-length: 3221225472\r\n\r\n{"), Step::Hold]),
            502,
            "the backend's answer is larger than the 1048576 bytes of `max_answer`",
        ),
        (
            Behaviour::Script(vec![Step::Read, Step::Send(large.into_bytes()), Step::Hold]),
            502,
            "the backend's answer is larger than the 1048576 bytes of `max_answer`",
        ),
        (
            Behaviour::answers("302 Found", &["location: http://evil.example/"], ""),
            502,
            "the backend answered 302; a redirect is never followed",
        ),
        (Behaviour::answers("304 Not Modified", &[], ""), 502, "the backend answered 304"),
        (Behaviour::answers("404 Not Found", &["content-type: application/json"], "{}"), 502, "the backend answered 404"),
        (Behaviour::answers("500 Oops", &[], ""), 502, "the backend answered 500"),
        (Behaviour::Reset, 502, "the backend closed the connection before it answered"),
        (Behaviour::Script(vec![Step::send("what?\r\n\r\n"), Step::Read]), 502, "the backend"),
        (Behaviour::Stall, 504, "in time"),
        (Behaviour::StallsInside, 504, "in time"),
    ]
}

#[tokio::test]
async fn a_bad_backend_fails_its_task_by_name() {
    for (behaviour, status, says) in bad_backends() {
        let shown: String = format!("{behaviour:?}").chars().take(100).collect();
        let (good, bad) = (gives("{\"ok\": true}").await, Backend::start(behaviour).await);
        let tasks = |on_error: &str| {
            format!(
                "{{deadline: 400ms, partial: {{list: true}}, stages: [{{good: {{http: {{upstream: a}}}}, bad: {{http: {{upstream: b}}{on_error}}}}}]}}"
            )
        };
        let gateway = serving(&[&good, &bad], &tasks(""), "").await;
        let answer = gateway.get("/p").await.is(status);
        let told = message(&answer, &bad);
        assert!(told.starts_with("the task 'bad' failed: ") && told.contains(says), "{shown}: {told}");

        let gateway = serving(&[&good, &bad], &tasks(", on_error: omit"), "").await;
        let answer = gateway.get("/p").await.is(200);
        assert_eq!(answer.text(), r#"{"good":{"ok": true},"partial":["bad"]}"#, "{shown}");
        assert_eq!((answer.header("x-partial"), answer.header("cache-control")), (Some("bad"), Some("no-store")), "{shown}");

        let gateway =
            serving(&[&good, &bad], &tasks(", on_error: {use: {level: unknown}}"), "outbound: {body: {level: \"${bad.level}\"}}").await;
        assert_eq!(gateway.get("/p").await.is(200).text(), r#"{"level":"unknown","partial":["bad"]}"#, "{shown}");
    }
}

#[tokio::test]
async fn nothing_is_null_and_no_fault() {
    for behaviour in [
        Behaviour::answers("204 No Content", &[], ""),
        Behaviour::answers("200 OK", &[], ""),
        Behaviour::answers("200 OK", &[], "null"),
        Behaviour::answers("201 Created", &["content-type: application/json"], ""),
    ] {
        let a = Backend::start(behaviour).await;
        let gateway = serving(&[&a], "{stages: [{t: {http: {upstream: a}}}]}", "").await;
        let answer = gateway.get("/p").await.is(200);
        assert_eq!((answer.text().as_str(), answer.header("x-partial")), (r#"{"t":null}"#, None));
    }
}

#[tokio::test]
async fn nobody_there_fails_the_task() {
    let a = Backend::echo().await;
    let gateway = serving(&[&a], "{stages: [{t: {http: {upstream: a}}}]}", "").await;
    drop(a);
    let answer = gateway.get("/p").await.is(502);
    assert_eq!(answer.json()["message"], "the task 't' failed: the backend could not be reached");
}

#[tokio::test]
async fn for_each_calls_once_an_item_and_answers_in_their_order() {
    let b = Backend::echo().await;
    let items = |list: &str| format!("{{\"items\": {list}}}");
    let stages = |more: &str| {
        format!(
            "{{stages: [{{orders: {{http: {{upstream: a}}, max_answer: 8MiB}}}}, {{parcels: {{for_each: {{item: order, in: \"${{orders.items}}\"}}, http: {{upstream: b, path: \"/track/${{order.no}}\"}}{more}}}}}]}}"
        )
    };
    let outbound = "outbound: {body: {parcels: \"${parcels.map(it, it.target)}\"}}";
    let a = gives(&items(r#"[{"no": 3}, {"no": "x/y"}, {"no": 1}]"#)).await;
    let answer = serving(&[&a, &b], &stages(""), outbound).await.get("/p").await.is(200);
    assert_eq!(answer.text(), r#"{"parcels":["/track/3","/track/x%2Fy","/track/1"]}"#);

    let ten_thousand = items(&format!("[{}]", vec![r#"{"no":1}"#; 10_000].join(",")));
    for (list, status, says) in [
        (items("\"text\""), 502, "`for_each.in` is text, not a list"),
        (items("{\"a\": 1}"), 502, "`for_each.in` is a map, not a list"),
        (ten_thousand, 502, "`for_each.in` has 10000 items, more than the 20 of `max`"),
        (items(r#"[{"no": 1}, {"other": 1}]"#), 502, "its call could not be made"),
        (items(r#"[{"no": ".."}]"#), 502, "what another task brought cannot be sent"),
        (items("null"), 200, ""),
        ("{}".to_owned(), 200, ""),
        ("[]".to_owned(), 200, ""),
    ] {
        let a = gives(&list).await;
        let answer = serving(&[&a, &b], &stages(""), outbound).await.get("/p").await.is(status);
        match status {
            200 => assert_eq!(answer.text(), r#"{"parcels":[]}"#),
            _ => {
                let told = message(&answer, &a);
                assert!(told.starts_with("the task 'parcels' failed: ") && told.contains(says), "{told}");
            }
        }
    }

    // One item cannot be made into a call: it alone is left out.
    let a = gives(&items(r#"[{"no": 1}, {"other": 1}, {"no": 2}]"#)).await;
    let answer = serving(&[&a, &b], &stages(", on_error: skip_item"), outbound).await.get("/p").await.is(200);
    assert_eq!((answer.text().as_str(), answer.header("x-partial")), (r#"{"parcels":["/track/1","/track/2"]}"#, Some("parcels")));
}

#[tokio::test]
async fn what_the_client_sends_wrong_is_the_clients_fault() {
    let a = gives("1").await;
    let gateway = serving(&[&a], "{stages: [{t: {http: {upstream: a, path: \"/x/${query.q}\"}, on_error: omit}}]}", "").await;
    assert_eq!(gateway.get("/p?q=..").await.status, 400);
    assert_eq!(gateway.get("/p?q=a").await.status, 200);
    // Null in a path is a failure of the task.
    assert_eq!(gateway.get("/p").await.is(200).header("x-partial"), Some("t"));
}

#[tokio::test]
async fn a_task_may_ask_nobody() {
    let a = gives("{\"n\": 2}").await;
    let stages = "{stages: [{t: {http: {upstream: a}}}, {u: {respond: {body: {double: \"${t.n + t.n}\"}}}}]}";
    let answer = serving(&[&a], stages, "outbound: {body: \"${u}\"}").await.get("/p").await.is(200);
    assert_eq!(answer.text(), r#"{"double":4}"#);
}

#[tokio::test]
async fn what_cannot_be_is_told_when_it_is_loaded() {
    let t = |more: &str| format!("t: {{http: {{upstream: a, path: /t}}{more}}}");
    let stages = |stages: &str| format!("{{stages: [{stages}]}}");
    for (pipeline, more, says) in [
        (stages(&format!("{{{}}}, {{u: {{when: \"tt.a == 1\", http: {{upstream: a}}}}}}", t(""))), "", "did you mean 't'?"),
        (stages(&format!("{{{}}}, {{u: {{when: \"tasks.x.status == 1\", http: {{upstream: a}}}}}}", t(""))), "", "there is no task 'x'"),
        (stages(&format!("{{{}, u: {{when: \"t.a == 1\", http: {{upstream: a}}}}}}", t(""))), "", "the task 't' is not finished here"),
        (stages(&format!("{{u: {{when: \"t.a == 1\", http: {{upstream: a}}}}}}, {{{}}}", t(""))), "", "the task 't' is not finished here"),
        (stages(&format!("{{{}}}, {{{}}}", t(""), t(""))), "", "an earlier stage has a task 't'"),
        (stages("{query: {http: {upstream: a}}}"), "", "'query' already means something"),
        (stages("{tasks: {http: {upstream: a}}}"), "", "'tasks' already means something"),
        (stages("{x: {for_each: {item: x, in: \"${[1]}\"}, http: {upstream: a}}}"), "", "'x' is the item of a `for_each`"),
        (stages("{x: {for_each: {item: body, in: \"${[1]}\"}, http: {upstream: a}}}"), "", "'body' already means something"),
        (stages("{x: {for_each: {item: i, in: \"a ${[1]}\"}, http: {upstream: a}}}"), "", "a text is no list"),
        (stages(&format!("{{{}}}", t(", on_error: skip_item"))), "", "`skip_item` needs `for_each`"),
        (stages(&format!("{{{}}}", t(", send: {query: {a: \"${response.status}\"}}"))), "", "cannot see 'response'"),
        (stages(&format!("{{{}}}", t(""))), "outbound: {body: \"${tx}\"}", "did you mean 't'?"),
        (stages("{x: {http: {upstream: aa}}}"), "", "did you mean"),
        (
            stages("{x: {http: {upstream: a, method: POST}}, y: {http: {upstream: a, method: DELETE}}}"),
            "",
            "'x' and 'y' both write, side by side",
        ),
        (stages("{x: {for_each: {item: i, in: \"${[1]}\"}, http: {upstream: a, method: PUT}}}"), "", "'x' writes once for each item"),
        (stages("{x: {custom: {upstream: a, codec: a.lua}}}"), "", "`custom` is known, but not built"),
        ("{deadline: 0s, stages: [{x: {http: {upstream: a}}}]}".to_owned(), "", "no time at all"),
        ("{stages: [{x: {http: {upstream: a}}}], merge: {lua: a.lua}}".to_owned(), "", "a script that merges is known, but not built"),
    ] {
        let a = Backend::echo().await;
        let Err(why) = Gateway::with(&api(&[&a], &pipeline, more)).try_start().await else { panic!("it is served: {pipeline} {more}") };
        assert!(why.contains(says), "{pipeline} {more}: {says}\n{why}");
    }
    let a = gives("1").await;
    let allowed =
        "{allow_partial_writes: true, stages: [{x: {http: {upstream: a, method: POST}}, y: {http: {upstream: a, method: POST}}}]}";
    serving(&[&a], allowed, "").await.get("/p").await.is(200);
}

#[tokio::test]
async fn a_client_that_leaves_ends_every_call() {
    let (a, b) = (Backend::start(Behaviour::Stall).await, Backend::start(Behaviour::StallsInside).await);
    let gateway = serving(&[&a, &b], "{stages: [{x: {http: {upstream: a}}, y: {http: {upstream: b}}}]}", "").await;
    let mut wire = gateway.wire().await;
    wire.send(request("GET /p", &[], "")).await;
    a.asked(1).await;
    b.asked(1).await;
    wire.reset();
    a.left(1).await;
    b.left(1).await;
}

#[tokio::test]
async fn tasks_are_counted_by_how_they_ended() {
    let (a, b) = (gives("1").await, Backend::start(Behaviour::answers("500 Oops", &[], "")).await);
    let stages =
        "{stages: [{x: {http: {upstream: a}}, y: {http: {upstream: b}, on_error: omit}, z: {when: \"false\", http: {upstream: a}}}]}";
    let gateway = serving(&[&a, &b], stages, "").await;
    gateway.get("/p").await.is(200);
    gateway.get("/p").await.is(200);
    let text = gateway.admin("/metrics").await.text();
    for (task, outcome) in [("x", "ok"), ("y", "failed"), ("z", "skipped")] {
        let line = format!("allium_pipeline_tasks_total{{api=\"p\",outcome=\"{outcome}\",task=\"{task}\",version=\"v1\"}} 2");
        assert!(
            text.lines().any(|it| it == line),
            "{line}\n{}",
            text.lines().filter(|it| it.contains("pipeline")).collect::<Vec<_>>().join("\n")
        );
    }
}

/// Resident memory of this process.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    text.split(' ').nth(1).and_then(|it| it.parse::<usize>().ok()).expect("pages") * 4096
}

#[tokio::test]
async fn a_thousand_pipelines_on_a_backend_that_hangs_keep_their_deadline_and_leave_nothing() {
    const MANY: usize = 1000;
    let (good, hangs) = (gives("{\"ok\": true}").await, Backend::start(Behaviour::Stall).await);
    let stages = "{deadline: 2s, stages: [{good: {http: {upstream: a}}}, {x: {http: {upstream: b}}, y: {http: {upstream: a}}}]}";
    let limits = "timeouts: {first_byte: 60s}\npool: {max_connections: 4096}\n";
    let text =
        api(&[&good, &hangs], stages, "").replace("---\nkind: Upstream\nname: b\n", &format!("---\nkind: Upstream\nname: b\n{limits}"));
    let many = "limits: {drain: {wait: 1ms, time: 2s}, connection: {count_per_address: 2000}}";
    let gateway = Gateway::with(&text).settings(SILENT).settings(many).start().await;
    gateway.get("/p").await.is(504);
    let before = memory();
    let (start, mut clients) = (Instant::now(), Vec::new());
    for _ in 0..MANY {
        let mut wire = gateway.wire().await;
        wire.send(request("GET /p", &[], "")).await;
        clients.push(wire);
    }
    hangs.asked(MANY + 1).await;
    let grown = memory().saturating_sub(before);
    for wire in &mut clients {
        let answer = wire.answer().await.is(504);
        assert_eq!(answer.json()["message"], "the task 'x' failed: the backend did not answer in time");
    }
    // Each had two seconds; that all of them end soon after the last began is what a deadline is worth.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // The clients, the gateway and the backends of this test, all in one process.
    assert!(grown < MANY * 200 * 1024, "{} KiB for each", grown / MANY / 1024);
    hangs.left(MANY + 1).await;
    drop(clients);
    let end = Instant::now() + Duration::from_secs(10);
    while hangs.open() > 0 {
        assert!(Instant::now() < end, "{} connections are left", hangs.open());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gateway.figures(&["\nallium_requests_in_flight{api=\"p\",version=\"v1\"} 0\n"]).await;
}
