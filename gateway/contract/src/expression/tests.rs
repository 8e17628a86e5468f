//! Expressions and templates by example: each table row is a sentence about what an author may rely on.

use super::*;
use crate::json::JsonView;

mod compile;
mod rules;
mod templates;

/// An exchange as most examples see it.
const BODY: &str = r#"{"order": {"id": 12345678901234567890123, "price": 10.50, "n": 3, "tags": ["a", "b\u0041"], "none": null, "empty": []},
 "items": [{"id": 1, "price": 5}, {"id": 2, "price": 20.5}, {"id": 3}], "text": "caf\u00e9", "yes": true, "big": 18446744073709551615, "float": 1e2}"#;

struct Fixture {
    body: JsonView,
    profile: JsonView,
}

impl Fixture {
    fn new() -> Self {
        Self { body: JsonView::parse(BODY).unwrap(), profile: JsonView::parse(r#"{"account_id":"a1"}"#).unwrap() }
    }

    fn scope(&self) -> MapScope<'_> {
        let text = |entries: &[(&'static str, &'static str)]| Value::map(entries.iter().map(|(key, value)| (*key, Value::from(*value))));
        MapScope::new()
            .with(Root::Request, text(&[("method", "GET"), ("path", "/a%20b/c"), ("host", "api.example.com"), ("client_ip", "10.0.0.1")]))
            .with(Root::Path, text(&[("id", "7%2F8"), ("rest", "x/y"), ("hole", "")]))
            .with(
                Root::Query,
                text(&[("page", "2"), ("q", "a b&c=/?#%é"), ("empty", ""), ("crlf", "a\r\nSet-Cookie: x=1"), ("up", ".."), ("dot", ".")]),
            )
            .with(Root::Headers, text(&[("x-channel", "app"), ("x-user", "alice")]))
            .with(Root::Cookies, text(&[("sid", "s1")]))
            .with(
                Root::Params,
                Value::map([
                    ("id", Value::Int(7)),
                    ("include", Value::list(vec!["orders".into(), "a b".into()])),
                    ("ratio", Value::Float(0.5)),
                    ("sum", Value::Spelt("0.10000000000000000000000000001".into())),
                ]),
            )
            .with(Root::Body, &self.body)
            .with(Root::Task(0), &self.profile)
            .with(Root::TaskCall(0), Value::map([("status", Value::Int(200))]))
            .with(Root::TaskHeaders(0), text(&[("x-a", "1")]))
            .with(Root::Response, Value::map([("status", Value::Int(429))]))
            .with(Root::ResponseHeaders, text(&[("retry-after", "3")]))
            .with(Root::ResponseBody, JsonView::parse(r#"{"errcode":45009}"#).unwrap())
            .with(Root::Error, "read_timeout")
            .with_secret("KEY", "s3cret")
    }
}

fn everything() -> Names<'static> {
    Names::new(Place::Outbound).params(&["id", "include", "ratio", "sum", "missing"]).tasks(&["profile"], &["parcels"]).secrets(true)
}

/// Checks each expression against its value as JSON, or `!Kind` of its error.
#[track_caller]
fn check(table: &[(&str, &str)]) {
    let fixture = Fixture::new();
    let scope = fixture.scope();
    let mut wrong = Vec::new();
    for (source, expected) in table {
        let found = match Expression::compile(source, &everything()) {
            Err(faults) => format!("does not compile: {faults:?}"),
            Ok(expression) => match expression.eval(&scope) {
                Ok(value) => String::from_utf8(value.to_json().to_vec()).unwrap(),
                Err(error) => format!("!{:?}", error.kind),
            },
        };
        if found != *expected {
            wrong.push(format!("{source}\n   expected {expected}\n   found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
