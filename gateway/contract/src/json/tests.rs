//! Documents of every kind go in, are read and edited, and come out.

use super::*;

mod generate;

use generate::Random;

type Change = fn(&mut JsonEdits<'_>);

fn view(text: &str) -> JsonView {
    JsonView::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn edited(text: &str, change: impl FnOnce(&mut JsonEdits<'_>)) -> String {
    let view = view(text);
    let mut edits = view.edits();
    change(&mut edits);
    let bytes = edits.to_bytes();
    JsonView::parse(bytes.clone()).unwrap_or_else(|error| panic!("{bytes:?}: {error}"));
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn what_breaks_the_grammar_is_refused_at_its_byte() {
    use JsonErrorKind::{Depth, Repeat, Syntax, Utf8};
    let deep = "[".repeat(65);
    let table: &[(&[u8], JsonErrorKind, usize, &str)] = &[
        (b"", Syntax, 0, "empty"),
        (b"  ", Syntax, 2, "empty"),
        (b"\xef\xbb\xbf{}", Syntax, 0, "byte order mark"),
        (b"nul", Syntax, 0, "expected a value"),
        (b"truex", Syntax, 4, "nothing may follow"),
        (b"[1,]", Syntax, 3, "expected a value"),
        (b"[,1]", Syntax, 1, "expected a value"),
        (b"[1 2]", Syntax, 3, "',' or ']'"),
        (b"[1", Syntax, 2, "ends too early"),
        (b"{\"a\":1,}", Syntax, 7, "expected a key after ','"),
        (b"{a:1}", Syntax, 1, "expected a key"),
        (b"{\"a\" 1}", Syntax, 5, "expected ':'"),
        (b"{\"a\":1 \"b\":2}", Syntax, 7, "',' or '}'"),
        (b"{\"a\"", Syntax, 4, "ends too early"),
        (b"{} {}", Syntax, 3, "nothing may follow"),
        (b"'a'", Syntax, 0, "double quotes"),
        (b"01", Syntax, 1, "begin with 0"),
        (b"-", Syntax, 1, "ends too early"),
        (b"-a", Syntax, 1, "expected a digit"),
        (b"1.", Syntax, 2, "ends too early"),
        (b"1.e3", Syntax, 2, "expected a digit"),
        (b"+1", Syntax, 0, "expected a value"),
        (b".5", Syntax, 0, "expected a value"),
        (b"1e+", Syntax, 3, "ends too early"),
        (b"NaN", Syntax, 0, "expected a value"),
        (b"\"a", Syntax, 0, "does not end"),
        (b"\"abcdefgh\nxyz\"", Syntax, 9, "control character"),
        (b"\"\\x41\"", Syntax, 1, "unknown escape"),
        (b"\"\\u12g4\"", Syntax, 1, "four hexadecimal"),
        (b"\"\\", Syntax, 1, "unknown escape"),
        (b"[\"\xff\"]", Utf8, 2, "UTF-8"),
        (b"\"\xed\xa0\x80\"", Utf8, 1, "UTF-8"),
        (b"// c\n1", Syntax, 0, "expected a value"),
        (deep.as_bytes(), Depth, 64, "deeper than 64"),
    ];
    for (text, kind, offset, message) in table {
        let error = JsonView::parse(text.to_vec()).expect_err(&String::from_utf8_lossy(text));
        assert_eq!((error.kind, error.offset), (*kind, *offset), "{}: {error}", String::from_utf8_lossy(text));
        assert!(error.message().contains(message), "{}: {error}", String::from_utf8_lossy(text));
    }
    let refuse = JsonOptions { repeats: Repeats::Refuse, ..JsonOptions::default() };
    let error = JsonView::parse_with(&br#"{"a":1,"b":{"x":1,"\u0078":2}}"#[..], &refuse).unwrap_err();
    assert_eq!((error.kind, error.offset), (Repeat, 18), "{error}");
}

#[test]
fn limits_are_the_callers() {
    let options = JsonOptions { max_depth: 2, max_size: 10, repeats: Repeats::LastWins };
    assert!(JsonView::parse_with(&b"[[1,2,3]]"[..], &options).is_ok());
    assert_eq!(JsonView::parse_with(&b"[[[]]]"[..], &options).unwrap_err().kind, JsonErrorKind::Depth);
    assert_eq!(JsonView::parse_with(&b"[1,2,3,4,5]"[..], &options).unwrap_err().kind, JsonErrorKind::Size);
}

#[test]
fn errors_have_a_line_and_a_column() {
    let text = "{\n  \"ä\": x}".as_bytes();
    let error = JsonView::parse(text).unwrap_err();
    assert_eq!(error.line_column(text), (2, 8));
}

#[test]
fn values_are_read_where_they_stand() {
    let bytes = Bytes::from_static(
        br#" {"n": 12345678901234567890123456789012345678901234567890, "s": "a\u00e9\ud83d\ude00\n\"\/", "half": "\ud800x", "l": [1, -2, 3.5e2, {"k": null}], "t": true, "e": {}, "\u0065\u0073c": 1} "#,
    );
    let view = JsonView::parse(bytes.clone()).unwrap();
    let at = |key| view.root().get(key).unwrap();
    assert_eq!(at("n").as_number(), Some("12345678901234567890123456789012345678901234567890"));
    assert_eq!(at("n").as_i64(), None);
    assert_eq!(at("s").as_str().unwrap(), "aé😀\n\"/");
    assert_eq!(at("half").as_str().unwrap(), "\u{fffd}x");
    assert_eq!(at("esc").as_u64(), Some(1), "keys are compared decoded");
    assert_eq!(view.get(&["l".into(), 1.into()]).unwrap().as_i64(), Some(-2));
    assert_eq!(view.get(&["l".into(), 2.into()]).unwrap().as_f64(), Some(350.0));
    assert!(view.get(&["l".into(), 3.into(), "k".into()]).unwrap().is_null());
    for missing in
        [&["x".into()][..], &["l".into(), 4.into()], &["n".into(), "x".into()], &["l".into(), "k".into()], &["e".into(), 0.into()]]
    {
        assert!(view.get(missing).is_none(), "{missing:?}");
    }
    assert_eq!((at("l").len(), at("e").len(), at("e").kind(), view.root().len()), (4, 0, Kind::Object, 7));
    let raw = at("l").raw_bytes();
    assert_eq!(raw, &b"[1, -2, 3.5e2, {\"k\": null}]"[..]);
    assert!(bytes.as_ptr_range().contains(&raw.as_ptr()), "the bytes are shared, not copied");
    assert_eq!(view.to_bytes().as_ptr(), bytes.as_ptr(), "the very received bytes");
}

#[test]
fn of_repeated_keys_the_last_is_seen_and_the_repeat_is_remembered() {
    let many: Vec<String> = (0..40).map(|number| format!("\"k{number}\":{number}")).collect();
    let large = format!("{{\"k7\":\"old\",{}}}", many.join(","));
    for (text, key, value, count) in
        [(r#"{"a":1,"b":2,"a":3}"#, "a", "3", 2), (r#"{"a":1,"\u0061":{"x":[]}}"#, "a", r#"{"x":[]}"#, 1), (&large, "k7", "7", 40)]
    {
        let view = view(text);
        assert!(view.has_repeats());
        assert_eq!(view.root().get(key).unwrap().raw_str(), value);
        assert_eq!((view.root().len(), view.root().members().count()), (count, count));
        assert_eq!(view.to_bytes(), text.as_bytes(), "what nothing edits keeps its bytes");
    }
    assert!(!view(r#"{"a":{"a":1},"b":[{"a":1},{"a":1}]}"#).has_repeats());
}

#[test]
fn edits_leave_everything_else_as_it_was() {
    let text = "{ \"a\" : 1.0e0 ,\n \"b\": [ 1 , 2 , 3 ], \"c\":{\"d\":\"\\u0041\"} }";
    let table: &[(Change, &str)] = &[
        (|_| {}, text),
        (|edits| edits.set(&["a".into()], "true").unwrap(), "{ \"a\" : true ,\n \"b\": [ 1 , 2 , 3 ], \"c\":{\"d\":\"\\u0041\"} }"),
        (|edits| edits.remove(&["a".into()]).unwrap(), "{\n \"b\": [ 1 , 2 , 3 ], \"c\":{\"d\":\"\\u0041\"} }"),
        (|edits| edits.remove(&["c".into()]).unwrap(), "{ \"a\" : 1.0e0 ,\n \"b\": [ 1 , 2 , 3 ]}"),
        (|edits| edits.remove(&["b".into(), 1.into()]).unwrap(), "{ \"a\" : 1.0e0 ,\n \"b\": [ 1 , 3 ], \"c\":{\"d\":\"\\u0041\"} }"),
        (
            |edits| (0..3).for_each(|at| edits.remove(&["b".into(), at.into()]).unwrap()),
            "{ \"a\" : 1.0e0 ,\n \"b\": [], \"c\":{\"d\":\"\\u0041\"} }",
        ),
        (
            |edits| edits.set(&["c".into(), "new\"".into()], " [0] ").unwrap(),
            "{ \"a\" : 1.0e0 ,\n \"b\": [ 1 , 2 , 3 ], \"c\":{\"d\":\"\\u0041\",\"new\\\"\":[0]} }",
        ),
        (
            |edits| edits.set(&["b".into(), 3.into()], "4").unwrap(),
            "{ \"a\" : 1.0e0 ,\n \"b\": [ 1 , 2 , 3 ,4], \"c\":{\"d\":\"\\u0041\"} }",
        ),
        (|edits| edits.insert(&["b".into()], 1, "9").unwrap(), "{ \"a\" : 1.0e0 ,\n \"b\": [ 1 ,9, 2 , 3 ], \"c\":{\"d\":\"\\u0041\"} }"),
        (|edits| edits.insert(&["b".into()], 99, "9").unwrap(), "{ \"a\" : 1.0e0 ,\n \"b\": [ 1 , 2 , 3 ,9], \"c\":{\"d\":\"\\u0041\"} }"),
        (
            |edits| {
                edits.remove(&["b".into(), 2.into()]).unwrap();
                edits.insert(&["b".into()], 2, "9").unwrap();
                edits.set(&["c".into(), "d".into()], "0").unwrap();
                edits.set(&["c".into()], "{}").unwrap();
            },
            "{ \"a\" : 1.0e0 ,\n \"b\": [ 1 , 2 ,9], \"c\":{} }",
        ),
        (|edits| edits.set(&[], "7").unwrap(), "7"),
        (|edits| edits.remove(&["x".into(), "y".into()]).unwrap(), text),
    ];
    for (change, expected) in table {
        assert_eq!(edited(text, change), *expected);
    }
    assert_eq!(edited("{}", |edits| edits.set(&["a".into()], "1").unwrap()), "{\"a\":1}");
    assert_eq!(edited("[ ]", |edits| edits.insert(&[], 0, "1").unwrap()), "[1]");
}

#[test]
fn edits_that_cannot_be_are_refused() {
    let view = view(r#"{"a":[1],"s":"x"}"#);
    let mut edits = view.edits();
    assert_eq!(edits.set(&["x".into(), "y".into()], "1"), Err(EditError::NoSuchPlace));
    assert_eq!(edits.set(&["a".into(), 2.into()], "1"), Err(EditError::NoSuchPlace));
    assert_eq!(edits.set(&["s".into(), "y".into()], "1"), Err(EditError::NoSuchPlace));
    assert_eq!(edits.remove(&[]), Err(EditError::Root));
    assert!(matches!(edits.set(&["a".into()], "{"), Err(EditError::Value(_))));
    assert!(matches!(edits.set(&["a".into()], "1,2"), Err(EditError::Value(_))));
    assert!(edits.is_empty());
}

#[test]
fn an_edit_removes_hidden_repeats_too() {
    let removed = edited(r#"{"phone":1,"x":{"y":1,"y":2},"phone":2}"#, |edits| edits.remove(&["phone".into()]).unwrap());
    assert_eq!(removed, r#"{"x":{"y":2}}"#);
    let view = view(r#"{"a":{"phone":1},"a":2}"#);
    let mut edits = view.edits();
    edits.drop_repeats();
    assert_eq!(edits.to_bytes(), &br#"{"a":2}"#[..]);
}

#[test]
fn written_strings_read_back() {
    let mut random = Random(7);
    for text in (0..2000).map(|_| random.text()).chain(["\u{0}\u{1f}\u{7f}\"\\/\u{2028}".to_owned()]) {
        let mut out = Vec::new();
        push_string(&text, &mut out);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        assert_eq!(JsonView::parse(out).unwrap().root().as_str().unwrap(), text);
    }
}

#[test]
fn generated_documents_are_read_as_they_were_written() {
    for seed in 1..1500 {
        let mut random = Random(seed);
        let model = random.model(5);
        let mut text = String::new();
        random.write(&model, &mut text);
        let view = view(&text);
        model.check(view.root());
        assert_eq!(view.to_bytes(), text.as_bytes());
        assert!(!view.has_repeats());
    }
}

#[test]
fn generated_edits_change_what_they_name_and_nothing_else() {
    for seed in 1..3000 {
        let mut random = Random(seed);
        let mut model = random.model(4);
        let mut text = String::new();
        random.write(&model, &mut text);
        let view = view(&text);
        let mut edits = view.edits();
        random.edit(&mut model, view.root(), &mut edits);
        let edited = edits.apply().unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
        model.check(edited.root());
    }
}

#[test]
fn broken_documents_are_refused_exactly_where_another_parser_refuses_them() {
    for seed in 1..6000 {
        let mut random = Random(seed);
        let model = random.model(3);
        let mut text = String::new();
        random.write(&model, &mut text);
        let mut bytes = text.into_bytes();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match random.below(3) {
                0 if !bytes.is_empty() => drop(bytes.remove(at)),
                1 => bytes.insert(at, b"{}[],:\"\\0-1e.u \x00\xc3tfn"[random.below(20)]),
                _ if !bytes.is_empty() => bytes[at] = random.below(256) as u8,
                _ => {}
            }
        }
        let ours = JsonView::parse(bytes.clone());
        let theirs = std::str::from_utf8(&bytes).is_ok() && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
        assert_eq!(ours.is_ok(), theirs, "{:?}: {ours:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn generated_documents_pass_a_mapping_byte_for_byte() {
    use crate::expression::{JsonTemplate, MapScope, Names, Place, Root};
    let template = JsonTemplate::of(&serde_json::json!({"whole": "${body}", "list": [1, "${body}"]}), &Names::new(Place::Proxy)).unwrap();
    let member = JsonTemplate::of(&serde_json::json!("${body.k[0].v}"), &Names::new(Place::Proxy)).unwrap();
    for seed in 1..1500 {
        let mut random = Random(seed);
        let mut text = String::new();
        let model = random.model(4);
        random.write(&model, &mut text);
        let document = view(&text);
        let raw = document.root().raw_str();
        let rendered = template.render(&MapScope::new().with(Root::Body, &document)).unwrap();
        assert_eq!(rendered, format!("{{\"whole\":{raw},\"list\":[1,{raw}]}}"), "seed {seed}");
        let within = view(&format!("{{ \"k\" : [ {{\"v\":\t{raw} }} ] }}"));
        assert_eq!(member.render(&MapScope::new().with(Root::Body, &within)).unwrap(), raw, "seed {seed}");
    }
}

#[test]
fn what_a_pattern_names_in_generated_documents_is_all_that_an_edit_of_it_changes() {
    use pattern::{Pattern, Patterns};
    let patterns = Patterns::new(&[Pattern::parse("**.mark").unwrap()]).unwrap();
    for seed in 1..1500 {
        let mut random = Random(seed);
        let parts: Vec<String> = (0..3)
            .map(|_| {
                let mut text = String::new();
                let model = random.model(3);
                random.write(&model, &mut text);
                text
            })
            .collect();
        let document = |mark: &str| {
            format!("[{}, {{\"mark\":{mark}, \"deep\": [[{{\"m\\u0061rk\" : {mark}}}], {}]}}, {}]", parts[0], parts[1], parts[2])
        };
        let text = document("\"13812345678\"");
        let view = view(&text);
        let mut edits = view.edits();
        patterns.walk(view.root(), |_| true, &mut |_, value| {
            if value.raw() == b"\"13812345678\"" {
                edits.replace(value, "1234567890123456789012345678901234567890").unwrap();
            }
        });
        assert_eq!(edits.to_bytes(), document("1234567890123456789012345678901234567890"), "seed {seed}");
    }
}
