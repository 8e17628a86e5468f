//! The access log as its reader sees it: lines, files, and what becomes of a slow disk.
use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use http::HeaderValue;
use serde_json::{Value, json};

use super::*;

/// A log in a folder of its own.
struct Bench {
    log: Option<AccessLog>,
    file: PathBuf,
    dropped: Counter,
}

impl Bench {
    fn new(options: Options) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let file = std::env::temp_dir().join(format!("allium-access-{}-{}.log", std::process::id(), NEXT.fetch_add(1, Relaxed)));
        let _ = fs::remove_file(&file);
        let options = Options { to: Destination::File(file.clone()), ..options };
        let dropped = Counter::default();
        let log = AccessLog::start(options, Counter::default(), dropped.clone(), Log::nowhere()).unwrap();
        Self { log: Some(log), file, dropped }
    }

    fn writer(&self) -> AccessLogWriter {
        self.log.as_ref().unwrap().writer()
    }

    /// Ends the log and reads its lines.
    fn lines(mut self) -> Vec<Value> {
        self.log = None;
        let text = fs::read(&self.file).unwrap();
        let _ = fs::remove_file(&self.file);
        let text = String::from_utf8(text).expect("the log is UTF-8");
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|it| serde_json::from_str(it).unwrap_or_else(|error| panic!("{it}: {error}"))).collect()
    }
}

fn entry(headers: &HeaderMap) -> Entry<'_> {
    Entry {
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_709_251_199_010),
        id: b"r-1",
        trace: b"",
        client_ip: [203, 0, 113, 9].into(),
        method: &Method::GET,
        scheme: "http",
        host: b"api.example.com",
        path: b"/a",
        query: None,
        protocol: Version::HTTP_11,
        headers,
        status: StatusCode::OK,
        reason: "",
        api: "",
        version: "",
        upstream_name: "",
        node: None,
        calls: 0,
        bytes_in: 0,
        bytes_out: 2,
        duration: Duration::from_micros(1500),
        upstream_duration: None,
        completed: true,
    }
}

fn one(options: Options, entry: &Entry<'_>) -> Value {
    let bench = Bench::new(options);
    bench.writer().write(entry);
    let mut lines = bench.lines();
    assert_eq!(lines.len(), 1, "one request is one line");
    lines.remove(0)
}

#[test]
fn a_line_says_what_happened_and_leaves_out_what_did_not() {
    let headers = HeaderMap::new();
    let want = json!({"time": "2024-02-29T23:59:59.010Z", "id": "r-1", "client_ip": "203.0.113.9", "method": "GET", "scheme": "http",
        "host": "api.example.com", "path": "/a", "protocol": "HTTP/1.1", "status": 200, "bytes_in": 0, "bytes_out": 2,
        "duration_ms": 1.5, "completed": true});
    assert_eq!(one(Options::default(), &entry(&headers)), want);
}

#[test]
fn a_full_line_has_every_field() {
    let mut headers = HeaderMap::new();
    headers.insert("user-agent", HeaderValue::from_static("curl/8"));
    headers.insert("referer", HeaderValue::from_static("https://u:p@example.com/?token=1&a=2"));
    headers.insert("x-tenant", HeaderValue::from_static("acme"));
    headers.insert("authorization", HeaderValue::from_static("Bearer abc"));
    let options =
        Options { headers: ["x-tenant", "authorization", "x-absent"].map(HeaderName::from_static).to_vec(), ..Options::default() };
    let it = Entry {
        trace: b"0af7651916cd43dd8448eb211c80319c",
        client_ip: "2001:db8::1".parse().unwrap(),
        query: Some(b"page=1&%74oken=abc"),
        reason: "upstream_connect",
        api: "orders",
        version: "v1",
        upstream_name: "crm",
        node: Some(([10, 0, 0, 1], 80).into()),
        calls: 2,
        upstream_duration: Some(Duration::from_millis(1)),
        completed: false,
        ..entry(&headers)
    };
    let line = one(options, &it);
    for (name, want) in [
        ("trace", json!("0af7651916cd43dd8448eb211c80319c")),
        ("client_ip", json!("2001:db8::1")),
        ("query", json!("page=1&%74oken=***")),
        ("reason", json!("upstream_connect")),
        ("api", json!("orders")),
        ("version", json!("v1")),
        ("upstream", json!("crm")),
        ("node", json!("10.0.0.1:80")),
        ("calls", json!(2)),
        ("upstream_ms", json!(1.0)),
        ("completed", json!(false)),
        ("user_agent", json!("curl/8")),
        ("referer", json!("https://***@example.com/?token=***&a=2")),
        ("headers", json!({"x-tenant": "acme", "authorization": "***"})),
    ] {
        assert_eq!(line[name], want, "{name}");
    }
}

