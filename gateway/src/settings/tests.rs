//! Settings as a whole: what is read, what is refused, and what the manual says of them.
use std::collections::BTreeSet;

use schemas::render;

use super::*;

const HIDDEN: [&str; 2] = ["*token", "code"];

fn given(text: &str, variables: &[(&str, &str)]) -> Result<Parsed, String> {
    let environment: Vec<(OsString, OsString)> = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let input = Input { file: None, environment: &environment, hidden: &HIDDEN };
    let source = Source::new("allium.yaml", text.to_owned());
    parse(&source, input).map_err(|faults| render::text(&faults, false))
}

#[track_caller]
fn good(text: &str, variables: &[(&str, &str)]) -> Settings {
    given(text, variables).unwrap_or_else(|faults| panic!("{text}\n{faults}")).0
}

/// Each of `want` must be in the faults, and there must be as many of them.
#[track_caller]
fn bad(text: &str, variables: &[(&str, &str)], want: &[&str]) {
    let faults = given(text, variables).expect_err(text);
    for want in want {
        assert!(faults.contains(want), "{want}\nis not in\n{faults}");
    }
    assert_eq!(faults.matches(" error[").count(), want.len(), "{faults}");
}

#[test]
fn nothing_written_is_the_defaults() {
    for text in ["", "# nothing\n", "---\n", "{}"] {
        assert_eq!(good(text, &[]), Settings::default(), "{text:?}");
    }
    let it = Settings::default();
    assert_eq!((it.listen[0].address.to_string(), it.admin.address.to_string()), ("127.0.0.1:8080".into(), "127.0.0.1:9080".into()));
    assert_eq!(it.definitions.dir, Path::new("routes"));
}

#[test]
fn everything_that_is_built_can_be_written() {
    let it = good(
        r#"
listen:
  - {address: 127.0.0.1:8080}
  - {address: "0.0.0.0:8443"}
admin:
  address: 0.0.0.0:9080
  tokens: [{token: {env: ALLIUM_ADMIN_TOKEN}, role: write}, {token: {file: secrets/probe}, role: read}]
status: {address: 0.0.0.0:9081}
definitions: {dir: apis}
node: {id: gw-1, zone: gz}
workers: 4
accept: balanced
trusted_proxies: [10.0.0.0/8, "::1"]
keep_ids: true
secrets: {env: [ACME_*], files: secrets/}
egress: {allow: [169.254.169.254]}
limits:
  request: {line: 16KiB, headers: 64KiB, head_time: 5s}
  connection: {count: 10000, age: 2h}
telemetry:
  access_log: {file: logs/access.log, headers: [X-Tenant], flush: 1s}
  log: {level: debug, format: text}
  metrics: {bounds: [10ms, 100ms, 1s]}
  redact: {add: [phone, "*card"], remove: [code]}
"#,
        &[],
    );
    assert_eq!((it.listen.len(), it.admin.tokens.len(), it.workers.count(), it.accept), (2, 2, 4, Accept::Balanced));
    assert_eq!((it.limits.request.line.get(), it.limits.request.header.get()), (16 << 10, 8 << 10), "what is left out keeps its default");
    assert_eq!(it.telemetry.access_log.headers[0].to_string(), "x-tenant");
    let again = good(&serde_json::to_string(&it).unwrap(), &[]);
    assert_eq!(again, it, "what is written out reads back");
}

#[test]
fn every_fault_is_told_at_once_in_its_place() {
    bad(
        "listen:\n  - {adress: 127.0.0.1:8080}\nworkers: many\nkeep_ids: yes\ntrusted_proxies: [10.0.0.1/8]\nlimits:\n  request: {line: 8, head_time: 5 s}\naccept: percore\n",
        &[],
        &[
            "allium.yaml:2:5: error[missing-key]: the key `address` is missing",
            "allium.yaml:2:6: error[unknown-key]: the key `adress` is not known here",
            "allium.yaml:3:10: error[",
            "allium.yaml:4:11: error[wrong-type]",
            "allium.yaml:5:19: error[bad-value]: `10.0.0.1/8` cannot stand here",
            "allium.yaml:7:19: error[",
            "allium.yaml:7:34: error[bad-unit]",
            "allium.yaml:8:9: error[bad-word]: `percore` is not one of",
        ],
    );
    let faults = given("listen:\n  - {adress: 127.0.0.1:8080}\n", &[]).unwrap_err();
    assert!(
        faults.contains("2 |   - {adress: 127.0.0.1:8080}\n  |      ^^^^^^\n") && faults.contains("did you mean `address`?"),
        "{faults}"
    );
}

