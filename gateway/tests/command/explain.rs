//! `allium explain`: one definition as the gateway understands it.
use serde_json::{Value, json};

use crate::bench::{Bench, UPSTREAM, api, project};

fn demo(arguments: &[&str], code: i32) -> crate::bench::Ended {
    let bench = Bench::new(&[]);
    let config = project().join("allium.yaml").display().to_string();
    bench.check(&[arguments, &["-c", &config]].concat(), code)
}

/// The lines of one ring.
fn ring<'t>(text: &'t str, head: &str) -> &'t str {
    let from = text.find(head).unwrap_or_else(|| panic!("no {head} in {text}"));
    let rest = &text[from..];
    let ends = ["\n 2  ", "\n 3  ", "\n 4  ", "\n\n"].iter().filter_map(|it| rest.find(it));
    &rest[..ends.min().unwrap_or(rest.len())]
}

#[test]
fn an_api_is_shown_whole() {
    let it = demo(&["explain", "customers@v2"], 0).out;
    assert!(it.starts_with("Api customers@v2: One customer, from a backend that knows nothing of the outside\n"), "{it}");
    for part in [
        "\nMatches\n  GET /v2/customers/{id}\n",
        "\nRings, outermost first\n 1  cors  from the Preset public-api  (",
        "routes/demo/presets.yaml:6)\n",
        "\n 3  validate  (its usual place: innermost)\n",
        "    params    id    path    integer  required  minimum: 1\n              page  query   integer  optional  minimum: 1  maximum: 50  default: 1\n",
        "\nTarget\n  http:\n    upstream: customers\n    path: /internal/customers/${params.id}\n    method: as received  # default\n    host: received  # default\n",
        "\n  timeout: 2s\n",
        "\nUpstream (",
        "  nodes:\n    - address: \"127.0.0.1:9101\"\n      weight: 1  # default\n",
        "    first_byte: 5s\n    idle: 60s  # default\n",
        "    policy: round_robin  # default\n",
        "\nOutbound: how the answer is shaped\n  headers:\n    set:\n      x-served-by: allium\n",
    ] {
        assert!(it.contains(part), "{part:?} is not in\n{it}");
    }
    let cors = ring(&it, " 1  cors");
    assert!(cors.contains("    answers   204 to a preflight\n") && cors.contains("      max_age: 10m\n"), "{cors}");
    assert!(
        cors.contains("      credentials: false  # default")
            && !cors.contains("origins: [http://localhost:3000, https://*.example.com]  #"),
        "{cors}"
    );
    assert!(!it.lines().any(|it| it.ends_with(' ')), "{it}");
}

#[test]
fn fields_that_no_rule_masks_are_listed() {
    let schema = "{properties: {id: {}, items: {type: array, items: {$ref: '#/$defs/one'}}, 手机号: {type: string}}, $defs: {one: {properties: {contact_phone: {}, Email: {}, note: {}}}}}";
    let text = format!(
        "kind: Api\ninfo: {{name: a}}\ninbound: {{match: /a}}\nplugins: [{{desensitize: {{rules: [{{at: \"**.contact_phone\", as: phone}}]}}}}]\nproxy: {{respond: {{body: {{}}}}}}\noutbound: {{schema: {schema}}}\n"
    );
    let bench = Bench::new(&[("allium.yaml", "{}"), ("routes/a.yaml", &text)]);
    let it = bench.check(&["explain", "a"], 0).out;
    let (_, listed) = it.split_once("\nNot masked: ").unwrap_or_else(|| panic!("{it}"));
    assert!(listed.contains("items[*].Email") && listed.contains("手机号") && !listed.contains("contact_phone"), "{listed}");
    let covered = text.replace("**.contact_phone", "*").replace("as: phone", "as: remove");
    bench.write("routes/a.yaml", &covered);
    assert!(!bench.check(&["explain", "a"], 0).out.contains("Not masked"));
}

#[test]
fn validation_stands_where_the_list_puts_it() {
    let it = demo(&["explain", "internal-status"], 0).out;
    let (validate, acl) = (it.find(" 1  validate").unwrap(), it.find(" 2  ip-acl").unwrap());
    assert!(validate < acl && !it.contains("usual place"), "{it}");
    assert!(it.contains("\nTarget\n  respond:\n    status: 200\n"), "{it}");
}

#[test]
fn a_life_and_a_redirect_are_told() {
    let it = demo(&["explain", "customers@v1"], 0).out;
    assert!(it.contains("  state     deprecated: its answers say so, ends on 2027-04-01, then use customers@v2\n"), "{it}");
    assert!(demo(&["explain", "docs"], 0).out.contains("  redirect:\n    to: https://docs.example.com${request.path}\n    status: 308\n"));
}