#[test]
fn nothing_that_a_client_sends_makes_a_line_of_its_own() {
    let mut headers = HeaderMap::new();
    headers.insert("user-agent", HeaderValue::from_bytes(b"a\xff\t\"}{\\\x80").unwrap());
    let it = Entry { path: b"/a\n{\"status\":200}\r\n", host: b"\x1b[31m\xc0", query: Some(b"a=\"\n&token=\n\"}"), ..entry(&headers) };
    let line = one(Options::default(), &it);
    assert_eq!(line["path"], "/a\n{\"status\":200}\r\n");
    assert_eq!(line["host"], "\u{1b}[31m\\xc0");
    assert_eq!(line["query"], "a=\"\n&token=***");
    assert_eq!(line["user_agent"], "a\\xff\t\"}{\\\\x80");
}

#[test]
fn what_is_too_long_is_cut() {
    let headers = HeaderMap::new();
    let (path, query) = (vec![b'a'; 5000], [b"token=".to_vec(), vec![b's'; 5000]].concat());
    let line = one(Options::default(), &Entry { path: &path, query: Some(&query), ..entry(&headers) });
    assert_eq!(line["path"].as_str().unwrap().len(), LONGEST + 3);
    assert_eq!(line["query"], "token=***...");
}

#[test]
fn a_full_buffer_is_handed_on_at_once_and_the_rest_when_the_worker_ends() {
    let bench = Bench::new(Options { buffer: 1000, ..Options::default() });
    let (writer, headers) = (bench.writer(), HeaderMap::new());
    for _ in 0..12 {
        writer.write(&entry(&headers));
    }
    assert!(writer.lines.borrow().text.len() < 1000);
    assert!(bench.log.as_ref().unwrap().flush(Duration::from_secs(5)));
    let before = fs::read_to_string(&bench.file).unwrap().lines().count();
    assert!((4..12).contains(&before), "{before}");
    drop(writer);
    assert_eq!(bench.lines().len(), 12);
}

#[tokio::test(start_paused = true)]
async fn a_lonely_line_is_handed_on_in_time() {
    let bench = Bench::new(Options::default());
    let writer = Rc::new(bench.writer());
    let headers = HeaderMap::new();
    let work = async {
        for _ in 0..2 {
            writer.write(&entry(&headers));
            tokio::time::sleep(Duration::from_millis(150)).await;
            assert_eq!(writer.lines.borrow().count, 1, "it waits for others");
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(writer.lines.borrow().count, 0, "but not long");
        }
    };
    tokio::select! {
        () = writer.clone().run() => unreachable!("it runs for ever"),
        () = work => {}
    }
    drop(writer);
    assert_eq!((bench.dropped.get(), bench.lines().len()), (0, 2));
}

#[test]
fn the_manual_names_every_field() {
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/OPERATIONS.md")).unwrap();
    let table = &manual[manual.find("## The access log").unwrap()..manual.find("### What is hidden").unwrap()];
    let mut headers = HeaderMap::new();
    for name in ["user-agent", "referer", "x-tenant"] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static("a"));
    }
    let options = Options { headers: vec![HeaderName::from_static("x-tenant")], ..Options::default() };
    let it = Entry {
        trace: b"t",
        query: Some(b"a"),
        reason: "r",
        api: "a",
        version: "v",
        upstream_name: "u",
        node: Some((std::net::Ipv6Addr::LOCALHOST, 80).into()),
        calls: 1,
        upstream_duration: Some(Duration::ZERO),
        ..entry(&headers)
    };
    for name in one(options, &it).as_object().unwrap().keys() {
        assert!(table.contains(&format!("`{name}`")), "{name}");
    }
}
