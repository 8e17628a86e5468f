//! What is refused when a definition is loaded, and where the fault is shown.

use super::*;

/// Source, offset, length, a part of the message, a part of the help (empty for any).
type Row = (&'static str, usize, usize, &'static str, &'static str);

#[track_caller]
fn refuse(names: &Names<'_>, table: &[Row]) {
    let mut wrong = Vec::new();
    for (source, offset, len, message, help) in table {
        match Expression::compile(source, names) {
            Ok(_) => wrong.push(format!("{source}: compiles")),
            Err(faults) => {
                let fault = &faults[0];
                let fits = (fault.offset, fault.len) == (*offset, *len)
                    && fault.message.contains(message)
                    && fault.help.as_deref().unwrap_or_default().contains(help);
                if !fits {
                    wrong.push(format!("{source}: {fault:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn faults_of_grammar_have_a_place() {
    refuse(
        &everything(),
        &[
            ("", 0, 0, "empty", ""),
            ("  ", 0, 2, "empty", ""),
            ("1 +", 3, 0, "ends where a value", ""),
            ("1 + + 2", 4, 1, "expected a value, found '+'", ""),
            ("(1", 2, 0, "')'", ""),
            ("[1, 2", 5, 0, "']'", ""),
            ("{'a' 1}", 5, 1, "':' after a map's key", ""),
            ("{'a': 1", 7, 0, "'}'", ""),
            ("true ? 1", 8, 0, "':' of the conditional", ""),
            ("1 2", 2, 1, "an operator or the end", ""),
            ("params.id = 2", 10, 1, "'=' has no meaning", "'=='"),
            ("true & false", 5, 1, "'&'", "'&&'"),
            ("true | false", 5, 1, "'|'", "'||'"),
            ("true and false", 5, 3, "found 'and'", "'&&'"),
            ("true or false", 5, 2, "found 'or'", "'||'"),
            ("params.", 7, 0, "a name after '.'", ""),
            ("body.items.0", 10, 2, "an operator", ""),
            ("'abc", 0, 4, "does not end", ""),
            ("'ab\ncd'", 0, 3, "on its line", "triple"),
            (r"'\d'", 1, 2, "unknown escape", "r'"),
            (r"'\x4'", 1, 2, "digits are missing", ""),
            (r"'\ud800'", 1, 6, "no Unicode character", ""),
            ("12abc", 0, 5, "not a number", ""),
            ("0x", 0, 2, "'0x'", ""),
            ("9223372036854775808", 0, 19, "64 bits", "'u'"),
            ("-9223372036854775809", 0, 20, "64 bits", ""),
            ("99999999999999999999", 0, 20, "64 bits", ""),
            ("1e999", 0, 5, "too large", ""),
            ("for", 0, 3, "reserved word", ""),
            ("${body.id}", 0, 1, "'$'", "bare"),
            ("‘a’", 0, 3, "no meaning", "straight"),
            ("request{a: 1}", 7, 1, "", "messages"),
        ],
    );
}

#[test]
fn a_name_that_a_place_cannot_see_is_refused() {
    use Place::{Balance, InboundWhen, Outbound, Outcomes, Plugin, Proxy};
    let roots = [
        "request", "path", "query", "headers", "cookies", "node", "params", "body", "vars", "auth", "app", "plan", "profile", "response",
        "error",
    ];
    for (place, sees) in [(InboundWhen, 6), (Plugin, 12), (Balance, 12), (Proxy, 13), (Outcomes, 15), (Outbound, 15)] {
        for (number, root) in roots.iter().enumerate() {
            let names = Names::new(place).tasks(&["profile"], &[]);
            let compiled = Expression::compile(root, &names);
            assert_eq!(compiled.is_ok(), number < sees, "{place:?} and {root}: {compiled:?}");
        }
    }
    refuse(&Names::new(Place::InboundWhen), &[("true || params.id == 1", 8, 6, "inbound.when cannot see 'params'", "routing sees only")]);
    refuse(
        &Names::new(Place::Plugin).authenticated(false),
        &[("app.name", 0, 3, "cannot see 'app'", "authenticates"), ("response.status", 0, 8, "cannot see 'response'", "outcomes")],
    );
}

#[test]
fn unknown_names_come_with_the_near_ones() {
    let names = everything().captures(&["id"]);
    refuse(
        &names,
        &[
            ("requst.method", 0, 6, "no name 'requst'", "did you mean 'request'?"),
            ("request.methd", 8, 5, "request has no 'methd'", "'method'"),
            ("request.headers", 8, 7, "request has no 'headers'", "a name of its own"),
            ("request['nope']", 8, 6, "request has no 'nope'", "it has id, method"),
            ("params.idd", 7, 3, "params has no 'idd'", "'id'"),
            ("path.ids", 5, 3, "path has no 'ids'", "'id'"),
            ("node.region", 5, 6, "node has no", "id, zone"),
            ("auth.sub", 5, 3, "auth has no 'sub'", ""),
            ("response.code", 9, 4, "response has no", ""),
            ("qurey.page", 0, 5, "no name", "'query'"),
            ("profil.account_id", 0, 6, "no name", "'profile'"),
            ("parcels", 0, 7, "the task 'parcels' is not finished here", "earlier stages"),
            ("tasks.profile.state", 14, 5, "a task of 'tasks' has no 'state'", "'status'"),
            ("tasks.profle.status", 6, 6, "no task 'profle'", "'profile'"),
            ("tasks.parcels.status", 6, 7, "not finished", ""),
            ("tasks", 0, 5, "one by one", "tasks.LABEL"),
            ("body.items.all(i, j.id > 0)", 18, 1, "no name 'j'", ""),
            ("app == acme", 7, 4, "no name 'acme'", "in quotes"),
            ("headers.x-channel == 'app'", 0, 17, "read as a subtraction", "headers['x-channel']"),
            ("query.page.lenght()", 11, 6, "no function 'lenght'", "did you mean"),
            ("length(body)", 0, 6, "no function 'length'", "'size'"),
            ("body.text.startswith('a')", 10, 10, "no function", "'startsWith'"),
            ("foo(1)", 0, 3, "no function 'foo'", ""),
            ("contains('a', 'b')", 0, 8, "called on its value", ""),
            ("'a'.string()", 4, 6, "in brackets", ""),
            ("size(1, 2)", 0, 4, "takes 1 argument, found 2", "size(x)"),
            ("'a'.substring()", 4, 9, "takes 1 or 2 arguments, found 0", "value.substring(x)"),
            ("all(body, x, true)", 0, 3, "called on a list", ""),
            ("body.all(x)", 5, 3, "a variable and an expression", ""),
            ("body.all(x.y, true)", 9, 3, "a variable's name", ""),
            ("has(body)", 4, 4, "takes a member", ""),
            ("has()", 0, 3, "one member", ""),
        ],
    );
}

#[test]
fn what_can_never_be_is_refused() {
    refuse(
        &everything(),
        &[
            ("query.page == 1", 0, 15, "text is never equal to a number", "int(x)"),
            ("query.page > 1", 0, 14, "'>' does not take text and a number", "int(x)"),
            ("'a' + 1", 0, 7, "'+' does not take text and a number", ""),
            ("-'a'", 1, 3, "'-' takes a number", ""),
            ("!'a'", 1, 3, "'!' takes true or false", "compare it"),
            ("headers['a'] && true", 0, 12, "'&&' takes true or false, this is text", "compare it"),
            ("'a' in 'abc'", 0, 12, "not into text", ""),
            ("request.method.name", 15, 4, "text has no members", ""),
            ("request.method.size", 15, 4, "text has no members", "size()"),
            ("error.message", 6, 7, "error is text", ""),
            ("'a'[0]", 0, 3, "text has no items", ""),
            ("size(1)", 5, 1, "does not take a number", ""),
            ("'abc'.map(x, x)", 0, 5, "goes through a list or map", ""),
            ("'a'.matches(query.p)", 12, 7, "literal pattern only", ""),
            ("'a'.matches('(')", 12, 3, "no regular expression", ""),
            ("'a'.matches('(?=a)')", 12, 7, "no regular expression", "look-around"),
            ("'a'.matches('(a{1000}){1000}')", 12, 17, "too large", ""),
            ("secret(query.name)", 0, 6, "one literal name", ""),
        ],
    );
    refuse(&Names::new(Place::Plugin), &[("secret('KEY')", 0, 6, "may not be read here", "send")]);
    for (source, message) in [("headers['x']", "this is text"), ("1 + 1", "this is a number"), ("[true]", "this is a list")] {
        let faults = Expression::condition(source, &everything()).unwrap_err();
        assert!(faults[0].message.contains(message), "{source}: {faults:?}");
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let faults = Expression::compile("requst.id == 1 || params.idd == foo(qurey.x)", &everything()).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.offset).collect::<Vec<_>>(), [0, 25, 32, 36]);
}

#[test]
fn nesting_and_length_are_bounded() {
    let names = everything();
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::compile(&nested(60), &names).is_ok());
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for source in [
        nested(64),
        nested(30_000),
        lists(30_000),
        "!".repeat(30_000) + "true",
        "-".repeat(30_000) + "1",
        "!-".repeat(10_000) + "1",
        format!("1{}", " + 1".repeat(200)),
        format!("body{}", ".a".repeat(200)),
        "true ? 1 : ".repeat(70) + "1",
    ] {
        let faults = Expression::compile(&source, &names).unwrap_err();
        assert!(faults[0].message.contains("levels") || faults[0].message.contains("deeper"), "{:?}", faults[0]);
    }
    let fixture = Fixture::new();
    let chain = |depth: usize| (0..depth).fold("1".to_owned(), |inner, depth| format!("[1].map(v{depth}, {inner})"));
    for source in [
        nested(62),
        format!("1{}", " + 1".repeat(120)),
        chain(60),
        "!".repeat(120) + "true",
        "true ? 1 : ".repeat(60) + "1",
        "-(".repeat(30) + "1" + &")".repeat(30),
    ] {
        let expression = Expression::compile(&source, &names).unwrap_or_else(|faults| panic!("{source}: {faults:?}"));
        assert!(expression.eval(&fixture.scope()).is_ok(), "what compiles fits the stack: {source}");
    }
    assert!(Expression::compile(&"x".repeat(100_000), &names).unwrap_err()[0].message.contains("longer"));
    let wide = vec!["query.a == 'b'"; 3000].join(" || ");
    assert!(Expression::compile(&wide, &names).is_ok(), "a flat chain may be long");
}

#[test]
fn an_expression_knows_what_it_reads() {
    let names = everything();
    let compiled = |source| Expression::compile(source, &names).unwrap();
    let reads = compiled("body.id == params.id && app.name != null").reads();
    assert!(reads.body() && reads.reads(Root::Params) && reads.caller() && !reads.reads(Root::Query) && !reads.response_body());
    assert!(compiled("response.status > 1").reads().reads(Root::Response));
    assert!(!compiled("response.status > 1").reads().response_body());
    assert!(compiled("response.body.a").reads().response_body());
    assert!(compiled("response").reads().response_body());
    assert!(!compiled("response.headers['a']").reads().response_body());
    assert_eq!(compiled("profile.a + tasks.profile.status").tasks(), [0]);
    assert_eq!(compiled("secret('KEY') + secret('KEY')").secrets(), ["KEY".into()]);
    assert!(compiled("secret('KEY')").reads().secret());
    assert!(compiled("1 + 1").reads().nothing());
    for (source, path) in [
        ("body.a.b[0]", true),
        ("headers['x']", true),
        ("params.id", true),
        ("body", true),
        ("body[params.id]", false),
        ("1", false),
        ("string(body.a)", false),
    ] {
        assert_eq!(compiled(source).is_path(), path, "{source}");
    }
}

#[test]
fn no_text_makes_the_compiler_panic() {
    const PIECES: [&str; 44] = [
        "body",
        ".",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "'",
        "\"",
        "'''",
        "\\",
        "1",
        "0x",
        "1.5e",
        "u",
        "+",
        "-",
        "!",
        "&&",
        "||",
        "?",
        ":",
        "==",
        "in",
        " ",
        "\n",
        "//",
        "r'",
        "b\"",
        "has",
        "all",
        "map",
        "x",
        ",",
        "é",
        "😀",
        "\u{0}",
        "$",
        "${",
        "null",
        "true",
        "matches('a",
        "tasks.",
    ];
    let names = everything();
    let fixture = Fixture::new();
    let scope = fixture.scope();
    let mut state = 88172645463325252u64;
    for _ in 0..60_000 {
        let mut source = String::new();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let mut bits = state;
        for _ in 0..1 + state % 9 {
            source.push_str(PIECES[(bits % 44) as usize]);
            bits = bits.rotate_right(6);
        }
        match Expression::compile(&source, &names) {
            Ok(expression) => drop(expression.eval(&scope)),
            Err(faults) => {
                for fault in faults {
                    assert!(fault.offset + fault.len <= source.len(), "{source:?}: {fault:?}");
                    assert!(
                        source.is_char_boundary(fault.offset) && source.is_char_boundary(fault.offset + fault.len),
                        "{source:?}: {fault:?}"
                    );
                }
            }
        }
        drop(Template::compile(&source, &names, Context::Path));
    }
}
