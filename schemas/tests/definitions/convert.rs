//! There and back loses comments only.

use schemas::{Definition, Input, Options, Written, convert, diff, load};

use crate::examples;

fn back(bytes: Vec<u8>, ending: &str) -> Vec<Definition> {
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    let loaded = load(vec![Input::new(format!("a.{ending}"), bytes)], &Options::default());
    assert!(loaded.faults.is_empty(), "{:#?}\n{shown}", loaded.faults);
    loaded.documents.into_iter().map(|document| document.message).collect()
}

#[test]
fn every_example_survives_each_way_of_writing() {
    let originals: Vec<Definition> = examples::all().documents.into_iter().map(|document| document.message).collect();
    for (target, ending) in [(Written::Yaml, "yaml"), (Written::Json, "json"), (Written::Binary, "binpb")] {
        let again = back(convert(&originals, target), ending);
        assert_eq!(again, originals, "{ending}");
        assert_eq!(convert(&again, target), convert(&originals, target), "{ending}");
        assert!(diff(&originals, &again).is_empty());
    }
}

#[test]
fn order_of_keys_and_comments_do_not_change_the_digest_but_values_do() {
    let digest = |text: &str| load(vec![Input::new("a.yaml", text)], &Options::default()).documents[0].digest;
    let a = digest("kind: Plan\nname: a\nrate: 1/s\n");
    assert_eq!(a, digest("# c\nrate: 1/s\nname: \"a\"\nkind: Plan\n"));
    assert_ne!(a, digest("kind: Plan\nname: a\nrate: 2/s\n"));
    // Written down: a digest outlives the process.
    assert_eq!(format!("{a:032x}"), "f377e15197dd36f8bb8c5daf327ffa8d");
}

#[test]
fn texts_that_look_like_something_else_stay_texts_and_numbers_keep_their_digits() {
    let texts = [
        "yes",
        "no",
        "null",
        "~",
        "",
        " a",
        "a ",
        "1",
        "1e3",
        "0x1f",
        "0o7",
        "1_000",
        "-",
        "- a",
        "a: b",
        "a #b",
        "#a",
        "a\nb",
        "a\nb\n",
        "a\n\n",
        "\n",
        " a\nb",
        "a \nb",
        "\ta",
        "a\tb",
        "é中文",
        "\u{1f600}",
        "\u{0}",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "a\r\nb",
        "'a'",
        "\"",
        "\\",
        "{a}",
        "[a]",
        "a, b",
        "!a",
        "&a",
        "*a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "? a",
        ": a",
        "---",
        "...",
        "<<",
        "12:30:45",
        "2027-04-01",
        "${a}",
        ".5",
        ".inf",
        "+1",
        "=",
        "key:",
    ];
    let numbers = ["123456789012345678901234567890", "0.1000", "1e400", "-0", "1.0"];
    let mut body = String::from("{");
    for (at, text) in texts.iter().enumerate() {
        body += &format!("{}:{},", serde_json::to_string(text).unwrap(), serde_json::to_string(text).unwrap());
        body += &format!("\"k{at}\":[{0},[{0}],{{\"a\":{0}}}],", serde_json::to_string(text).unwrap());
    }
    body += &format!("\"numbers\":[{}],\"deep\":[[[{{}}]],[],{{}},null,true]}}", numbers.join(","));
    let json = format!(
        "{{\"kind\":\"Api\",\"info\":{{\"name\":\"a\"}},\"inbound\":{{\"match\":\"/\"}},\"proxy\":{{\"respond\":{{\"body\":{body}}}}}}}"
    );
    let originals = back(json.into_bytes(), "json");
    for (target, ending) in [(Written::Yaml, "yaml"), (Written::Json, "json"), (Written::Binary, "binpb")] {
        let again = back(convert(&originals, target), ending);
        assert_eq!(again, originals, "{}", String::from_utf8_lossy(&convert(&originals, target)));
    }
    let Definition::Api(api) = &originals[0] else { panic!("not an Api") };
    let schemas::v1::call::Target::Respond(respond) = api.proxy.as_ref().unwrap().target.as_ref().unwrap() else { panic!("not a respond") };
    let Some(schemas::v1::body::Written::Json(json)) = &respond.body.as_ref().unwrap().written else { panic!("not JSON") };
    assert!(json.text.contains("\"numbers\":[123456789012345678901234567890,0.1000,1e400,-0,1.0]"), "{}", json.text);
}

