//! What expressions are worth.

use super::*;

#[test]
fn absent_is_null_and_null_spreads() {
    check(&[
        ("body.nope", "null"),
        ("body.nope.deeper[3].still", "null"),
        ("body.items[3]", "null"),
        ("body.items[-1]", "null"),
        ("body.items['0']", "null"),
        ("body.order.none", "null"),
        ("body.order.none.x", "null"),
        ("body.text.x", "null"),
        ("body.text[0]", "null"),
        ("body[null]", "null"),
        ("headers['x-none']", "null"),
        ("query.none", "null"),
        ("params.missing", "null"),
        ("vars.a.b", "null"),
        ("[1, 2][5]", "null"),
        ("{'a': 1}.b", "null"),
        ("{'a': 1}['b']", "null"),
        ("null == null", "true"),
        ("null != null", "false"),
        ("body.nope == null", "true"),
        ("body.nope == 'a'", "false"),
        ("body.nope != 'a'", "true"),
        ("1 == null", "false"),
        ("'a' in null", "false"),
        ("null in null", "false"),
        ("'a' in body.nope", "false"),
        ("null in [1, null]", "true"),
        ("null in body.items", "false"),
        ("!null", "true"),
        ("!body.nope", "true"),
        ("null && true", "false"),
        ("true && null", "false"),
        ("null || true", "true"),
        ("null || null", "false"),
        ("null ? 1 : 2", "2"),
        ("body.nope ? 1 : 2", "2"),
        ("null + 1", "null"),
        ("'a' + body.nope", "null"),
        ("body.nope < 1", "null"),
        ("1 >= body.nope", "null"),
        ("-body.nope", "null"),
        ("body.nope * 2 / 3 % 4 - 5", "null"),
        ("size(body.nope)", "null"),
        ("body.nope.size()", "null"),
        ("body.nope.contains('a')", "null"),
        ("'abc'.contains(body.nope)", "null"),
        ("body.nope.matches('a')", "null"),
        ("string(body.nope)", "null"),
        ("int(null)", "null"),
        ("type(null)", "null"),
        ("max(1, body.nope)", "null"),
        ("min([1, null])", "null"),
        ("body.nope.all(x, true)", "null"),
        ("body.nope.exists(x, true)", "null"),
        ("body.nope.exists_one(x, true)", "null"),
        ("body.nope.map(x, x)", "null"),
        ("body.nope.filter(x, true)", "null"),
        ("body.items.filter(i, i.price > 1).size()", "2"),
        ("has(body.nope)", "false"),
        ("has(body.nope.deeper)", "false"),
        ("has(body.order.none)", "true"),
        ("has(body.order.id)", "true"),
        ("has(headers['x-channel'])", "true"),
        ("has(headers.nope)", "false"),
        ("has(response.body)", "true"),
        ("has(body.items[1])", "true"),
        ("has(body.items[9])", "false"),
    ]);
}

#[test]
fn a_condition_passes_only_on_true() {
    let fixture = Fixture::new();
    let scope = fixture.scope();
    let passes = |source| Expression::condition(source, &everything()).unwrap().passes(&scope);
    assert_eq!(passes("headers['x-channel'] == 'app'"), Ok(true));
    assert_eq!(passes("body.nope"), Ok(false), "null");
    assert_eq!(passes("body.text"), Ok(false), "text is not true");
    assert_eq!(passes("body.order.n"), Ok(false), "neither is a number");
    assert_eq!(passes("body.yes"), Ok(true));
    assert_eq!(passes("body.nope < 3"), Ok(false));
    assert_eq!(passes("body.text + 1 == 2").unwrap_err().kind, EvalErrorKind::Type);
}

#[test]
fn operators_bind_as_in_cel() {
    check(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("10 - 3 - 2", "5"),
        ("20 / 2 / 5", "2"),
        ("7 % 4 * 2", "6"),
        ("-2 * -3", "6"),
        ("--2", "2"),
        ("!!true", "true"),
        ("!(-1 == 1) || false", "true"),
        ("1 < 2 == true", "true"),
        ("1 + 1 == 2 && 3 > 2", "true"),
        ("true || false && false", "true"),
        ("(true || false) && false", "false"),
        ("false ? 1 : true ? 2 : 3", "2"),
        ("true ? (false ? 1 : 2) : 3", "2"),
        ("1 in [1, 2] && 'a' in {'a': 1}", "true"),
        ("-[1, 2][1]", "-2"),
        ("-1 in [-1]", "true"),
        ("2 * 3 in [6]", "true"),
        ("[1, 2,][1] // a comment", "2"),
        ("// first\n 1", "1"),
        (".request.method", "\"GET\""),
    ]);
}

