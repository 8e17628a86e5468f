//! JSON outside, gRPC inside: against grpcio, with JSON messages and with binary ones.
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{
    harness::{Gateway, Setup},
    peer::{Grpcio, grpcio_calls, lab_proto},
};

fn definitions(address: &str, codec: &str) -> String {
    format!(
        "kind: Upstream
name: lab
nodes: [{{address: \"{address}\"}}]
---
kind: Api
info: {{name: get, version: v1}}
inbound:
  match: [\"GET /get/{{user_id}}\", \"POST /get/{{user_id}}\"]
  params:
    user_id: {{in: path, type: string}}
    n: {{in: query, type: integer}}
    ok: {{in: query, type: boolean}}
    xs: {{in: query, type: array, items: {{type: integer}}}}
    x-unsent: {{in: header, type: string}}
proxy:
  grpc: {{upstream: lab, method: lab.v1.Lab/Get, {codec}}}
---
kind: Api
info: {{name: fixed, version: v1}}
inbound: {{match: GET /fixed, params: {{who: {{in: query, type: string}}}}}}
proxy:
  grpc: {{upstream: lab, method: lab.v1.Lab/Get, {codec}}}
  send: {{body: {{user_id: \"${{query.who}}\", n: 7}}, headers: {{x-added: \"yes\"}}}}
  timeout: 2s
---
kind: Api
info: {{name: list, version: v1}}
inbound: {{match: POST /list}}
proxy:
  grpc: {{upstream: lab, method: lab.v1.Lab/List, {codec}}}
---
kind: Api
info: {{name: call, version: v1}}
inbound: {{match: POST /call}}
proxy:
  grpc: {{upstream: lab, method: lab.v1.Lab/Get, {codec}}}
  timeout: 300ms
---
kind: Api
info: {{name: pages, version: v1}}
inbound: {{match: \"GET /page/{{id}}\"}}
proxy:
  pipeline:
    deadline: 2s
    stages:
      - who: {{grpc: {{upstream: lab, method: lab.v1.Lab/Get, {codec}}}, send: {{body: {{user_id: \"${{path.id}}\"}}}}}}
      - more: {{grpc: {{upstream: lab, method: lab.v1.Lab/Get, {codec}}}, send: {{body: {{user_id: \"${{who.got.{field}}}!\"}}}}}}
",
        field = if codec.contains("proto") { "userId" } else { "user_id" },
    )
}

fn setup(peer: &Grpcio, binary: bool) -> Setup {
    let (address, codec) = match binary {
        true => (&peer.proto, "codec: proto, descriptors: {file: lab.binpb}"),
        false => (&peer.json, "codec: json"),
    };
    let setup = Gateway::with(&definitions(address, codec));
    setup.folder().write_bytes("lab.binpb", &peer.descriptors);
    setup
}

const JSON: &str = "content-type: application/json";

#[tokio::test]
async fn a_request_becomes_a_message_of_its_body_and_parameters() {
    let peer = Grpcio::start();
    for binary in [false, true] {
        let gateway = setup(&peer, binary).start().await;
        let body = r#"{"n":1,"user_id":"forged","item":{"name":"a","count":"9007199254740993"}}"#;
        let answer =
            gateway.ask("POST /get/ada?n=42&ok=true&xs=1&xs=2&undeclared=1", &[JSON, "x-unsent: 1", "x-mine: 7"], body).await.is(200);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{binary}");
        assert_eq!(answer.header("x-backend"), Some("grpcio"), "headers of the answer pass");
        let got = &answer.json()["got"];
        let (id, count) = match binary {
            true => (&got["userId"], &got["item"]["count"]),
            false => (&got["user_id"], &got["item"]["count"]),
        };
        assert_eq!((id, count, &got["n"], &got["ok"]), (&json!("ada"), &json!("9007199254740993"), &json!(42), &json!(true)), "{got}");
        assert_eq!((&got["xs"], got.get("undeclared")), (&json!([1, 2]), None));
        let metadata = answer.json()["metadata"].to_string();
        assert!(metadata.contains("x-mine=7") && metadata.contains("x-request-id=") && metadata.contains("traceparent="), "{metadata}");
        assert!(!metadata.contains("content-type=application/json"), "{metadata}");
        let empty = gateway.get("/get/bob").await.is(200).json();
        assert_eq!(empty["got"][if binary { "userId" } else { "user_id" }], json!("bob"));
        let fixed = gateway.get("/fixed?who=eve").await.is(200).json();
        assert_eq!(fixed["got"][if binary { "userId" } else { "user_id" }], json!("eve"));
        assert!(fixed["metadata"].to_string().contains("x-added=yes"), "{fixed}");
    }
}

#[tokio::test]
async fn the_json_of_proto3_is_read_and_written_whole() {
    let peer = Grpcio::start();
    let gateway = setup(&peer, true).start().await;
    let sent = json!({
        "userId": "u", "big": "-9223372036854775808", "d": 1.5, "b": "aGk=", "color": "RED", "m": {"a": "1"}, "right": 3,
        "at": "2026-12-01T01:02:03.500Z", "took": "1.500s", "maybe": "x", "free": {"a": [1.5, null, {"b": true}]}, "mask": "userId,item.name",
        "present": "", "items": [{"name": "i", "count": "1"}],
    });
    let got = gateway.ask("POST /call", &[JSON], &sent.to_string()).await.is(200).json()["got"].clone();
    for (name, value) in sent.as_object().expect("an object") {
        assert_eq!(&got[name], value, "{name} of {got}");
    }
    // What has no presence of its own is written with its default.
    assert_eq!((&got["n"], &got["xs"], &got["ok"]), (&json!(0), &json!([]), &json!(false)));
    for (sent, name, want) in [
        (r#"{"user_id":"s"}"#, "userId", json!("s")),
        (r#"{"big":9007199254740993}"#, "big", json!("9007199254740993")),
        (r#"{"color":1}"#, "color", json!("BLUE")),
        (r#"{"n":"42"}"#, "n", json!(42)),
        (r#"{"b":"aGk"}"#, "b", json!("aGk=")),
        (r#"{"d":"NaN"}"#, "d", json!("NaN")),
        (r#"{"n":null}"#, "n", json!(0)),
    ] {
        assert_eq!(gateway.ask("POST /call", &[JSON], sent).await.is(200).json()["got"][name], want, "{sent}");
    }
    for (sent, why) in [
        (r#"{"nope":1}"#, "nope"),
        (r#"{"n":"a"}"#, "n"),
        (r#"{"n":4294967296}"#, ""),
        (r#"{"color":"GREEN"}"#, "GREEN"),
        (r#"{"ok":"true"}"#, ""),
        (r#"{"xs":1}"#, ""),
        (r#"{"left":"a","right":1}"#, ""),
        (r#"{"big":"9223372036854775808"}"#, ""),
        (r#"{"n":1.5}"#, ""),
        ("[]", "object"),
        ("7", "object"),
    ] {
        let answer = gateway.ask("POST /call", &[JSON], sent).await.is(400).json();
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains(why) && !message.contains("line"), "{sent}: {message}");
    }
}

#[tokio::test]
async fn statuses_become_http_and_details_are_told_where_they_are_described() {
    let peer = Grpcio::start();
    for binary in [false, true] {
        let gateway = setup(&peer, binary).start().await;
        for (code, status) in [
            (1, 499),
            (2, 500),
            (3, 400),
            (4, 504),
            (5, 404),
            (6, 409),
            (7, 403),
            (8, 429),
            (9, 400),
            (10, 409),
            (11, 400),
            (12, 501),
            (13, 500),
            (14, 503),
            (15, 500),
            (16, 401),
        ] {
            let answer = gateway.ask("POST /call", &[JSON], &json!({"fail": code}).to_string()).await.is(status);
            assert_eq!(answer.header("grpc-status"), Some(&*code.to_string()));
            let told = answer.json();
            assert_eq!((&told["code"], &told["message"]), (&json!(code), &json!("no 世界 %")), "{told}");
            let details = match binary {
                true => json!([{"@type": "type.googleapis.com/lab.v1.Reason", "why": "no 世界 %", "weight": "9007199254740993"}]),
                false => Value::Null,
            };
            assert_eq!(told["details"], details);
        }
    }
}

#[tokio::test]
async fn several_messages_are_lines_or_events_and_a_late_error_is_told() {
    let peer = Grpcio::start();
    for binary in [false, true] {
        let gateway = setup(&peer, binary).start().await;
        let lines = gateway.ask("POST /list", &[JSON, "accept: application/x-ndjson"], r#"{"answers":3}"#).await.is(200);
        assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
        let all: Vec<Value> = lines.text().lines().map(|it| serde_json::from_str(it).expect("a line is a document")).collect();
        assert_eq!((all.len(), &all[2]["got"]["answers"]), (3, &json!(3)));
        let late = gateway.ask("POST /list", &[JSON, "accept: application/x-ndjson"], r#"{"answers":1,"fail":10}"#).await.is(200);
        let last: Value = serde_json::from_str(late.text().lines().last().expect("a line")).expect("a document");
        assert_eq!((&last["error"]["code"], &last["error"]["message"]), (&json!(10), &json!("late")));
        let events = gateway.ask("POST /list", &[JSON, "accept: text/event-stream"], r#"{"answers":2,"fail":5}"#).await.is(200);
        assert_eq!(events.text().matches("\"got\":").count(), 2, "{}", events.text());
        assert!(events.text().contains("event: error\ndata: {\"code\":5,\"message\":\"late\""), "{}", events.text());
        // An error before any message is one of the whole answer.
        let early = gateway.ask("POST /list", &[JSON, "accept: text/event-stream"], r#"{"fail":5}"#).await.is(404);
        assert_eq!(early.json()["message"], "late");
        assert_eq!(gateway.ask("POST /list", &[JSON, "accept: application/x-ndjson"], "{}").await.is(200).text(), "");
    }
    // Nobody asks for several, and no description says that there are.
    let gateway = setup(&peer, false).start().await;
    gateway.ask("POST /list", &[JSON], r#"{"answers":2}"#).await.is(502);
    assert_eq!(gateway.ask("POST /list", &[JSON], r#"{"answers":1}"#).await.is(200).json()["got"]["answers"], 1);
    let gateway = setup(&peer, true).start().await;
    let lines = gateway.ask("POST /list", &[JSON], r#"{"answers":2}"#).await.is(200);
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"), "the description says that there are several");
}

#[tokio::test]
async fn time_is_told_to_the_backend_and_kept() {
    let peer = Grpcio::start();
    let gateway = setup(&peer, true).start().await;
    let started = Instant::now();
    let answer = gateway.ask("POST /call", &[JSON], r#"{"sleepMs":5000}"#).await;
    assert_eq!(answer.status, 504, "{}", answer.text());
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    // Calls on one connection do not wait for each other.
    let started = Instant::now();
    let slow = gateway.ask("POST /get/slow", &[JSON], r#"{"sleepMs":1500}"#);
    let fast = async {
        for _ in 0..20 {
            gateway.ask("POST /get/fast", &[JSON], "{}").await.is(200);
        }
        started.elapsed()
    };
    let (slow, fast) = tokio::join!(slow, fast);
    slow.is(200);
    assert!(fast < Duration::from_millis(1400), "{fast:?}");
}

#[tokio::test]
async fn a_task_of_a_pipeline_may_be_grpc() {
    let peer = Grpcio::start();
    for binary in [false, true] {
        let gateway = setup(&peer, binary).start().await;
        let page = gateway.get("/page/7").await.is(200).json();
        assert_eq!(page["more"]["got"][if binary { "userId" } else { "user_id" }], json!("7!"), "{page}");
    }
}

#[tokio::test]
async fn a_backend_that_is_gone_or_speaks_otherwise_is_502_and_comes_back() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let gateway = Gateway::serving(&definitions(&gone.to_string(), "codec: json")).await;
    gateway.ask("POST /call", &[JSON], "{}").await.is(502);
    // One of HTTP/1.1.
    let backend = tests::backend::Backend::start(tests::behaviour::Behaviour::Echo).await;
    let gateway = Gateway::serving(&definitions(&backend.address.to_string(), "codec: json")).await;
    let answer = gateway.ask("POST /call", &[JSON], "{}").await;
    assert!(matches!(answer.status, 502 | 504), "{}", answer.status);
    gateway.ask("POST /call", &["content-type: text/plain"], "hello").await.is(415);
}

#[tokio::test]
async fn descriptors_are_judged_at_load_and_read_anew_when_they_change() {
    let peer = Grpcio::start();
    let text = definitions(&peer.proto, "codec: proto, descriptors: {proto: protos/lab.proto}");
    let setup = Gateway::with(&text);
    setup.folder().write("protos/lab.proto", &lab_proto());
    let gateway = setup.start().await;
    assert_eq!(gateway.ask("POST /call", &[JSON], r#"{"n":1}"#).await.is(200).json()["got"]["n"], 1);
    // A field of the backend that the gateway did not know yet.
    gateway.ask("POST /call", &[JSON], r#"{"fresh":1}"#).await.is(400);
    let more = lab_proto().replace("int32 size = 23;", "int32 size = 23; int32 fresh = 24;");
    gateway
        .reload(|it| {
            it.write("protos/lab.proto", &more);
            it.write("routes/api.yaml", &format!("{text}# again\n"));
        })
        .await;
    gateway.ask("POST /call", &[JSON], r#"{"fresh":1}"#).await.is(200);
    for (codec, code, word) in [
        ("codec: proto", "missing-key", "needs `descriptors`"),
        ("codec: proto, descriptors: {file: nope.binpb}", "bad-descriptors", "cannot be read"),
        ("codec: proto, descriptors: {proto: protos/broken.proto}", "bad-descriptors", "broken.proto"),
        ("codec: json, descriptors: {file: lab.binpb}", "no-meaning", "needs no descriptors"),
    ] {
        let setup = Gateway::with(&definitions("127.0.0.1:1", codec)).file("protos/broken.proto", "syntax = \"proto3\"; message {");
        let why = setup.try_start().await.err().expect(codec);
        assert!(why.contains(code) && why.contains(word), "{codec}: {why}");
    }
    for (method, word) in [
        ("lab.v1.Lab/Gett", "did you mean `Get`"),
        ("lab.v1.Labb/Get", "did you mean `lab.v1.Lab`"),
        ("Get", "lab"),
        ("lab.v1.Lab/Collect", "stream"),
    ] {
        let setup =
            Gateway::with(&text.replace("method: lab.v1.Lab/Get", &format!("method: {method}"))).file("protos/lab.proto", &lab_proto());
        let why = setup.try_start().await.err().expect(method);
        assert!(why.contains(word), "{method}: {why}");
    }
}

#[tokio::test]
async fn the_example_answers_as_it_says() {
    let peer = Grpcio::start();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/grpc");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    let setup = Gateway::with(&read("profiles.yaml").replace("127.0.0.1:9201", &peer.proto));
    setup.folder().write("routes/grpc/profile.proto", &read("profile.proto"));
    let gateway = setup.start().await;
    let profile = gateway.get("/v1/profiles/a1").await.is(200).json();
    assert_eq!(profile, json!({"accountId": "a1", "name": "Ada", "balanceCents": "9007199254740993", "tags": ["gold"]}));
    assert_eq!(gateway.get("/v1/profiles/a1?with_tags=false").await.is(200).json()["tags"], json!([]));
    let nobody = gateway.get("/v1/profiles/nobody").await.is(404).json();
    assert_eq!(nobody, json!({"code": 5, "message": "no such account"}));
    let changes = gateway.get("/v1/profiles/a1/changes").await.is(200);
    assert_eq!((changes.header("content-type"), changes.text().lines().count()), (Some("application/x-ndjson"), 2));
}

const RULES: &str = "kind: Upstream\nname: lab\nnodes: [{address: \"$1\"}]\n---
kind: Api\ninfo: {name: rules}\ninbound: {match: \"/rules/{rest...}\"}
proxy: {grpc: {upstream: lab, http_rules: true, descriptors: {file: lab.binpb}}, send: {headers: {x-added: \"yes\"}}}\n";

#[tokio::test]
async fn rules_say_which_method_is_called_and_with_what() {
    let peer = Grpcio::start();
    let setup = Gateway::with(&RULES.replace("$1", &peer.proto));
    setup.folder().write_bytes("lab.binpb", &peer.descriptors);
    let gateway = setup.start().await;
    for (start, body, field, want) in [
        (
            "GET /rules/users/a%2Fb?n=3&xs=1&xs=2&item.count=9&color=RED&took=1.5s&maybe=m&mask=userId&b=aGk",
            "",
            "",
            json!({
                "userId": "a/b", "n": 3, "xs": [1, 2], "item": {"name": "", "count": "9"}, "color": "RED", "took": "1.500s", "maybe": "m",
                "mask": "userId", "b": "aGk=",
            }),
        ),
        ("GET /rules/users/me?userId=other", "", "userId", json!("other")),
        ("GET /rules/users/ada?user_id=forged", "", "userId", json!("ada")),
        ("GET /rules/items/shelves/1/books/a%2Fb", "", "item", json!({"name": "shelves/1/books/a%2Fb", "count": "0"})),
        ("GET /rules/rest/a/b/c", "", "userId", json!("a/b/c")),
        ("POST /rules/users/ada:touch?n=9", r#"{"user_id":"forged","n":1}"#, "", json!({"userId": "ada", "n": 1})),
        (
            "PUT /rules/users/ada?n=4",
            r#"{"name":"i","count":"5"}"#,
            "",
            json!({"userId": "ada", "n": 4, "item": {"name": "i", "count": "5"}}),
        ),
        ("POST /rules/users/ada/xs", "[1,2,3]", "xs", json!([1, 2, 3])),
        ("PURGE /rules/users/ada", "", "userId", json!("ada")),
    ] {
        let answer = gateway.ask(start, &[JSON], body).await.is(200).json();
        assert!(answer["metadata"].to_string().contains("x-added=yes"), "{answer}");
        let got = &answer["got"];
        match (field, want.as_object()) {
            ("", Some(all)) => all.iter().for_each(|(name, value)| assert_eq!(&got[name], value, "{start}: {got}")),
            (field, _) => assert_eq!(got[field], want, "{start}: {got}"),
        }
    }
    // Only a field of the answer.
    let got = gateway.get("/rules/users/ada/got?n=5").await.is(200).json();
    assert_eq!((&got["userId"], &got["n"], got.get("metadata")), (&json!("ada"), &json!(5), None));
    assert_eq!(gateway.get("/rules/lists/3").await.is(200).text().lines().count(), 3);
    let echo = gateway.ask("POST /rules/echo", &["content-type: image/png"], "\u{1}bytes").await.is(200);
    assert_eq!((echo.header("content-type"), echo.text().as_str()), (Some("image/png"), "\u{1}bytes"));
    for (start, body, status, word) in [
        ("GET /rules/users/ada?n=x", "", 400, "the parameter `n` must be a whole number of 32 bits"),
        ("GET /rules/users/ada?ok=1", "", 400, "true or false"),
        ("GET /rules/users/ada?color=GREEN", "", 400, "one of COLOR_UNSPECIFIED, BLUE, RED"),
        ("GET /rules/users/ada?nope=1", "", 400, "there is no parameter `nope`"),
        ("GET /rules/users/ada?item=1", "", 400, "a Item"),
        ("GET /rules/lists/many", "", 400, "the parameter `answers`"),
        ("GET /rules/nowhere", "", 404, "no such API"),
        ("DELETE /rules/users/ada", "", 405, "not allowed"),
        ("PUT /rules/users/ada", "[]", 400, "Item"),
    ] {
        let answer = gateway.ask(start, &[JSON], body).await.is(status);
        assert!(answer.json()["message"].as_str().is_some_and(|it| it.contains(word)), "{start}: {}", answer.text());
        assert_eq!(answer.header("allow"), (status == 405).then_some("GET, PURGE, PUT"));
    }
    gateway.ask("POST /rules/users/ada:touch", &["content-type: text/plain"], "x").await.is(415);
}

#[tokio::test]
async fn rules_that_cannot_be_served_are_told_at_load() {
    for (from, to, word) in [
        ("{user_id}:touch", "{nope}:touch", "has no field `nope`"),
        ("{user_id}:touch", "{xs}:touch", "no single value"),
        ("{user_id}:touch", "{user_id:touch", "a brace is not closed"),
        ("body: \"item\"", "body: \"itm\"", "has no field `itm`"),
        ("response_body: \"got\"", "response_body: \"gott\"", "has no field `gott`"),
        ("service Rules", "service Others", ""),
    ] {
        let text = RULES.replace("$1", "127.0.0.1:1").replace("{file: lab.binpb}", "{proto: lab.proto}");
        let proto = lab_proto();
        assert!(proto.contains(from), "{from}");
        let started = Gateway::with(&text).file("lab.proto", &proto.replacen(from, to, 1)).try_start().await;
        match (word, started) {
            ("", Ok(_)) => (),
            (_, Ok(_)) => panic!("{to} is served"),
            (_, Err(why)) => assert!(why.contains(word) && why.contains("bad-rule") && !word.is_empty(), "{to}: {why}"),
        }
    }
}

#[tokio::test]
async fn clients_that_speak_grpc_are_passed_through() {
    let peer = Grpcio::start();
    let text = "kind: Upstream\nname: lab\nnodes: [{address: \"$1\"}]\n---
kind: Api\ninfo: {name: native}\ninbound: {match: \"POST /lab.v1.Lab/{method}\"}\nproxy: {grpc: {upstream: lab}}\n";
    let gateway = Gateway::serving(&text.replace("$1", &peer.proto)).await;
    let told = grpcio_calls(&peer, gateway.address).await;
    assert_eq!((&told["unary"]["user_id"], &told["unary"]["initial"]), (&json!("ada"), &json!("grpcio")), "{told}");
    let metadata = told["unary"]["metadata"].to_string();
    assert!(metadata.contains("x-mine=1") && metadata.contains("x-request-id="), "{metadata}");
    assert_eq!(told["listed"], json!([3, 3, 3]));
    assert_eq!((&told["collected"], &told["chat"]), (&json!("100"), &json!([0, 1, 2, 3, 4])));
    assert_eq!(told["large"], json!(3 << 20));
    assert_eq!((&told["failed"]["code"], &told["failed"]["message"]), (&json!(5), &json!("no 世界 %")));
    assert!(told["failed"]["details"].as_u64().is_some_and(|it| it > 20), "{told}");
    assert_eq!((&told["late"]["code"], &told["late"]["message"]), (&json!(10), &json!("late")));
    assert_eq!(told["deadline"]["code"], 4);
    assert!(told["deadline"]["took"].as_f64().is_some_and(|it| it < 3.0), "{told}");
    // The gateway's own answers are statuses too.
    assert_eq!((&told["nowhere"]["code"], &told["nowhere"]["message"]), (&json!(12), &json!("there is no such API")));
}
