//! How long definitions take to load: `cargo run --release -p schemas --example speed [COUNT]`.

use std::time::Instant;

use schemas::{Input, Loaded, Options, load};

fn api(n: usize) -> String {
    format!(
        r#"kind: Api
info:
  name: customer-overview-{n}
  version: v2
  summary: Everything the customer sidebar needs, in one call
  owner: crm-team
  tags: [crm]
inbound:
  match: GET api.example.com/v2/customers{n}/{{id}}/overview
  when: "headers['x-channel'] == 'app'"
  params:
    id:      {{in: path,  type: integer, minimum: 1}}
    include: {{in: query, type: array, items: {{enum: [orders, tickets]}}, default: [orders]}}
plugins:
  - use: public-api
  - rate-limit: {{key: "${{app.name}}", rate: 200/s}}
  - lua: {{file: lua/hooks/overview.lua}}
    when: "request.method == 'GET'"
proxy:
  http: {{upstream: orders, method: GET, path: "/internal/orders/${{params.id}}"}}
  send:
    query:   {{account: "${{auth.subject}}", page: "${{params.page}}"}}
    body:    {{customer: {{id: "${{params.id}}"}}, source: allium}}
  timeout: 2s
  retry: {{tries: 3, conditions: [connect, reset, "503", throttled], backoff: 50ms..1s, budget: 20%, per_try: 500ms}}
outbound:
  headers: {{set: {{x-served-by: allium}}, remove: [server, x-powered-by]}}
"#
    )
}

fn timed(what: &str, inputs: Vec<Input>, expected: usize) -> Loaded {
    let bytes: usize = inputs.iter().map(|input| input.bytes.len()).sum();
    let start = Instant::now();
    let loaded = load(inputs, &Options::default());
    println!("{what}: {} documents, {} faults, {bytes} bytes in {:?}", loaded.documents.len(), loaded.faults.len(), start.elapsed());
    assert_eq!(loaded.documents.len() + loaded.broken.len(), expected);
    loaded
}

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let files: Vec<Input> = (0..count).map(|n| Input::new(format!("{n}.yaml"), api(n))).collect();
    timed("a file each", files.clone(), count);
    let one: String = (0..count.min(10_000)).map(api).collect::<Vec<_>>().join("---\n");
    timed("one file", vec![Input::new("all.yaml", one)], count.min(10_000));
    let broken: Vec<Input> =
        files.into_iter().map(|input| Input::new(input.name, String::from_utf8_lossy(&input.bytes).replace("timeout", "timout"))).collect();
    timed("a fault each", broken, count);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    let deep = format!("a: {}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let start = Instant::now();
    let loaded = load(vec![Input::new("deep.yaml", deep)], &Options::default());
    println!("deep: {:?} {} in {:?}", loaded.faults[0].code, loaded.faults[0].message, start.elapsed());
}
