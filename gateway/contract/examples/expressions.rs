//! Prints how long it takes to index JSON, to compile expressions and to evaluate them: `cargo run --release -p contract --example expressions`.

use std::{hint::black_box, time::Instant};

use contract::{
    expression::{Context, Expression, JsonTemplate, MapScope, Names, Place, Root, Template, Value},
    json::JsonView,
};

const SOURCES: [&str; 8] = [
    "headers['x-channel'] == 'app'",
    "body.order.id",
    "request.method == 'GET' && !(params.id in [1, 2, 3])",
    "body.items.filter(i, i.price > 10.0).map(i, i.id).size() > 2 ? 'many' : 'few'",
    "response.status == 429 || response.body.errcode == 45009",
    "'orders' in params.include",
    "auth.subject + ':' + string(params.id)",
    "request.path.startsWith('/v1/') || has(body.flags.beta)",
];

fn main() {
    documents();
    let names = Names::new(Place::Outbound);
    let mut best = f64::MAX;
    for _ in 0..20 {
        let begun = Instant::now();
        for number in 0..10_000 {
            black_box(Expression::compile(SOURCES[number % SOURCES.len()], &names).is_ok());
        }
        best = best.min(begun.elapsed().as_secs_f64());
    }
    println!("compile: 10 000 expressions in {:.1} ms", best * 1e3);

    let body = JsonView::parse(
        r#"{"order":{"id":12345678901234567890,"n":3},"items":[{"id":1,"price":5},{"id":2,"price":20.5},{"id":3,"price":11}]}"#,
    );
    let Ok(body) = body else { return };
    let scope = MapScope::new()
        .with(Root::Headers, Value::map([("x-channel", "app".into())]))
        .with(Root::Request, Value::map([("method", "GET".into()), ("path", "/v1/a".into())]))
        .with(Root::Params, Value::map([("id", Value::Int(7)), ("include", Value::list(vec!["orders".into()]))]))
        .with(Root::Auth, Value::map([("subject", "alice".into())]))
        .with(Root::Response, Value::map([("status", Value::Int(200))]))
        .with(Root::Body, &body);
    for source in SOURCES {
        if let Ok(expression) = Expression::compile(source, &names) {
            measure(source, || drop(black_box(expression.eval(&scope))));
        }
    }
    for (context, source) in
        [(Context::Header, "constant"), (Context::Path, "/orders/${params.id}/items"), (Context::Query, "${auth.subject}")]
    {
        if let Ok(template) = Template::compile(source, &names, context) {
            measure(&format!("{context:?}: {source}"), || drop(black_box(template.render(&scope))));
        }
    }
    if let Ok(Ok(template)) =
        JsonTemplate::parse(r#"{"customer":{"id":"${params.id}"},"order":"${body.order}","note":"for ${auth.subject}"}"#, &names)
    {
        measure("a JSON template of three values", || drop(black_box(template.render(&scope))));
    }
    worst();
}

/// What the budget lets through at most.
fn worst() {
    let list = format!("[{}0]", "0,".repeat(300_000));
    let Ok(body) = JsonView::parse(list) else { return };
    let scope = MapScope::new().with(Root::Body, &body);
    for source in
        ["body.all(x, body.all(y, y == 0))", "body.map(x, [x, x])", "body.all(x, !(1 in body))", "body.map(x, string(x) + 'a').join('')"]
    {
        if let Ok(expression) = Expression::compile(source, &Names::new(Place::Proxy)) {
            let begun = Instant::now();
            let outcome = expression.eval(&scope).map(|_| ()).map_err(|error| error.kind);
            println!("{:>9.2} ms  {outcome:?}: {source}", begun.elapsed().as_secs_f64() * 1e3);
        }
    }
}

fn documents() {
    let record = r#"{"id": 12345, "name": "Some \"quoted\" name", "email": "someone@example.com", "phone": "13812345678", "tags": ["a", "b"], "active": true, "balance": -12.50, "note": null},"#;
    let text = format!("\"{}\",", "lorem ipsum dolor sit amet ".repeat(40));
    for (name, document) in [
        ("records", format!("[{}0]", record.repeat(6000))),
        ("long texts", format!("[{}0]", text.repeat(1000))),
        ("small numbers", format!("[{}0]", "1,".repeat(500_000))),
        ("one small object", r#"{"id":1,"name":"a","tags":["x","y"],"ok":true}"#.to_owned()),
    ] {
        let bytes = bytes::Bytes::from(document);
        let rounds = (1_000_000 / bytes.len()).max(1);
        let mut best = f64::MAX;
        for _ in 0..60 {
            let begun = Instant::now();
            for _ in 0..rounds {
                black_box(JsonView::parse(bytes.clone()).is_ok());
            }
            best = best.min(begun.elapsed().as_secs_f64() / rounds as f64);
        }
        println!("index {name}: {} bytes, {:.0} MB/s, {:.2} µs", bytes.len(), bytes.len() as f64 / best / 1e6, best * 1e6);
    }
}

fn measure(name: &str, mut work: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..200 {
        let begun = Instant::now();
        (0..5_000).for_each(|_| work());
        best = best.min(begun.elapsed().as_secs_f64() / 5e3);
    }
    println!("{:>9.0} ns  {name}", best * 1e9);
}