#[test]
fn json_holds_the_same_for_programs() {
    let it = demo(&["explain", "customers", "--format", "json"], 0).out;
    let all: Value = serde_json::from_str(&it).unwrap();
    assert_eq!((&all[0]["version"], &all[1]["version"]), (&json!("v1"), &json!("v2")));
    let v2 = &all[1];
    assert_eq!(v2["rings"][0]["ring"], "cors");
    assert_eq!(v2["rings"][0]["preset"], "public-api");
    assert_eq!(v2["rings"][0]["config"]["credentials"], false);
    assert_eq!(v2["rings"][0]["defaults"], json!(["/methods", "/headers", "/expose", "/credentials"]));
    assert_eq!(v2["rings"][2]["params"]["id"], json!({"in": "path", "type": "integer", "minimum": 1, "required": true}));
    assert_eq!(v2["target"]["effective"]["method"], "as received");
    assert_eq!(v2["target"]["upstream"]["definition"]["pool"]["max_idle"], 128);
}

#[test]
fn an_upstream_of_a_url_conditions_and_bodies_are_shown() {
    let text = "kind: Api\ninfo: {name: a}\ndefaults: false\ninbound:\n  match: [POST /a, POST example.com/a]\n  when: \"headers['x-channel'] == 'app'\"\n  order: 3\n  body: {content: [application/json]}\nplugins:\n  - headers: {response: {remove: [server]}}\n    when: \"request.method == 'POST'\"\nproxy:\n  http: {upstream: \"http://10.0.0.1:81/base\"}\n---\nkind: Preset\nname: default\nplugins: [{ip-acl: {deny: [192.0.2.1]}}]\n";
    let bench = Bench::new(&[("routes/a.yaml", text)]);
    let it = bench.check(&["explain", "a"], 0).out;
    for part in [
        "  POST /a\n  POST example.com/a\n  when      headers['x-channel'] == 'app'\n  order     3,",
        " 1  headers  (routes/a.yaml:10)\n",
        "    when      request.method == 'POST'\n",
        "      content: application/json\n      max_size: ",
        "    answers   400, 413, 415\n",
        "    host: the URL's  # default\n",
        "  timeout: 1m (limits.request.time of the settings; streams have none)  # default\n",
        "Upstream, made for this URL\n  nodes:\n    - address: \"10.0.0.1:81\"\n      weight: 1  # default\n",
    ] {
        assert!(it.contains(part), "{part:?} is not in\n{it}");
    }
    assert!(!it.contains("ip-acl"), "{it}");
}

#[test]
fn other_kinds_are_shown_where_no_api_has_the_name() {
    let it = demo(&["explain", "public-api"], 0).out;
    assert!(it.starts_with("Preset public-api\n") && it.contains(" 2  headers"), "{it}");
    assert!(it.ends_with("\nUsed by\n  customer-overview@v1, customers@v1, customers@v2, events@v1\n"), "{it}");
    let bench = Bench::new(&[
        ("routes/u.yaml", UPSTREAM),
        ("routes/a.yaml", &api("a", "GET /a")),
        ("routes/p.yaml", "kind: App\nname: acme\nplan: gold\n---\nkind: Plan\nname: gold\nrate: 10/s\n"),
    ]);
    let it = bench.check(&["explain", "orders"], 0).out;
    assert!(it.starts_with("Upstream orders\n  written   routes/u.yaml:2\n") && it.ends_with("\nUsed by\n  a@v1\n"), "{it}");
    assert!(bench.check(&["explain", "acme"], 0).out.contains("\nDefinition\n  plan: gold\n"));
    assert!(bench.check(&["explain", "gold"], 0).out.contains("\nDefinition\n  rate: 10/s\n"));
}

#[test]
fn a_name_that_nothing_has_is_told_with_the_near_one() {
    let it = demo(&["explain", "custmers"], 1);
    assert!(it.out.is_empty() && it.err.contains("nothing is named 'custmers'; did you mean 'customers'?"), "{it:?}");
    assert!(demo(&["explain", "customers@v9"], 1).err.contains("did you mean 'customers@v"));
    assert!(demo(&["explain", "zzzzzzzz"], 1).err.contains("`allium routes` lists"));
}

#[test]
fn an_api_with_faults_is_shown_with_them() {
    let bench = Bench::new(&[
        ("routes/a.yaml", &format!("{}---\n{}", api("a", "GET /a"), api("b", "GET /b").replace("orders", "other"))),
        ("routes/u.yaml", UPSTREAM),
    ]);
    bench.check(&["explain", "a"], 0);
    let it = bench.check(&["explain", "b"], 1);
    assert!(it.out.contains("Api b@v1") && it.err.contains("there is no Upstream named 'other'"), "{it:?}");
    bench.write("routes/c.yaml", "kind: Api\ninfo: {name: c}\nbogus: 1\n");
    assert!(bench.check(&["explain", "c"], 1).err.contains("some definitions have faults"));
}