#[test]
fn what_does_not_fit_together_is_told_in_its_place() {
    bad(
        "listen: [{address: 127.0.0.1:9080}]\nlimits:\n  body: {size: 1KiB}\nnode: {id: a b}\nsecrets: {files: ../x}\ndefinitions: {dir: ''}\n",
        &[],
        &[
            "allium.yaml: error[bad-setting]: `admin.address` and `listen.0.address` are both `127.0.0.1:9080`",
            "allium.yaml:3:9: error[bad-setting]: `limits.body.buffered` (1MiB) is beyond",
            "allium.yaml:4:12: error[bad-setting]: `a b` is no name",
            "allium.yaml:5:18: error[bad-setting]: the folder of secrets",
            "allium.yaml:6:20: error[bad-setting]: the folder of the definitions",
        ],
    );
    bad(
        "admin: {address: 0.0.0.0:9080}\n",
        &[],
        &["allium.yaml:1:18: error[bad-setting]: `0.0.0.0:9080` can be reached from other machines"],
    );
}

#[test]
fn what_is_known_and_not_built_says_so() {
    bad(
        "listen: [{address: 127.0.0.1:80}]\nredis: {url: x}\ndefinitions: {etcd: {}}\nlimits: {websocket: {message: 1}}\ntelemetry: {otlp: {}}\n",
        &[],
        &[
            "allium.yaml:2:1: error[not-built]: `redis` is known, but not built yet",
            "allium.yaml:3:15: error[not-built]: `etcd`",
            "allium.yaml:4:10: error[not-built]: `websocket`",
            "allium.yaml:5:13: error[not-built]: `otlp`",
        ],
    );
}

