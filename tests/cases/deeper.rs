//! What is told of documents that were read only in part.

/// Whatever a half-read document lacks, looking deeper into it ends with faults.
#[test]
fn a_document_with_any_part_taken_out_or_replaced_is_told_and_never_a_panic() {
    let whole = r#"kind: Api
info: {name: a, version: v1, lifecycle: {state: deprecated, successor: {name: b}}}
inbound: {match: [GET /a/{id}, POST /b], when: "method == 'GET'", params: {q: {in: query, type: integer}}, body: {max_size: 1MiB}}
plugins: [{headers: {request: {set: {x: y}}}}, {fallback: {conditions: [502], body: {a: 1}}}, {rate-limit: {rate: 5/s}}, {concurrency: {max: 3}}]
proxy: {pipeline: {deadline: 1s, stages: [{one: {http: {upstream: u, path: /x}, send: {query: {a: "${path.id}"}}, timeout: 1s, for_each: {in: "${query.q}", max: 3}}}, {two: {respond: {status: 200}}}]}}
outbound: {headers: {a: "${one.x}"}}
---
kind: Upstream
name: u
nodes: [{address: "127.0.0.1:1", weight: 2}]
balance: {policy: hash, hash: "${client.ip}"}
health: {passive: {failures: 3, eject: 3s}, active: {path: /h, interval: 1s}}
pool: {max_idle: 3}
---
kind: App
name: x
plan: p
keys: [{env: K}]
---
kind: Plan
name: p
rate: 5/s
---
kind: Preset
name: default
plugins: [{cors: {origins: ['*']}}]
"#;
    let words: Vec<(usize, &str)> = whole
        .match_indices(|it: char| it.is_ascii_alphanumeric())
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || !whole.as_bytes()[at - 1].is_ascii_alphanumeric())
        .map(|at| (at, whole[at..].split(|it: char| !it.is_ascii_alphanumeric() && it != '_').next().unwrap_or_default()))
        .collect();
    let aside = tests::aside::Aside::new(std::path::Path::new("."));
    let mut told = 0;
    for (at, word) in &words {
        for with in ["7", "[]", "{}", "zz", "-1", "~"] {
            let text = format!("{}{with}{}", &whole[..*at], &whole[at + word.len()..]);
            told += aside.faults(&text).len();
        }
    }
    assert!(told > 500, "{told}");
}
