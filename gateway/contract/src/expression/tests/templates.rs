//! Text with `${…}` in every place where it may stand.

use super::*;

/// Context, template, and the rendered text; `-` for nothing, `!Error` for an error.
#[track_caller]
fn render(table: &[(Context, &str, &str)]) {
    let fixture = Fixture::new();
    let scope = fixture.scope();
    let mut wrong = Vec::new();
    for (context, source, expected) in table {
        let found = match Template::compile(source, &everything(), *context) {
            Err(faults) => format!("does not compile: {faults:?}"),
            Ok(template) => match template.render(&scope) {
                Ok(Some(text)) => String::from_utf8_lossy(&text).into_owned(),
                Ok(None) => "-".to_owned(),
                Err(RenderError::Eval(error)) => format!("!{:?}", error.kind),
                Err(error) => format!("!{error:?}"),
            },
        };
        if found != *expected {
            wrong.push(format!("{context:?} {source}\n   expected {expected}\n   found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn braces_and_quotes_end_an_expression_where_cel_does() {
    use Context::Plain;
    render(&[
        (Plain, "", ""),
        (Plain, "plain", "plain"),
        (Plain, "$5 {a} }{ $", "$5 {a} }{ $"),
        (Plain, "a${params.id}b${params.id}", "a7b7"),
        (Plain, "${params.id}", "7"),
        (Plain, "${ params.id }", "7"),
        (Plain, "x${'}'}y", "x}y"),
        (Plain, "x${\"}\"}y", "x}y"),
        (Plain, r"x${'\'}'}y", "x'}y"),
        (Plain, r"x${r'\'}y", r"x\y"),
        (Plain, r"x${br'\' == b'\\'}y", "xtruey"),
        (Plain, r"x${'''a'}'b'''}y", "xa'}'by"),
        (Plain, "x${{'a': {'b': 1}}.a.b}y", "x1y"),
        (Plain, "x${{'a': '}'}.a}}", "x}}"),
        (Plain, "$${params.id}", "${params.id}"),
        (Plain, "a$${b}${params.id}$${", "a${b}7${"),
        (Plain, "$$${params.id}", "$${params.id}"),
        (Plain, "$", "$"),
        (Plain, "é${body.text}é", "écaféé"),
    ]);
    for (source, offset, len, message) in [
        ("a${", 1, 2, "not closed"),
        ("a${'}", 1, 2, "not closed"),
        ("a${{}", 1, 2, "not closed"),
        ("a${}", 1, 3, "empty"),
        ("a${ }b", 1, 4, "empty"),
        ("ab${1 +}", 7, 0, "ends where"),
        ("ab${params.id}${requst}", 16, 6, "no name 'requst'"),
    ] {
        let faults = Template::compile(source, &everything(), Plain).unwrap_err();
        assert_eq!((faults[0].offset, faults[0].len), (offset, len), "{source}: {faults:?}");
        assert!(faults[0].message.contains(message), "{source}: {faults:?}");
    }
    assert_eq!(Template::compile("${a}${b}", &everything(), Plain).unwrap_err().len(), 2, "every fault is told");
}

#[test]
fn a_path_takes_what_is_encoded_and_encodes_the_rest() {
    use Context::Path;
    render(&[
        (Path, "/orders/${params.id}", "/orders/7"),
        (Path, "/x${request.path}", "/x/a%20b/c"),
        (Path, "/x/${path.id}/${path.rest}", "/x/7%2F8/x/y"),
        (Path, "/x/${query.q}/y", "/x/a%20b%26c%3D%2F%3F%23%25%C3%A9/y"),
        (Path, "${request.path}", "/a%20b/c"),
        (Path, "${'a/b'}", "a%2Fb"),
        (Path, "/x/${body.nope}", "!NullInPath"),
        (Path, "${body.nope}", "!NullInPath"),
        (Path, "/x/${query.empty}", "!EmptyInPath"),
        (Path, "/x/${query.empty}/y", "!EmptyInPath"),
        (Path, "/x/${path.hole}/y", "!EmptyInPath"),
        (Path, "/x/a${query.empty}", "/x/a"),
        (Path, "/x/${query.empty}${params.id}", "/x/7"),
        (Path, "/x/${query.up}", "!DotSegment"),
        (Path, "/x/${query.up}/y", "!DotSegment"),
        (Path, "/x/${query.dot}${query.dot}", "!DotSegment"),
        (Path, "/x/${'../../etc'}", "!DotSegment"),
        (Path, "/x/${'%2e%2e'}", "/x/%252e%252e"),
        (Path, "/x?a=${query.q}&b=${body.nope}", "/x?a=a%20b%26c%3D%2F%3F%23%25%C3%A9&b="),
        (Path, "/x?p=${request.path}", "/x?p=%2Fa%2520b%2Fc"),
        (Path, "/x?p=${query.up}", "/x?p=.."),
        (Path, "/x/${body.order.id}", "/x/12345678901234567890123"),
        (Path, "/x/${body.order.tags}", "/x/%5B%22a%22%2C%20%22b%5Cu0041%22%5D"),
        (Path, "/x/${1 / 0}", "!DivisionByZero"),
        (Path, "/x/${'a\\x00b'}", "!NulInPath"),
        (Path, "${'a\\x00b'}", "!NulInPath"),
        (Path, "/x?y=${'a\\x00b'}", "/x?y=a%00b"),
    ]);
    for (source, offset, message) in [
        ("/a b", 2, "' ' cannot stand"),
        ("/é", 1, "cannot stand"),
        ("/a%2", 2, "two hexadecimal"),
        ("/a#b", 2, "cannot stand"),
        ("/a/../b", 0, "dot segment"),
        ("/%2E%2e", 0, "dot segment"),
    ] {
        let faults = Template::compile(source, &everything(), Path).unwrap_err();
        assert!(faults[0].offset == offset && faults[0].message.contains(message), "{source}: {faults:?}");
    }
}

#[test]
fn dot_segments_are_seen_through_escapes() {
    for path in [
        "..",
        ".",
        "/..",
        "/a/./b",
        "/a/..",
        "/%2e%2E/a",
        "/a/.%2e",
        "/..%2fa",
        "/a%2F..%5Cb",
        "/a\\..\\b",
        "/%2e",
        "/a/..;x/b",
        "/.%2e%3Bx",
        "/.;",
    ] {
        assert!(has_dot_segment(path.as_bytes()), "{path}");
    }
    for path in ["", "/", "/;..", "/a;..", "/a..;b", "/...", "/a..b/.c/d.", "/a?../x", "/%2", "/..a", "/%252e%252e", "//"] {
        assert!(!has_dot_segment(path.as_bytes()), "{path}");
    }
}

#[test]
fn every_place_escapes_hostile_values() {
    use Context::{Cookie, Form, Header, JsonText, Plain, Query};
    render(&[
        (Query, "${query.q}", "a%20b%26c%3D%2F%3F%23%25%C3%A9"),
        (Query, "a b&${query.q}", "a%20b%26a%20b%26c%3D%2F%3F%23%25%C3%A9"),
        (Query, "a b", "a%20b"),
        (Query, "${body.nope}", "-"),
        (Query, "a${body.nope}b", "ab"),
        (Query, "${query.crlf}", "a%0D%0ASet-Cookie%3A%20x%3D1"),
        (Form, "${query.q}", "a+b%26c%3D%2F%3F%23%25%C3%A9"),
        (Form, "1 + 1", "1+%2B+1"),
        (Form, "${body.nope}", "-"),
        (Header, "v ${request.method}", "v GET"),
        (Header, "${query.crlf}", "!ControlInHeader"),
        (Header, "a${query.crlf}b", "!ControlInHeader"),
        (Header, "${'a\\u0000b'}", "!ControlInHeader"),
        (Header, "${'a\\tb'}", "a\tb"),
        (Header, "${body.text}", "café"),
        (Header, "${body.nope}", "-"),
        (Header, "key ${secret('KEY')}", "key s3cret"),
        (Cookie, "${query.q}", "a%20b&c=/?#%%C3%A9"),
        (Cookie, "${'a;b,c\"d\\\\e'}", "a%3Bb%2Cc%22d%5Ce"),
        (Cookie, "${query.crlf}", "a%0D%0ASet-Cookie:%20x=1"),
        (Cookie, "${body.nope}", "-"),
        (Cookie, "a b", "a%20b"),
        (JsonText, "a\"${query.crlf}\"", "a\\\"a\\r\\nSet-Cookie: x=1\\\""),
        (JsonText, "${'\"}, {'}x", "\\\"}, {x"),
        (JsonText, "x${body.nope}", "x"),
        (Plain, "${query.crlf}", "a\r\nSet-Cookie: x=1"),
        (Plain, "${params.ratio} ${1.0} ${params.include} ${body.order.price} ${true}", "0.5 1 [\"orders\",\"a b\"] 10.50 true"),
    ]);
    let faults = Template::compile("a\nb", &everything(), Header).unwrap_err();
    assert_eq!((faults[0].offset, faults[0].len), (1, 1));
}

#[test]
fn a_list_repeats_the_name() {
    let fixture = Fixture::new();
    let scope = fixture.scope();
    let each = |source: &str| {
        let mut all = Vec::new();
        let template = Template::compile(source, &everything(), Context::Query).unwrap();
        template.render_each(&scope, |text| all.push(String::from_utf8(text.to_vec()).unwrap())).unwrap();
        all
    };
    assert_eq!(each("${params.include}"), ["orders", "a%20b"]);
    assert_eq!(each("${body.order.tags}"), ["a", "bA"]);
    assert_eq!(each("${[1, null, 2]}"), ["1", "2"]);
    assert_eq!(each("${body.order.empty}"), [""; 0]);
    assert_eq!(each("${body.nope}"), [""; 0]);
    assert_eq!(each("x${params.id}"), ["x7"]);
    assert_eq!(each("a b"), ["a%20b"]);
}

#[test]
fn redirects_stay_where_their_definition_says() {
    use Context::RedirectTarget;
    render(&[
        (RedirectTarget, "https://www.example.com${request.path}", "https://www.example.com/a%20b/c"),
        (RedirectTarget, "https://www.example.com/x?next=${query.q}", "https://www.example.com/x?next=a%20b%26c%3D%2F%3F%23%25%C3%A9"),
        (RedirectTarget, "/login/${query.q}", "/login/a%20b%26c%3D%2F%3F%23%25%C3%A9"),
        (RedirectTarget, "/${request.path}", "!Redirect"),
        (RedirectTarget, "https://www.example.com/new/${path.id}", "https://www.example.com/new/7%2F8"),
        (RedirectTarget, "/new/${path.id}/x", "/new/7%2F8/x"),
        (RedirectTarget, "${'https://a.example.com/x'}", "https://a.example.com/x"),
        (RedirectTarget, "${'https://a\\r\\nb'}", "!Redirect"),
        (RedirectTarget, "${query.none}", "-"),
    ]);
    for (source, chooses) in [
        ("https://www.example.com/a", false),
        ("https://www.example.com${request.path}", false),
        ("https://www.example.com${query.x}", true),
        ("https://www.example.com${path.rest}", true),
        ("https://${query.h}/a", true),
        ("https://www.${query.h}.com/a", true),
        ("https://www.example.com/${query.x}", false),
        ("https://www.example.com?x=${query.x}", false),
        ("${query.next}", true),
        ("${request.path}", false),
        ("/${query.x}", false),
        ("/a/${query.x}", false),
        ("//${query.x}", true),
        ("//www.example.com/${query.x}", false),
        ("https:${query.x}", true),
        ("a${query.x}", true),
    ] {
        assert_eq!(Template::compile(source, &everything(), RedirectTarget).unwrap().chooses_host(), chooses, "{source}");
    }
    for (target, host) in [
        ("/a", Some(None)),
        ("//evil.com", None),
        ("/\\evil.com", None),
        ("https://a.example.com/x", Some(Some("a.example.com"))),
        ("HTTPS://a.example.com", Some(Some("a.example.com"))),
        ("http://a.example.com:8080?x", Some(Some("a.example.com"))),
        ("http://[::1]:80/", Some(Some("[::1]"))),
        ("https://a.example.com@evil.com/", None),
        ("https://a.example.com\\@evil.com/", None),
        ("javascript:alert(1)", None),
        ("ftp://a", None),
        ("https:///a", None),
        ("https://a:b/", None),
        ("a", None),
    ] {
        assert_eq!(redirect_host(target), host, "{target}");
    }
}

#[test]
fn constant_templates_cost_nothing() {
    let template = Template::compile("a $${b} c", &everything(), Context::Header).unwrap();
    let scope = MapScope::new();
    assert_eq!(template.constant().unwrap(), "a ${b} c");
    assert_eq!(template.render(&scope).unwrap().unwrap().as_ptr(), template.constant().unwrap().as_ptr());
    assert_eq!(template.expressions().count(), 0);
}

#[test]
fn a_header_with_a_secret_is_marked() {
    let fixture = Fixture::new();
    let header = |source| Template::compile(source, &everything(), Context::Header).unwrap().header(&fixture.scope()).unwrap().unwrap();
    assert!(header("Bearer ${secret('KEY')}").is_sensitive());
    assert!(!header("x").is_sensitive());
}

#[test]
fn json_templates_keep_kinds_and_bytes() {
    let fixture = Fixture::new();
    let scope = fixture.scope();
    let table = [
        (r#"{"id":"${params.id}","n":12345678901234567890.10}"#, r#"{"id":7,"n":12345678901234567890.10}"#),
        (r#"{"order":"${body.order.id}","tags":"${body.order.tags}"}"#, r#"{"order":12345678901234567890123,"tags":["a", "b\u0041"]}"#),
        (r#"{ "a" : [ "${body.nope}" , "x${body.nope}y" ] }"#, r#"{"a":[null,"xy"]}"#),
        (r#"["q=${query.crlf}\"","\u0024{params.id}"]"#, r#"["q=a\r\nSet-Cookie: x=1\"",7]"#),
        (r#"{"a":"$${x}","b":"\u00e9","c":{},"d":[]}"#, r#"{"a":"${x}","b":"\u00e9","c":{},"d":[]}"#),
        (r#""${profile}""#, r#"{"account_id":"a1"}"#),
        (r#"{"sum":"${1 + 1.5}","b":"${b'a'}","t":"${body.text}"}"#, r#"{"sum":2.5,"b":"YQ==","t":"caf\u00e9"}"#),
    ];
    for (source, expected) in table {
        let template = JsonTemplate::parse(source, &everything()).unwrap().unwrap_or_else(|faults| panic!("{source}: {faults:?}"));
        let bytes = template.render(&scope).unwrap();
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), expected);
        JsonView::parse(bytes).unwrap();
    }
    let whole = JsonTemplate::parse(r#""${body.order}""#, &everything()).unwrap().unwrap().render(&scope).unwrap();
    assert!(fixture.body.bytes().as_ptr_range().contains(&whole.as_ptr()), "shared, not copied");
    let constant = JsonTemplate::of(&serde_json::json!({"a": [1, "x"]}), &everything()).unwrap();
    assert_eq!(constant.constant().unwrap(), r#"{"a":[1,"x"]}"#);
    let faults = JsonTemplate::parse(r#"{"a/b":["${requst.id}","${1 +}"],"${x}":1}"#, &everything()).unwrap().unwrap_err();
    let told: Vec<_> = faults.iter().map(|fault| (fault.pointer.as_str(), fault.error.offset)).collect();
    assert_eq!(told, [("/a~1b/0", 2), ("/a~1b/1", 5), ("/${x}", 0)]);
}