#[test]
fn no_key_is_both_built_and_not() {
    for (path, _) in shape::UNBUILT {
        let mut schemas = shape::branches(&SHAPE.json, &SHAPE.json);
        let steps: Vec<&str> = path.split('/').map(|it| if it == "*" { "0" } else { it }).collect();
        for (at, step) in steps.iter().enumerate() {
            schemas = shape::inner(&SHAPE.json, &schemas, step);
            assert_eq!(schemas.is_empty(), at + 1 == steps.len(), "{path}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_told() {
    bad("a: [", &[], &["allium.yaml:1:"]);
    bad("keep_ids: true\nkeep_ids: false\n", &[], &["allium.yaml:2:1: error["]);
    bad("keep_ids: true\n---\nkeep_ids: false\n", &[], &["allium.yaml:2:1: error[too-many-documents]"]);
    bad("[1]\n", &[], &["allium.yaml:1:1: error[wrong-type]: expected a map, found a list"]);
}

#[test]
fn a_doubt_does_not_keep_the_gateway_from_starting() {
    let (_, _, warnings) = given("trusted_proxies: [0.0.0.0/0]\n", &[]).unwrap();
    let text = render::text(&warnings, false);
    assert!(text.contains("allium.yaml:1:19: warning[bad-setting]: `0.0.0.0/0` trusts everybody"), "{text}");
}

#[test]
fn the_environment_overrides_what_is_written_and_adds_what_is_not() {
    let text = "listen: [{address: 127.0.0.1:8080}]\nnode: {id: a}\n";
    let it = good(
        text,
        &[
            ("ALLIUM__LISTEN__0__ADDRESS", "127.0.0.1:1"),
            ("ALLIUM__LISTEN__1__ADDRESS", "127.0.0.1:2"),
            ("ALLIUM__NODE__ID", "7"),
            ("ALLIUM__NODE__ZONE", "true"),
            ("ALLIUM__WORKERS", "3"),
            ("ALLIUM__KEEP_IDS", "true"),
            ("ALLIUM__LIMITS__REQUEST__LINE", "16KiB"),
            ("ALLIUM__LIMITS__CONNECTION__COUNT", "512"),
            ("ALLIUM__ADMIN__TOKENS__0__TOKEN__ENV", "TOKEN"),
            ("ALLIUM__ADMIN__TOKENS__0__ROLE", "read"),
            ("ALLIUM__STATUS__ADDRESS", "127.0.0.1:3"),
            ("ALLIUM__TRUSTED_PROXIES__0", "10.0.0.0/8"),
            ("ALLIUM__ACCEPT", "per_core"),
            ("ALLIUM_OTHER", "x"),
        ],
    );
    let addresses: Vec<_> = it.listen.iter().map(|it| it.address.to_string()).collect();
    assert_eq!(addresses, ["127.0.0.1:1", "127.0.0.1:2"]);
    assert_eq!((it.node.id.as_deref(), it.node.zone.as_deref()), (Some("7"), Some("true")), "a text stays one");
    assert_eq!((it.workers.count(), it.keep_ids, it.limits.request.line.get(), it.limits.connection.count), (3, true, 16 << 10, Some(512)));
    assert_eq!((it.admin.tokens.len(), it.status.unwrap().address.0.port(), it.trusted_proxies.len()), (1, 3, 1));
}

#[test]
fn more_than_ten_entries_stand_in_the_order_of_their_numbers() {
    let names: Vec<_> = (0..12).map(|at| (format!("ALLIUM__LISTEN__{at}__ADDRESS"), format!("127.0.0.1:{}", 100 + at))).collect();
    let variables: Vec<_> = names.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let ports: Vec<_> = good("", &variables).listen.iter().map(|it| it.address.0.port()).collect();
    assert_eq!(ports, (100..112).collect::<Vec<_>>());
}

#[test]
fn a_fault_of_the_environment_names_the_variable() {
    for (name, value, want) in [
        ("ALLIUM__LISTEN__0__ADRESS", "127.0.0.1:1", "the key `adress` is not known here"),
        ("ALLIUM__LISTEN__0__ADDRESS", "nowhere", "`nowhere` cannot stand here"),
        ("ALLIUM__LIMITS__REQUEST__LINE", "8", ""),
        ("ALLIUM__WORKERS", "0", ""),
        ("ALLIUM__KEEP_IDS", "1", "expected true or false"),
        ("ALLIUM__NODE__ID", "", "is no name"),
        ("ALLIUM__REDIS", "x", "`redis` is known, but not built yet"),
        ("ALLIUM__LISTEN__2__ADDRESS", "127.0.0.1:1", "`listen` has 1 entries: the next one is number 1, not 2"),
        ("ALLIUM__LISTEN__FIRST__ADDRESS", "127.0.0.1:1", "entries are numbered from 0, `first` is no number"),
        ("ALLIUM__KEEP_IDS__X", "1", "`keep_ids` is a single value: there is no `x` in it"),
        ("ALLIUM__LISTEN", "127.0.0.1:1", "`listen` is not a single value"),
        ("ALLIUM__LISTEN____ADDRESS", "127.0.0.1:1", "its name has an empty part"),
    ] {
        let faults = given("listen: [{address: 127.0.0.1:8080}]\nkeep_ids: false\n", &[(name, value)]).expect_err(name);
        let first = faults.lines().find(|it| it.starts_with(&format!("{name}: error["))).unwrap_or_else(|| panic!("{name}: {faults}"));
        assert!(first.contains(want), "{want}: {first}");
    }
}

#[test]
fn a_variable_that_is_not_utf_8_is_told() {
    use std::os::unix::ffi::OsStringExt;
    let environment = [("ALLIUM__NODE__ID".into(), OsString::from_vec(vec![0xff]))];
    let source = Source::new("allium.yaml", String::new());
    let faults = parse(&source, Input { file: None, environment: &environment, hidden: &HIDDEN }).unwrap_err();
    assert!(render::text(&faults, false).contains("ALLIUM__NODE__ID: error[bad-variable]"), "{faults:?}");
}

#[test]
fn the_file_is_the_named_one_and_paths_are_relative_to_its_folder() {
    let folder = std::env::temp_dir().join(format!("allium-settings-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("my.yaml");
    fs::write(&file, "keep_ids: true\n").unwrap();
    let environment = [(FILE_VARIABLE.into(), file.clone().into_os_string())];
    for input in
        [Input { file: Some(&file), environment: &[], hidden: &HIDDEN }, Input { file: None, environment: &environment, hidden: &HIDDEN }]
    {
        let it = load(input).unwrap();
        assert!(it.settings.keep_ids);
        assert_eq!((it.file.as_deref(), it.path(&it.settings.definitions.dir)), (Some(&*file), folder.join("routes")));
        assert!(it.origin().starts_with("settings from /") && !it.node_id().is_empty());
    }
    let none = folder.join("none.yaml");
    let faults = load(Input { file: Some(&none), environment: &environment, hidden: &HIDDEN }).unwrap_err();
    assert!(faults[0].message.contains("cannot be read"), "a file that is named must be there");
    fs::write(&file, b"\xff").unwrap();
    assert!(load(Input { file: Some(&file), environment: &[], hidden: &HIDDEN }).is_err());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn every_key_has_a_description() {
    fn walk(schema: &serde_json::Value, path: &str, missing: &mut BTreeSet<String>) {
        for (name, inner) in schema.get("properties").and_then(|it| it.as_object()).into_iter().flatten() {
            if inner.get("description").is_none() {
                missing.insert(format!("{path}.{name}"));
            }
        }
    }
    let mut missing = BTreeSet::new();
    walk(&SHAPE.json, "", &mut missing);
    for (name, schema) in SHAPE.json["$defs"].as_object().unwrap() {
        walk(schema, name, &mut missing);
        let variants = schema.get("oneOf").and_then(|it| it.as_array()).into_iter().flatten();
        // Words of `enum` are told by the key that takes them.
        for variant in variants.filter(|it| it.get("properties").is_some() && it.get("description").is_none()) {
            missing.insert(format!("{name}: {variant}"));
        }
    }
    assert_eq!(missing, BTreeSet::new());
}

/// `UPDATE_DOCS=1 cargo test -p gateway` writes it anew.
#[test]
fn the_manual_says_what_the_code_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/SETTINGS.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, markdown()).unwrap();
    }
    assert!(fs::read_to_string(&file).unwrap_or_default() == markdown(), "docs/SETTINGS.md is old: run the tests with UPDATE_DOCS=1");
}