#[test]
fn literals_are_spelt_as_in_cel() {
    check(&[
        ("0x1F", "31"),
        ("-0x10", "-16"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551615u", "18446744073709551615"),
        ("0xFFu", "255"),
        ("1.5e3", "1500.0"),
        (".5", "0.5"),
        ("1e2", "100.0"),
        (r#"'\a\b\f\n\r\t\v\\\?\"\'\`'"#, r#""\u0007\b\f\n\r\t\u000b\\?\"'`""#),
        (r#"'\x41\X41\u0041\U0001F600\101'"#, "\"AAA😀A\""),
        (r#"r'\n' + R"\x""#, r#""\\n\\x""#),
        ("'''a'b''c\nd'''", "\"a'b''c\\nd\""),
        ("\"\"\"a\"b\"\"\"", "\"a\\\"b\""),
        ("''", "\"\""),
        ("b'abc'", "\"YWJj\""),
        (
            r#"b'\xff\377\u0041'"#,
            "does not compile: [CompileError { offset: 10, len: 2, message: \"an unknown escape in a string\", help: Some(\"a backslash itself is written '\\\\\\\\'; r'…' takes no escapes\") }]",
        ),
        (r#"size(b'\xff\377é')"#, "4"),
        ("br'\\x'", "\"XHg=\""),
        ("b\"\" == b''", "true"),
        ("[1, 'a', 2.5, true, null, [], {}]", "[1,\"a\",2.5,true,null,[],{}]"),
        ("{'a': 1, 2: 'b', true: [1], 3u: 0,}", "{\"a\":1,\"2\":\"b\",\"true\":[1],\"3\":0}"),
        ("{1: 'x'}[1]", "\"x\""),
        ("{1: 'x'}[1u]", "\"x\""),
        ("{'a': 1, 'a': 2}", "!RepeatedKey"),
        ("{1.5: 2}", "!Type"),
    ]);
}

#[test]
fn integers_never_wrap() {
    check(&[
        ("9223372036854775807 + 1", "!Overflow"),
        ("-9223372036854775808 - 1", "!Overflow"),
        ("9223372036854775807 * 2", "!Overflow"),
        ("-(-9223372036854775808)", "!Overflow"),
        ("-9223372036854775808 / -1", "!Overflow"),
        ("-9223372036854775808 % -1", "0"),
        ("0u - 1u", "!Overflow"),
        ("18446744073709551615u + 1u", "!Overflow"),
        ("body.big * body.big", "!Overflow"),
        ("1 / 0", "!DivisionByZero"),
        ("1 % 0", "!DivisionByZero"),
        ("1.0 / 0.0 > 1.0", "true"),
        ("0.0 / 0.0 == 0.0 / 0.0", "false"),
        ("0.0 / 0.0 < 1.0", "false"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("7.5 % 2", "!Type"),
        ("1 + 2u", "3"),
        ("2 - 3u", "-1"),
        ("1 + 1.5", "2.5"),
        ("body.order.price * 2", "21.0"),
        ("body.order.n * 2", "6"),
        ("body.order.id + 1", "1.2345678901234568e+22"),
    ]);
}

#[test]
fn numbers_compare_by_worth() {
    check(&[
        ("1 == 1u && 1u == 1.0 && 1 == 1.0", "true"),
        ("9223372036854775807 < 9223372036854775808u", "true"),
        ("9223372036854775807 == 9223372036854775807.0", "false"),
        ("9223372036854775807 < 9223372036854775808.0", "true"),
        ("-1 < 0u", "true"),
        ("1 < 1.5 && 2 > 1.5 && -1 > -1.5", "true"),
        ("18446744073709551615u < 1e30 && -1e30 < -9223372036854775808", "true"),
        ("body.order.id > 18446744073709551615u", "true"),
        ("body.order.id == body.order.id", "true"),
        ("body.order.id < 1e30", "true"),
        ("body.float == 100", "true"),
        ("body.order.price == 10.5", "true"),
        ("body.items[0].price == 5.0", "true"),
        ("100 in [body.float]", "true"),
        ("body.big == 18446744073709551615u", "true"),
        ("min(3, 1.5, 2u)", "1.5"),
        ("max([1, 5, 3])", "5"),
        ("min([])", "null"),
        ("max('a', 'b')", "\"b\""),
        ("max(1, body.text)", "!Type"),
    ]);
}

#[test]
fn kinds_that_do_not_fit_are_errors_or_unequal() {
    check(&[
        ("body.text == 1", "false"),
        ("body.items == {}", "false"),
        ("body.text + 1", "!Type"),
        ("body.text < 1", "!Type"),
        ("body.items < 1", "!Type"),
        ("-body.text", "!Type"),
        ("!body.text", "!Type"),
        ("body.text && true", "!Type"),
        ("body.text && false", "false"),
        ("true || body.text", "true"),
        ("body.text || true", "true"),
        ("body.text || false", "!Type"),
        ("body.text ? 1 : 2", "!Type"),
        ("1 in body.text", "!Type"),
        ("1 / 0 > 1 || true", "true"),
        ("true ? 1 : 1 / 0", "1"),
        ("body.yes.size()", "!Type"),
        ("body.order.n.contains('a')", "!Type"),
        ("body.text.map(x, x)", "!Type"),
        ("body.items.all(i, i.id)", "!Type"),
    ]);
}

#[test]
fn lists_and_maps_compare_by_content() {
    check(&[
        ("[1, 2.0] == [1.0, 2]", "true"),
        ("[1] == [1, 2]", "false"),
        ("{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", "true"),
        ("{'a': 1} == {'a': null}", "false"),
        ("{'a': null} == {'b': null}", "false"),
        ("{1: 'a'} == {1u: 'a'}", "true"),
        ("body.order.tags == ['a', 'bA']", "true"),
        ("body.items[0] == {'price': 5.0, 'id': 1}", "true"),
        ("body.items == body.items", "true"),
        ("body.order.empty == []", "true"),
        ("[] + [1] + body.order.tags", "[1,\"a\",\"b\\u0041\"]"),
        ("'bA' in body.order.tags", "true"),
        ("'price' in body.items[0]", "true"),
        ("'price' in body.items[2]", "false"),
        ("'none' in body.order", "true"),
        ("'X-Channel' in headers", "true"),
        ("'x-none' in headers", "false"),
        ("1 in headers", "false"),
        ("'id' in params", "true"),
    ]);
}

#[test]
fn macros_go_through_lists_and_keys() {
    check(&[
        ("body.items.all(i, i.id > 0)", "true"),
        ("body.items.all(i, i.price > 0)", "false"),
        ("body.items.exists(i, i.price > 20)", "true"),
        ("body.items.exists_one(i, i.id == 2)", "true"),
        ("body.items.exists_one(i, i.id > 1)", "false"),
        ("body.items.map(i, i.id)", "[1,2,3]"),
        ("body.items.map(i, i.price > 6, i.price)", "[20.5]"),
        ("body.items.map(i, i.price)", "[5,20.5,null]"),
        ("body.items.filter(i, has(i.price))", "[{\"id\": 1, \"price\": 5},{\"id\": 2, \"price\": 20.5}]"),
        ("body.items[0].map(k, k)", "[\"id\",\"price\"]"),
        ("{'a': 1, 'b': 2}.filter(k, k != 'a')", "[\"b\"]"),
        ("[1, 2].map(x, [3, 4].map(y, x * y))", "[[3,4],[6,8]]"),
        ("[1, 2].map(x, [x].map(x, x + 10))", "[[11],[12]]"),
        ("[].all(x, false)", "true"),
        ("[].exists(x, true)", "false"),
        ("[0, 1].exists(x, 1 / x == 1)", "true"),
        ("[0, 2].exists(x, 1 / x == 1)", "!DivisionByZero"),
        ("[0, 2].all(x, 1 / x == 1)", "false"),
        ("[1, 2].map(request, request)", "[1,2]"),
        ("headers.exists(h, h.startsWith('x-'))", "true"),
        ("size(query.filter(k, k == 'page'))", "1"),
        ("keys(body.items[1])", "[\"id\",\"price\"]"),
    ]);
}

#[test]
fn functions_do_what_their_names_say() {
    check(&[
        ("size('é😀a')", "3"),
        ("size(body.items)", "3"),
        ("body.order.size()", "6"),
        ("size(b'abc')", "3"),
        ("body.text.contains('fé')", "true"),
        ("'abc'.startsWith('ab') && 'abc'.endsWith('bc')", "true"),
        ("'abc'.matches('^a.c$')", "true"),
        ("matches('abc', 'b')", "true"),
        ("'abc'.matches('^b')", "false"),
        ("string(1) + string(2u) + string(1.5) + string(2.0) + string(true) + string('x') + string(b'y')", "\"121.52truexy\""),
        ("string(body.order.id)", "\"12345678901234567890123\""),
        ("string(body.order.price)", "\"10.50\""),
        ("string(b'\\xff')", "!Conversion"),
        ("string(body.items)", "!Type"),
        ("int('42') + int(1.9) + int(-1.9) + int(3u)", "45"),
        ("int('4x')", "!Conversion"),
        ("int(1e30)", "!Overflow"),
        ("int(body.order.id)", "!Overflow"),
        ("int(query.page) + 1", "3"),
        ("uint('42')", "42"),
        ("uint(-1)", "!Overflow"),
        ("double('1.5') + double(1)", "2.5"),
        ("bool('true') && !bool('false')", "true"),
        ("bool('yes')", "!Conversion"),
        ("bytes('é') == b'é'", "true"),
        ("type(1) == int && type('a') == string && type(body.order.price) == double && type(body.items) == list", "true"),
        ("type(body.order) == map && type(type(1)) == type && type(body.yes) == bool && type(1u) == uint && type(b'') == bytes", "true"),
        ("'AbÉ'.lowerAscii() + 'abé'.upperAscii()", "\"abÉABé\""),
        ("' a b\\n'.trim()", "\"a b\""),
        ("'a,b,,c'.split(',')", "[\"a\",\"b\",\"\",\"c\"]"),
        ("'a,b,c'.split(',', 2)", "[\"a\",\"b,c\"]"),
        ("'a,b'.split(',', 0)", "[]"),
        ("'aé'.split('')", "[\"a\",\"é\"]"),
        ("''.split(',')", "[\"\"]"),
        ("['a', 'b'].join('-') + ['c', 'd'].join()", "\"a-bcd\""),
        ("[1, 2.5, true].join(',')", "\"1,2.5,true\""),
        ("'aaa'.replace('a', 'b') + 'aaa'.replace('a', 'b', 2) + 'ab'.replace('', '-')", "\"bbbbba-a-b-\""),
        ("'héllo'.substring(1) + 'héllo'.substring(1, 3)", "\"élloél\""),
        ("'abc'.substring(3)", "\"\""),
        ("'abc'.substring(4)", "!Conversion"),
        ("'abc'.substring(2, 1)", "!Conversion"),
        ("'abc'.substring(-1)", "!Conversion"),
        ("'héllo'.charAt(1) + 'a'.charAt(1)", "\"é\""),
        ("'héllo'.indexOf('l')", "2"),
        ("'héllo'.indexOf('l', 3)", "3"),
        ("'héllo'.lastIndexOf('l')", "3"),
        ("'abc'.indexOf('z')", "-1"),
        ("dyn(1) == 1", "true"),
        ("secret('KEY')", "\"s3cret\""),
    ]);
}

#[test]
fn names_lead_to_the_exchange() {
    check(&[
        ("request.method", "\"GET\""),
        ("headers['X-Channel']", "\"app\""),
        ("headers[params.id == 7 ? 'X-User' : 'none']", "\"alice\""),
        ("body['order'].tags[1]", "\"b\\u0041\""),
        ("body.`order`.n", "3"),
        ("body.items[params.id - 6].id", "2"),
        ("body.items[1.0].id", "2"),
        ("body.order.id", "12345678901234567890123"),
        ("profile.account_id", "\"a1\""),
        ("tasks.profile.status", "200"),
        ("tasks.profile.headers['X-A']", "\"1\""),
        ("response.status == 429 || response.body.errcode == 45009", "true"),
        ("response.body.errcode", "45009"),
        ("response.headers['Retry-After']", "\"3\""),
        ("error == 'read_timeout'", "true"),
        ("'orders' in params.include", "true"),
        ("params.sum", "0.10000000000000000000000000001"),
        ("string(params.sum) + string(params.sum > 0.1)", "\"0.10000000000000000000000000001false\""),
    ]);
}

#[test]
fn work_and_memory_are_bounded() {
    let long = "x".repeat(60_000);
    let body = format!("{{\"list\":[{}0],\"text\":\"{}\"}}", "0,".repeat(60_000), "y".repeat(400_000));
    let body = JsonView::parse(body).unwrap();
    let scope = MapScope::new().with(Root::Body, &body);
    let table: &[(&str, EvalErrorKind)] = &[
        ("body.list.all(x, body.list.all(y, x == y))", EvalErrorKind::Budget),
        (
            "body.list.all(x, x in body.list || true || body.list.size() > 0) && body.list.map(x, body.list).size() > 0",
            EvalErrorKind::Budget,
        ),
        ("body.list.map(x, body.text)", EvalErrorKind::Budget),
        ("body.list.exists(x, body.text == body.text + 'z')", EvalErrorKind::Budget),
        ("body.list.exists(x, body.text.contains('z'))", EvalErrorKind::Budget),
        ("body.list.exists(x, body.text.matches('z$'))", EvalErrorKind::Budget),
        ("body.text + body.text + body.text", EvalErrorKind::TooLong),
        ("body.text.replace('y', 'yyyy')", EvalErrorKind::TooLong),
        ("body.text.split('')", EvalErrorKind::Budget),
        ("body.list.map(x, body.text.substring(1)).join('')", EvalErrorKind::Budget),
        (
            "[1].map(a, [a, a, a, a, a, a, a, a]).map(a, [a, a, a, a, a, a, a, a]).map(a, [a, a, a, a, a, a, a, a]).map(a, [a, a, a, a, a, a, a, a]).map(a, [a, a, a, a, a, a, a, a]).map(a, [a, a, a, a, a, a, a, a])",
            EvalErrorKind::Budget,
        ),
    ];
    for (source, kind) in table {
        let expression = Expression::compile(source, &Names::new(Place::Proxy)).unwrap_or_else(|faults| panic!("{source}: {faults:?}"));
        let begun = std::time::Instant::now();
        let error = expression.eval(&scope).expect_err(source);
        assert_eq!(error.kind, *kind, "{source}");
        assert!(begun.elapsed().as_millis() < 1500, "{source} took {:?}", begun.elapsed());
    }
    let fine = Expression::compile(&format!("'{long}' + '{}'", "z"), &Names::new(Place::Proxy)).unwrap();
    assert!(fine.eval(&scope).is_ok());
    let fine = Expression::compile("body.list.all(x, x == 0)", &Names::new(Place::Proxy)).unwrap();
    assert_eq!(
        fine.passes(&scope).map_err(|error| error.kind),
        Err(EvalErrorKind::Budget),
        "60 000 items of four nodes are above the limit"
    );
}

#[test]
fn errors_of_evaluation_have_a_place_and_tell_no_values() {
    let fixture = Fixture::new();
    let error = Expression::compile("true && body.text + 1 > 2", &everything()).unwrap().eval(&fixture.scope()).unwrap_err();
    assert_eq!((error.offset, error.len), (8, 13));
    assert_eq!(error.to_string(), "'+' does not take text and a number");
}

#[test]
fn owned_values_outlive_the_exchange() {
    let owned: Vec<Value<'static>> = {
        let fixture = Fixture::new();
        let scope = fixture.scope();
        ["body.items[1]", "[body.text, 1]", "{'a': body.order.id}", "request.method"]
            .map(|source| Expression::compile(source, &everything()).unwrap().eval(&scope).unwrap().into_owned())
            .into()
    };
    assert_eq!(owned[0].to_json(), &br#"{"id": 2, "price": 20.5}"#[..]);
    assert_eq!(owned[0].get("price").to_json(), &b"20.5"[..]);
    assert_eq!(owned[1].to_json(), "[\"caf\\u00e9\",1]".as_bytes());
    assert_eq!(owned[2].to_json(), &br#"{"a":12345678901234567890123}"#[..]);
    assert_eq!(owned[3].as_str().as_deref(), Some("GET"));
}