#[test]
fn a_fault_in_a_binary_file_is_told_by_its_way() {
    let mut definitions = back(
        b"kind: Api\ninfo: {name: overview, version: v1}\ninbound: {match: /}\nproxy: {http: {upstream: a}, timeout: 2s}\n".to_vec(),
        "yaml",
    );
    if let Definition::Api(api) = &mut definitions[0] {
        api.proxy.as_mut().unwrap().timeout = Some("2".to_owned());
    }
    let loaded = load(vec![Input::new("f.binpb", convert(&definitions, Written::Binary))], &Options::default());
    assert_eq!(loaded.faults.len(), 1);
    assert_eq!(&*loaded.faults[0].file, "f.binpb#Api/overview/proxy/timeout");
    assert_eq!(loaded.faults[0].code, "bad-unit");
    assert_eq!(loaded.broken[0].name.as_deref(), Some("overview"));
    let broken = load(vec![Input::new("f.binpb", vec![0xff, 0xff, 0xff])], &Options::default());
    assert_eq!(broken.faults[0].code, "syntax");
}

#[test]
fn a_difference_is_told_by_pointer_with_old_and_new() {
    let old = back(b"kind: Api\ninfo: {name: a}\ninbound: {match: /}\nplugins: [{x: {a: 1}}, {y: {}}]\nproxy: {http: {upstream: a}, timeout: 2s}\n---\nkind: Plan\nname: gone\n".to_vec(), "yaml");
    let new = back(b"kind: Api\ninfo: {name: a, owner: o}\ninbound: {match: /}\nplugins: [{new: {}}, {x: {a: 2}}, {y: {}}]\nproxy: {timeout: 3s, http: {upstream: a}}\n---\nkind: Plan\nname: new\n".to_vec(), "yaml");
    let told: String = diff(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        "~ Api a\n    + /info/owner: \"o\"\n    + /plugins/0: {\"new\":{}}\n    ~ /plugins/1/x/a: 1 → 2\n    ~ /proxy/timeout: \"2s\" → \"3s\"\n- Plan gone\n+ Plan new\n"
    );
}

#[test]
fn a_secret_in_plain_sight_is_never_shown_but_its_change_is() {
    let app = |key: &str| {
        let text = format!("kind: App\nname: a\ncredentials:\n  - {{app_key: ak, secret: {key}}}\n  - {{api_key: {{env: KEY}}}}\n");
        let loaded = load(vec![Input::new("a.yaml", text)], &Options::default());
        loaded.documents.into_iter().map(|document| document.message).collect::<Vec<_>>()
    };
    let (old, new) = (app("hunter2"), app("hunter3"));
    let told: String = diff(&old, &new).iter().map(ToString::to_string).collect();
    assert!(told.starts_with("~ App a\n    ~ /credentials/0/secret: \"***") && !told.contains("hunter"), "{told}");
    assert_eq!(diff(&old, &app("hunter2")), []);
    let shown = old[0].shown().to_json();
    assert!(!shown.contains("hunter2") && shown.contains("KEY") && shown.contains("ak"), "{shown}");
    let api = back(
        b"kind: Api\ninfo: {name: a}\ninbound: {match: /}\nplugins: [{jwt: {secret: hunter2, audience: x}}]\nproxy: {respond: {}}\n"
            .to_vec(),
        "yaml",
    );
    let shown = api[0].shown().to_json();
    assert!(!shown.contains("hunter2") && shown.contains(r#""audience":"x""#), "{shown}");
}

#[test]
fn a_line_of_a_fault_does_not_show_a_secret_that_stands_in_it() {
    let text = "kind: App\nname: a\ncredentials: [{api_key: hunter2, bogus: 1}]\n";
    let loaded = load(vec![Input::new("a.yaml", text)], &Options::default());
    assert!(loaded.faults.len() > 1, "{:#?}", loaded.faults);
    let told = schemas::render::text(&loaded.faults, false);
    assert!(!told.contains("hunter2") && told.contains("[{api_key: *******, bogus: 1}]"), "{told}");
}
