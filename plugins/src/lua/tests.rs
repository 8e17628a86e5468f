//! Scripts on a route of one ring: the recipes of the manual, JSON without loss, and scripts that mean harm.
use bytes::Bytes;
use contract::{
    Body,
    catalog::plugin,
    testkit::{Bench, exchange},
};
use serde_json::{Value, json};

use super::*;

type Answer = http::Response<Body>;

/// Answers a customer, and tells in headers what it was asked.
fn upstream(ex: &mut Exchange) -> Outcome {
    let mut it = Answer::new(Body::from(r#"{"phone":"13800138000","name":"张三丰","id":9007199254740993,"list":[]}"#));
    it.headers_mut().insert("seen-target", ex.head.uri.to_string().parse().unwrap());
    for (name, value) in &ex.head.headers {
        it.headers_mut().insert(http::HeaderName::try_from(format!("seen-{name}")).unwrap(), value.clone());
    }
    if let Body::Full(body) = &ex.body {
        it.headers_mut().insert("seen-body", http::HeaderValue::from_bytes(body).unwrap());
    }
    Ok(it)
}

fn bench(source: &str) -> Bench {
    Bench::around(&plugin::<Lua>(), json!({"source": source}), upstream)
}

/// A request as `GET /path`, its headers, its body.
fn request(start: &str, headers: &[(&str, &str)], body: &str) -> http::Request<Body> {
    let (method, target) = start.split_once(' ').unwrap();
    let mut it = http::Request::builder().method(method).uri(target);
    for (name, value) in headers {
        it = it.header(*name, *value);
    }
    it.body(Bytes::copy_from_slice(body.as_bytes()).into()).unwrap()
}

async fn text(it: Answer) -> String {
    let mut body = it.into_body();
    String::from_utf8(body.bytes(1 << 20).await.unwrap().to_vec()).unwrap()
}

/// The body of the function `on_request`.
async fn on_request(body: &str) -> Answer {
    bench(&format!("return {{on_request = function(req, ctx)\n{body}\nend}}")).send(request("POST /a?q=1", &[("x-a", "1")], "{}")).await
}

fn recipes() -> Vec<&'static str> {
    let (_, all) = include_str!("../../../docs/LUA.md").split_once("## Recipes").unwrap();
    all.split("```lua\n").skip(1).map(|it| it.split_once("```").unwrap().0).collect()
}

#[tokio::test]
async fn the_recipes_of_the_manual_do_what_they_say() {
    let all = recipes();
    assert_eq!(all.len(), 10);
    let seen =
        |it: &Answer, name: &str| it.headers().get(name).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned()).unwrap_or_default();

    let it = bench(all[0]);
    assert_eq!(it.send(request("GET /", &[("x-tenant", "t1")], "")).await.status(), 200);
    let refused = it.send(request("GET /", &[], "")).await;
    assert_eq!((refused.status().as_u16(), text(refused).await), (400, r#"{"message":"x-tenant is missing"}"#.into()));

    let it = bench(all[1]).send(request("GET /?uid=%E5%BC%A0&page=2", &[("x_user_id", "forged")], "")).await;
    assert_eq!(
        (seen(&it, "seen-x-user-id"), seen(&it, "seen-x_user_id"), seen(&it, "seen-target")),
        ("张".into(), "".into(), "/?page=2".into())
    );

    let it = bench(all[2]).send(request("GET /v1/orders?x=%20", &[], "")).await;
    assert_eq!(seen(&it, "seen-target"), "/v2/orders?x=%20");

    let it = bench(all[3]).send(request("GET /orders", &[], "")).await;
    // openssl dgst -sha256 -hmac the-key
    assert_eq!(seen(&it, "seen-x-signature").len(), 64);
    assert_ne!(seen(&it, "seen-x-signature"), seen(&bench(all[3]).send(request("GET /other", &[], "")).await, "seen-x-signature"));

    let it = bench(all[4]).send(request("POST /", &[], r#"{"z":12345678901234567890,"a":null,"items":[]}"#)).await;
    assert_eq!(seen(&it, "seen-body"), r#"{"z":12345678901234567890,"a":null,"items":[],"source":"wechat"}"#);

    let it = text(bench(all[5]).send(request("GET /", &[], "")).await).await;
    assert_eq!(it, r#"{"phone":"138****8000","name":"张三丰","id":9007199254740993,"list":[]}"#);
    let it = text(bench(all[6]).send(request("GET /", &[], "")).await).await;
    assert_eq!(it, r#"{"phone":"13800138000","name":"张**","id":9007199254740993,"list":[]}"#);

    for (cookie, version) in [("a=2; beta=1", "v2"), ("beta=0", "v1")] {
        assert_eq!(seen(&bench(all[7]).send(request("GET /", &[("cookie", cookie)], "")).await, "seen-x-version"), version);
    }

    let it = bench(all[8]);
    for status in [200, 200, 429] {
        assert_eq!(it.send(request("GET /", &[], "")).await.status(), status);
    }
    assert_eq!(it.from("192.0.2.1".parse().unwrap()).send(request("GET /", &[], "")).await.status(), 200);

    let it = bench(all[9]).send(request("GET /", &[], "")).await;
    assert_eq!(seen(&it, "x-envelope"), "true");
    let it: Value = serde_json::from_str(&text(it).await).unwrap();
    assert_eq!((&it["code"], &it["id"], &it["data"]["name"]), (&json!(0), &json!("test-request"), &json!("张三丰")));
}

#[tokio::test]
async fn json_goes_through_without_loss() {
    let it = bench("return {on_request = function(req) req:set_json(req:json()) end}");
    for text in [
        r#"{"b":[],"a":{},"c":null,"list":[null,1,[],{}]}"#,
        r#"{"n":[0,-1,9007199254740991,9007199254740993,-123456789012345678901234567890,0.1,3.141592653589793238462643383279]}"#,
        r#"["张三","a\"b\\c\u0000"]"#,
        r#""text""#,
        "null",
        "[[[[]]]]",
    ] {
        let answer = it.send(request("POST /", &[], text)).await;
        assert_eq!(answer.headers()["seen-body"].as_bytes(), text.as_bytes());
    }
    for bad in ["{", "[1,]", &"[".repeat(10_000)] {
        assert_eq!(it.send(request("POST /", &[], bad)).await.status(), 500);
    }
}

#[tokio::test]
async fn what_a_script_sets_passes_the_checks_that_a_client_passes() {
    for bad in [
        "req.path = '/a/../b'",
        "req.path = '/a/%2e%2e/b'",
        "req.path = '//evil.example'",
        "req.path = 'a'",
        "req.path = '/a b'",
        "req.path = '/a?x=1'",
        "req.path = '/a\\r\\nx: y'",
        "req.method = 'GE T'",
        "req.method = 'CONNECT'",
        "req.headers['x-b'] = 'a\\r\\nx-c: d'",
        "req.headers['x b'] = 'a'",
        "req.headers['content-length'] = '5'",
        "req.headers['transfer-encoding'] = 'chunked'",
        "req.headers.host = 'evil.example'",
        "req.cookies.a = 'b; c=d'",
        "req.params.a = 1",
        "return ctx.respond(99)",
        "return ctx.respond(200, nil, {['content-length'] = 9})",
        "return 7",
        "req:set_json({1, nil, 3})",
        "req:set_json({1, a = 2})",
        "req:set_json(0/0)",
        "local t = {} t.t = t req:set_json(t)",
        "req:set_json('\\255')",
        "error({})",
        "error(nil)",
    ] {
        assert_eq!(on_request(bad).await.status(), 500, "{bad}");
    }
    let good = on_request("req.method = 'PUT' req.path = '/%E5%BC%A0' req.query.q = '张 三' req.headers['x-a'] = nil").await;
    assert_eq!(
        (good.headers()["seen-target"].to_str().unwrap(), good.headers().get("seen-x-a")),
        ("/%E5%BC%A0?q=%E5%BC%A0%20%E4%B8%89", None)
    );
}

/// Bodies of `on_request` that must end soon, and leave the thread's other scripts as they were.
const HOSTILE: &[&str] = &[
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local function f() while true do pcall(f) end end f()",
    "local function f() xpcall(f, f) end while true do f() end",
    "local c = coroutine.wrap(function() while true do end end) c()",
    "while true do coroutine.wrap(function() pcall(function() while true do end end) end)() end",
    "local function f() return coroutine.wrap(f)() end f()",
    "for i = 1, 1e9 do coroutine.yield() end",
    "local s = string.rep('a', 32) return string.find(s, string.rep('a?', 32) .. string.rep('a', 32) .. 'b')",
    "string.rep('x', 500000000)",
    "local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t end",
    "local t = {} while true do pcall(function() t[#t + 1] = string.rep('x', 1000) .. #t end) end",
    "local s = 'x' while true do s = s .. s end",
    "local function f() return 1 + f() end f()",
    "local function f(...) return f(1, ...) end f()",
    "table.move({}, 1, 2^31 - 2, 2, {})",
    "buffer.create(1e9)",
    "table.create(1e9, 0)",
    "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.a",
    "local t = {} for i = 1, 1000 do t[i] = i end table.sort(t, function(a, b) while true do end end)",
    "local t = {} t[1] = t local a = {} for i = 1, 60 do a = {a, a} end req:set_json(a)",
    "string.gsub(string.rep('a', 100000), '.-b', '')",
    "for i = 1, 1e9 do string.format('%99s', 'x') end",
];

#[tokio::test]
async fn a_script_that_means_harm_ends_alone_and_soon() {
    for body in HOSTILE {
        let it = bench(&format!("return {{on_request = function(req, ctx)\n{body}\nend}}"));
        let mut ex = exchange(request("GET /", &[], ""));
        let started = Instant::now();
        drop(it.send(request("GET /", &[], "")).await);
        // The budget is 50 ms; a busy machine has its own pace.
        assert!(started.elapsed() < Duration::from_secs(2), "{body}: {:?}", started.elapsed());
        ex.set_var("a", contract::Value::Null);
    }
    assert_eq!(on_request("while true do end").await.status(), 500);
    assert_eq!(on_request("while true do pcall(function() while true do end end) end").await.status(), 500);
    assert_eq!(on_request("string.rep('x', 500000000)").await.status(), 500);
}

#[tokio::test]
async fn nothing_leads_out_of_the_sandbox() {
    for taken in [
        "io",
        "dofile",
        "loadfile",
        "load",
        "loadstring",
        "getfenv",
        "setfenv",
        "newproxy",
        "debug",
        "collectgarbage",
        "package",
        "os.execute",
        "os.exit",
        "os.getenv",
        "os.remove",
        "os.rename",
        "os.tmpname",
        "string.dump",
    ] {
        let answer = on_request(&format!("return ctx.respond({taken} == nil and 200 or 599)")).await;
        assert_eq!(answer.status(), 200, "{taken}");
    }
    for forbidden in [
        "string.rep = nil",
        "allium.json = nil",
        "allium.log.info = nil",
        "getmetatable('').__index = nil",
        "getmetatable(_G).__index = nil",
        "setmetatable(_G, {})",
        "rawset(string, 'a', 1)",
        "rawset(allium.json, 'a', 1)",
        "getmetatable(req).__index = nil",
        "getmetatable(allium.json.array()).a = 1",
        "require('nothing')",
        "require('../../etc/passwd')",
    ] {
        assert_eq!(on_request(forbidden).await.status(), 500, "{forbidden}");
    }
}

#[tokio::test]
async fn a_script_cannot_see_another_ones_state() {
    let set = bench(
        "shared = 'secret' return {on_request = function(req, ctx) _G.other = 1 allium.cache.set('k', 'v', 60) return ctx.respond(200, shared) end}",
    );
    let get = bench(
        "return {on_request = function(req, ctx) return ctx.respond(200, tostring(shared) .. tostring(other) .. tostring(allium.cache.get('k'))) end}",
    );
    let both = async |it: &Bench| text(it.send(request("GET /", &[], "")).await).await;
    assert_eq!((both(&set).await.as_str(), both(&get).await.as_str()), ("secret", "nilnilnil"));
}

#[tokio::test]
async fn three_trips_switch_a_script_off() {
    for (on_failure, status) in [("reject", 500), ("pass", 200)] {
        let config = json!({"source": "return {on_request = function() while true do end end}", "limits": {"time": "2ms"}, "on_failure": on_failure});
        let it = Bench::around(&plugin::<Lua>(), config, upstream);
        for _ in 0..3 {
            assert_eq!(it.send(request("GET /", &[], "")).await.status(), 500);
        }
        assert_eq!(it.send(request("GET /", &[], "")).await.status(), status);
    }
    let (health, now) = (Health::new(), Instant::now());
    assert!(!health.trip(now) && !health.trip(now));
    assert!(!health.trip(now + WINDOW), "those before are forgotten");
    assert!(!health.trip(now + WINDOW) && health.trip(now + WINDOW));
    assert!(health.is_off(now + WINDOW) && !health.is_off(now + 2 * WINDOW + Duration::from_secs(1)));
}

#[test]
fn every_mistake_is_told_at_load() {
    for (config, pointer, told) in [
        (json!({}), "", "there is no script"),
        (json!({"source": "x ="}), "/source", "Api/test@v1/lua:1:"),
        (json!({"source": "\n\nerror('no')"}), "/source", "Api/test@v1/lua:3: no"),
        (json!({"source": "return 1"}), "/source", "returns a table of functions, this one returns number"),
        (json!({"source": "local M = {}"}), "/source", "returns nothing"),
        (json!({"source": "return {}"}), "/source", "neither `on_request` nor `on_response`"),
        (json!({"source": "return {on_request = 1}"}), "/source", "`on_request` must be a function"),
        (json!({"source": "return {merge = function() end}"}), "/source", "not built"),
        (json!({"source": "while true do end"}), "/source", "while it was loaded, the script used more time"),
        (json!({"source": "local a = string.rep('x', 5e8) return {}"}), "/source", "used more memory"),
        (json!({"source": "require('a')"}), "/source", "not in `source`"),
        (json!({"file": "no/such.lua"}), "/file", "no/such.lua"),
        (json!({"source": "return {on_request = print}", "limits": {"time": "1h"}}), "/limits/time", "from 1ms to 10s"),
        (json!({"source": "return {on_request = print}", "limits": {"memory": "1GiB"}}), "/limits/memory", "from 64KiB to 64MiB"),
    ] {
        let faults = Bench::faults(&plugin::<Lua>(), config.clone());
        let found = faults.iter().find(|it| it.pointer == pointer && it.message.contains(told));
        assert!(found.is_some(), "{config}: {faults:?}");
    }
}
