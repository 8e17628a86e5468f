//! `allium test`: what is expected of a definition holds, or is told so that a person sees what to change.
use crate::bench::Bench;

const API: &str = r#"kind: Upstream
name: crm
nodes: [{address: "127.0.0.1:1"}]
---
kind: Api
info: {name: page, version: v1}
inbound: {match: "GET api.example.com/page/{id}", params: {id: {in: path, type: integer}}}
proxy:
  pipeline:
    stages:
      - profile: {http: {upstream: crm, path: "/p/${params.id}"}}
        risk: {http: {upstream: crm, path: /r}, on_error: {use: {level: unknown}}}
      - parcels:
          for_each: {item: it, in: "${profile.orders}"}
          http: {upstream: crm, path: "/t/${it}"}
          on_error: skip_item
outbound: {body: {name: "${profile.name}", risk: "${risk.level}", parcels: "${parcels}"}}
tests:
"#;

/// A test of `API`, on one line.
fn bench(tests: &[&str]) -> Bench {
    let tests: String = tests.iter().map(|it| format!("  - {it}\n")).collect();
    Bench::new(&[("routes/a.yaml", &format!("{API}{tests}"))])
}

const GIVEN: &str = "profile: {body: {name: Ada, orders: [1, 2]}}";

#[test]
fn what_holds_is_told_and_ends_with_0() {
    let it = bench(&[
        &format!(
            "{{name: one broken backend, request: {{url: /page/7}}, given: {{{GIVEN}, risk: {{fail: timeout}}, parcels: {{body: 1}}}}, expect: {{status: 200, headers: {{x-partial: risk, x-none: null}}, body: {{risk: unknown, parcels: [1, 1]}}}}}}"
        ),
        &format!(
            "{{name: call by call, request: {{url: \"http://api.example.com/page/7\"}}, given: {{{GIVEN}, risk: {{body: {{level: low}}}}, parcels: [{{body: 1}}, {{fail: 503}}]}}, expect: {{headers: {{x-partial: parcels}}, body: {{risk: low, parcels: [1]}}}}}}"
        ),
        "{name: no profile, request: {url: /page/7}, given: {profile: {fail: 404}, risk: {fail: reset}}, expect: {status: 502, body: {message: \"the task 'profile' failed: the backend answered 404\"}}}",
        "{name: validation, request: {url: /page/x}, expect: {status: 400}}",
        "{name: elsewhere, request: {url: \"http://other.example.com/page/7\"}, expect: {status: 404}}",
    ]);
    let ended = it.check(&["test", "--junit", "out.xml"], 0);
    assert!(ended.out.contains("ok    page@v1  one broken backend\n") && ended.out.ends_with("\n5 tests passed\n"), "{ended:?}");
    let xml = it.read("out.xml");
    assert!(xml.contains("<testsuite name=\"page@v1\" tests=\"5\" failures=\"0\">") && !xml.contains("<failure"), "{xml}");
    assert!(it.check(&["test", "--only", "valid"], 0).out.ends_with("\n1 test passed\n"));
    assert!(it.check(&["test", "--only", "nothing"], 1).err.contains("no test has such a name"));
}

#[test]
fn what_does_not_hold_is_told_with_what_came() {
    let it = bench(&[
        &format!(
            "{{name: wrong <all>, request: {{url: /page/7}}, given: {{{GIVEN}, risk: {{fail: timeout}}, parcels: {{body: {{s: 1}}}}}}, expect: {{status: 201, headers: {{x-partial: null}}, body: {{risk: low, parcels: [{{s: 2}}, {{s: 1}}], more: 1}}}}}}"
        ),
        "{name: missing, request: {url: /page/7}, given: {risk: {body: {}}}, expect: {status: 502}}",
        &format!(
            "{{name: too few, request: {{url: /page/7}}, given: {{{GIVEN}, risk: {{body: {{}}}}, parcels: [{{body: 1}}, {{body: 2}}]}}, expect: {{status: 200}}}}"
        ),
    ]);
    let ended = it.check(&["test", "--junit", "out.xml"], 1);
    for part in [
        "FAIL  page@v1  wrong <all>  (routes/a.yaml:",
        "      status\n        - 201\n        + 200\n",
        "      header x-partial\n        - nothing\n        + risk\n",
        "      body /risk\n        - \"low\"\n        + \"unknown\"\n",
        "      body /parcels/0/s\n        - 2\n        + 1\n",
        "      body /more\n        - 1\n        + nothing\n",
        "      the answer: 200 {\"name\":\"Ada\",\"risk\":\"unknown\"",
        "      given\n        + 'profile' was called, and `given` holds no answer for it",
        "ok    page@v1  too few\n",
        "\n2 of 3 tests failed;",
    ] {
        assert!(ended.out.contains(part), "{part:?} is not in\n{}", ended.out);
    }
    let xml = it.read("out.xml");
    assert!(
        xml.contains("name=\"wrong &lt;all&gt;\"")
            && xml.contains("failures=\"2\"")
            && xml.contains("body /risk: expected &quot;low&quot;"),
        "{xml}"
    );
}

#[test]
fn a_single_call_is_given_as_proxy_and_nothing_to_test_is_no_fault() {
    let api = |tests: &str| {
        format!(
            "kind: Api\ninfo: {{name: a}}\ninbound: {{match: \"/a\"}}\nproxy: {{http: {{upstream: \"http://backend.example.com\"}}}}\n{tests}"
        )
    };
    let test = "tests: [{name: t, request: {method: POST, url: /a, body: {x: 1}}, given: {proxy: {status: 201, headers: {x-a: [\"1\", \"2\"]}, body: {raw: text}}}, expect: {status: 201, headers: {x-a: [\"1\", \"2\"], content-type: text/plain; charset=utf-8}, body: text}}]\n";
    let it = Bench::new(&[("routes/a.yaml", &api(test))]);
    assert_eq!(it.check(&["test"], 0).out, "ok    a  t\n\n1 test passed\n");
    let it = Bench::new(&[("routes/a.yaml", &api(""))]);
    let ended = it.check(&["test"], 0);
    assert!(ended.out.is_empty() && ended.err.contains("there is no test"), "{ended:?}");
    let it = Bench::new(&[("routes/a.yaml", &api("tests: [{name: t}]\n"))]);
    assert!(it.check(&["test"], 1).err.contains("the key `request` is missing"));
}

#[test]
fn the_tests_of_the_demo_pass() {
    let demo = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/demo");
    let ended = Bench::new(&[]).check(&["test", &demo.to_string_lossy()], 0);
    assert!(ended.out.contains("one broken backend does not break the page"), "{ended:?}");
}
