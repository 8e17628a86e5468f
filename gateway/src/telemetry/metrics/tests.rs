//! Metrics as a scraper sees them: figures, labels, what is forgotten, and that the manual names each.
use std::{collections::HashMap, time::Duration};

use contract::meter::Meter;
use http::{Method, StatusCode};

use super::{registry::GRACE, route::Finished, upstream::CallOutcome, *};

fn finished(method: &Method, status: u16) -> Finished<'_> {
    Finished { method, status: StatusCode::from_u16(status).unwrap(), taken: Duration::from_millis(3), received: 10, sent: 20 }
}

fn lines(it: &GatewayMetrics) -> Vec<String> {
    it.text(Format::Prometheus).lines().map(str::to_owned).collect()
}

#[track_caller]
fn has(it: &GatewayMetrics, line: &str) {
    let lines = lines(it);
    assert!(lines.iter().any(|it| it == line), "{line}\nin\n{}", lines.join("\n"));
}

#[test]
fn a_request_counts_by_api_method_and_status() {
    let it = GatewayMetrics::new(Limits::default());
    let route = it.route_metrics("orders", "v1");
    let way = route.enter();
    has(&it, r#"allium_requests_in_flight{api="orders",version="v1"} 1"#);
    route.record(finished(&Method::GET, 200));
    route.record(finished(&Method::GET, 200));
    route.record(finished(&Method::POST, 418));
    drop(way);
    has(&it, r#"allium_requests_total{api="orders",version="v1",method="GET",status="200"} 2"#);
    has(&it, r#"allium_requests_total{api="orders",version="v1",method="POST",status="4xx"} 1"#);
    has(&it, r#"allium_request_duration_seconds_bucket{api="orders",version="v1",le="0.001"} 0"#);
    has(&it, r#"allium_request_duration_seconds_bucket{api="orders",version="v1",le="0.005"} 3"#);
    has(&it, r#"allium_request_duration_seconds_count{api="orders",version="v1"} 3"#);
    has(&it, r#"allium_received_bytes_total{api="orders",version="v1"} 30"#);
    has(&it, r#"allium_sent_bytes_total{api="orders",version="v1"} 60"#);
    has(&it, r#"allium_requests_in_flight{api="orders",version="v1"} 0"#);
    it.unmatched().record(finished(&Method::GET, 404));
    has(&it, r#"allium_requests_total{api="_unmatched",version="",method="GET",status="404"} 1"#);
}

#[test]
fn a_call_counts_by_node_and_outcome() {
    let it = GatewayMetrics::new(Limits::default());
    let upstream = it.upstream_metrics("crm");
    let node = upstream.node("10.0.0.1:80");
    node.record(CallOutcome::Ok, Duration::from_millis(1));
    upstream.node("10.0.0.1:80").record(CallOutcome::Cancelled, Duration::from_millis(1));
    upstream.retried();
    upstream.not_connected();
    let open = upstream.connected();
    has(&it, r#"allium_upstream_requests_total{upstream="crm",node="10.0.0.1:80",outcome="ok"} 1"#);
    has(&it, r#"allium_upstream_requests_total{upstream="crm",node="10.0.0.1:80",outcome="cancelled"} 1"#);
    has(&it, r#"allium_upstream_duration_seconds_count{upstream="crm"} 2"#);
    has(&it, r#"allium_upstream_retries_total{upstream="crm"} 1"#);
    has(&it, r#"allium_upstream_connects_total{upstream="crm",result="failed"} 1"#);
    has(&it, r#"allium_upstream_connections{upstream="crm"} 1"#);
    drop(open);
    has(&it, r#"allium_upstream_connections{upstream="crm"} 0"#);
}

#[test]
fn connections_reloads_and_refusals_count() {
    let it = GatewayMetrics::new(Limits::default());
    let listener = it.listener_metrics("127.0.0.1:8080");
    let open = listener.accepted();
    listener.refused();
    has(&it, r#"allium_connections{listener="127.0.0.1:8080"} 1"#);
    drop(open);
    has(&it, r#"allium_connections{listener="127.0.0.1:8080"} 0"#);
    has(&it, r#"allium_connections_accepted_total{listener="127.0.0.1:8080"} 1"#);
    has(&it, r#"allium_connections_refused_total{listener="127.0.0.1:8080"} 1"#);
    it.refused("not_found");
    has(&it, r#"allium_refused_total{reason="not_found"} 1"#);
    it.reloaded(Reload::Ok, Served { revision: "r1".into(), documents: vec![("Api", "served", 3)], succeeded: 0.0 });
    let success = |it: &GatewayMetrics| lines(it).into_iter().find(|it| it.starts_with("allium_config_last_success")).unwrap();
    let first = success(&it);
    assert!(!first.ends_with(" 0"), "{first}");
    it.reloaded(Reload::Refused, Served { revision: "r1".into(), documents: vec![("Api", "last_good", 1)], succeeded: 0.0 });
    assert_eq!(success(&it), first, "a refused reload is no success");
    has(&it, r#"allium_reloads_total{result="refused"} 1"#);
    has(&it, r#"allium_definitions{kind="Api",state="last_good"} 1"#);
    has(&it, r#"allium_definitions_revision_info{revision="r1"} 1"#);
}

#[test]
fn routes_that_nobody_asked_for_have_no_line() {
    let it = GatewayMetrics::new(Limits::default());
    let before = it.text(Format::Prometheus).len();
    let routes: Vec<_> = (0..1000).map(|at| it.route_metrics(&format!("a{at}"), "v1")).collect();
    let after = it.text(Format::Prometheus).len();
    assert!(after < before + 100, "{before} {after}");
    drop(routes);
}

#[test]
fn routes_beyond_the_limit_share_one_label() {
    let it = GatewayMetrics::new(Limits { routes: 1, ..Limits::default() });
    let routes = [it.route_metrics("a", "v1"), it.route_metrics("b", "v1"), it.route_metrics("c", "v1")];
    routes.iter().for_each(|it| it.record(finished(&Method::GET, 200)));
    has(&it, r#"allium_requests_total{api="a",version="v1",method="GET",status="200"} 1"#);
    has(&it, r#"allium_requests_total{api="_other",version="",method="GET",status="200"} 2"#);
}

#[test]
fn a_route_that_comes_back_goes_on_counting_and_one_that_is_gone_is_forgotten() {
    let it = GatewayMetrics::new(Limits::default());
    let start = Instant::now();
    it.route_metrics("a", "v1").record(finished(&Method::GET, 200));
    it.sweep(start);
    let back = it.route_metrics("a", "v1");
    back.record(finished(&Method::GET, 200));
    has(&it, r#"allium_requests_total{api="a",version="v1",method="GET",status="200"} 2"#);
    drop(back);
    it.sweep(start + GRACE);
    it.sweep(start + GRACE * 3);
    assert!(it.routes.all().is_empty());
}

#[test]
fn each_gateway_counts_for_itself() {
    let (one, two) = (GatewayMetrics::new(Limits::default()), GatewayMetrics::new(Limits::default()));
    one.registry.counter("allium_plugin_total", "P.", &[]).add(1);
    has(&one, "allium_plugin_total 1");
    assert!(!two.text(Format::Prometheus).contains("allium_plugin_total"));
}

/// Reads the text as Prometheus does, strictly.
#[test]
fn the_whole_text_conforms_in_both_formats() {
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let it = GatewayMetrics::new(Limits::default());
        let routes = [it.route_metrics("a\"\\\n", "v1"), it.route_metrics("b", "v1")];
        for route in &routes {
            route.record(finished(&Method::GET, 200));
        }
        it.upstream_metrics("crm").node("n:1").record(CallOutcome::Ok, Duration::from_secs(20));
        it.refused("timeout");
        it.reloaded(Reload::Ok, Served { revision: "r".into(), documents: vec![("Api", "served", 1)], succeeded: 0.0 });
        let (_listener, _gauge) = (it.listener_metrics("l").accepted(), it.registry.gauge("g", "G", &[("x", "y")]));
        let _odd = it.registry.counter("odd_count", "A counter by another name.", &[]);
        conforms(&it.text(format), format);
    }
}

fn conforms(text: &str, format: Format) {
    let open = format == Format::OpenMetrics;
    let mut types: HashMap<String, String> = HashMap::new();
    let (mut family, mut seen) = (String::new(), std::collections::HashSet::new());
    let mut buckets: HashMap<String, (f64, f64, bool)> = HashMap::new();
    assert!(text.ends_with('\n'));
    let mut rest = text.lines().peekable();
    while let Some(line) = rest.next() {
        if line == "# EOF" {
            assert!(open && rest.peek().is_none(), "EOF is last and OpenMetrics' alone");
            return;
        }
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap().to_owned();
            assert!(help.len() > family.len() + 1, "{line}");
            let next = rest.next().unwrap();
            let kind = next.strip_prefix(&format!("# TYPE {family} ")).unwrap_or_else(|| panic!("TYPE follows HELP: {next}"));
            assert!(types.insert(family.clone(), kind.to_owned()).is_none(), "{family} appears once, in one piece");
            assert!(rest.peek().is_some_and(|it| !it.starts_with('#')), "{family} has samples");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let (name, labels) = parse_labels(series);
        let allowed: &[&str] = match (types[&family].as_str(), open) {
            ("counter", true) => &["_total"],
            ("info", true) => &["_info"],
            ("histogram", _) => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        assert!(allowed.iter().any(|it| name == format!("{family}{it}")), "{line} is of {family}");
        assert!(seen.insert(series.to_owned()), "{series} appears once");
        let group = format!("{family}{:?}", labels.iter().filter(|it| it.0 != "le").collect::<Vec<_>>());
        if name.ends_with("_bucket") {
            let le = &labels.iter().find(|it| it.0 == "le").unwrap().1;
            let le = if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap() };
            let (last, count, _) = buckets.get(&group).copied().unwrap_or((f64::NEG_INFINITY, 0.0, false));
            assert!(le > last && value >= count, "{line}: buckets rise");
            buckets.insert(group, (le, value, le.is_infinite()));
        } else if name.ends_with("_count") && types[&family] == "histogram" {
            assert_eq!(buckets[&group], (f64::INFINITY, value, true), "{line}: +Inf is the count");
        }
    }
    assert!(!open, "OpenMetrics ends in EOF");
}

fn parse_labels(series: &str) -> (&str, Vec<(String, String)>) {
    let Some((name, rest)) = series.split_once('{') else { return (series, Vec::new()) };
    let (mut labels, mut rest) = (Vec::new(), rest);
    loop {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{series}"));
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("{series}")) {
                (at, '"') => break at + 1,
                (_, '\\') => match chars.next().unwrap().1 {
                    'n' => value.push('\n'),
                    it @ ('\\' | '"') => value.push(it),
                    it => panic!("\\{it} in {series}"),
                },
                (_, it) => value.push(it),
            }
        };
        labels.push((label.to_owned(), value));
        rest = &after[end..];
        match rest {
            "}" => return (name, labels),
            _ => rest = rest.strip_prefix(',').unwrap_or_else(|| panic!("{series}")),
        }
    }
}

/// Run by hand: `cargo test --release counting_from_two_threads -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a check"]
fn counting_from_two_threads() {
    const TIMES: u32 = 3_000_000;
    let it = GatewayMetrics::new(Limits::default());
    for threads in [1, 2] {
        let route = it.route_metrics("a", "v1");
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let route = route.clone();
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        let way = route.enter();
                        route.record(finished(&Method::GET, 200));
                        drop(way);
                    }
                });
            }
        });
        println!("{threads} threads: {:?} a request", start.elapsed() / TIMES);
    }
}

#[test]
fn the_manual_names_every_figure() {
    let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/OPERATIONS.md")).unwrap();
    for (name, ..) in OURS {
        assert!(manual.contains(&format!("| `{name}` |")), "{name}");
    }
}
