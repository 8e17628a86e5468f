//! One test of a definition: its request, what its backends are said to answer, and what must come out.
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use contract::{Body, CallError, Scheme, local::Local};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use schemas::{Document, v1};
use serde_json::Value;

use super::compare::{Difference, subset};
use crate::{
    command::world::World,
    pipeline::given::{self, Answer, Answers, Label},
    serve::{Connection, Shared, Worker},
};

/// The most of an answer that is read, and shown.
const MOST_READ: usize = 64 << 20;
const MOST_SHOWN: usize = 2000;

/// One test.
pub struct Case {
    pub api: String,
    pub name: String,
    pub file: Arc<str>,
    pub line: u32,
    test: v1::Test,
    /// Whom a request that names no host asks.
    host: String,
}

/// How a test went.
pub struct Ran {
    pub faults: Vec<Difference>,
    pub took: Duration,
    /// What came, for a person.
    pub answer: String,
}

/// Where all tests run: definitions as a gateway would serve them.
pub struct Stage(Arc<Shared>);

impl Stage {
    pub fn new(world: &World) -> Self {
        let served = world.snapshot.as_ref().map(|it| it.served.clone());
        let shop = &world.shop;
        Self(Arc::new(Shared {
            served: Arc::new(ArcSwap::new(served.unwrap_or_else(|| unreachable!("definitions without a fault make a snapshot")))),
            metrics: shop.metrics.clone(),
            log: shop.log.clone(),
            trusted: Box::default(),
            keep_ids: false,
            time: shop.limits.request.time.get(),
        }))
    }
}

impl Ran {
    pub fn broken(why: &str) -> Self {
        let fault = Difference { at: "the test".into(), expected: None, got: why.into() };
        Self { faults: vec![fault], took: Duration::ZERO, answer: String::new() }
    }
}

impl Case {
    pub fn new(document: &Document, api: &v1::Api, it: &v1::Test, line: u32) -> Self {
        let pattern = api.inbound.iter().flat_map(|it| &it.r#match).next().map_or("/", String::as_str);
        let pattern = pattern.rsplit(' ').next().unwrap_or(pattern);
        let host = pattern.split('/').next().filter(|it| !it.is_empty() && !it.starts_with('*')).unwrap_or("localhost");
        let version = document.id.version.as_deref().map(|it| format!("@{it}")).unwrap_or_default();
        Self {
            api: format!("{}{version}", document.id.name),
            name: it.name.clone(),
            file: document.file.clone(),
            line,
            test: it.clone(),
            host: host.to_owned(),
        }
    }

    pub async fn run(&self, stage: &Stage, local: Rc<Local>) -> Ran {
        let start = Instant::now();
        let made = self.request().and_then(|it| Ok((it, self.answers()?)));
        let (request, answers) = match made {
            Ok((request, answers)) => (request, Rc::new(answers)),
            Err(why) => return Ran::broken(&why),
        };
        let ip = self.test.request.as_ref().and_then(|it| it.client_ip.as_deref()).map(str::parse::<IpAddr>);
        let ip = match ip {
            Some(Ok(it)) => it,
            Some(Err(_)) => return Ran::broken("`client_ip` is no address"),
            None => Ipv4Addr::LOCALHOST.into(),
        };
        let scheme = if self.url().starts_with("https://") { Scheme::Https } else { Scheme::Http };
        let worker = Worker::new(stage.0.clone(), local, None);
        let connection = Connection::new(
            worker,
            crate::serve::Arrival {
                addr: SocketAddr::new(ip, 40000),
                local: SocketAddr::from(([127, 0, 0, 1], 80)),
                scheme,
                certificate: None,
                redirects: false,
            },
        );
        let given = given::Given::new(answers.clone());
        let answer = connection.alone(request, |ex| ex.notes.put(given)).await;
        let mut ran = self.compare(answer).await;
        for it in answers.missing.borrow().iter() {
            let got = format!("'{it}' was called, and `given` holds no answer for it, or none for so many calls");
            ran.faults.insert(0, Difference { at: "given".into(), expected: None, got });
        }
        ran.took = start.elapsed();
        ran
    }

    fn url(&self) -> &str {
        self.test.request.as_ref().map_or("/", |it| it.url.as_str())
    }

    fn request(&self) -> Result<Request<Body>, String> {
        let it = self.test.request.clone().unwrap_or_default();
        let (host, target) = match it.url.split_once("://") {
            Some((_, rest)) => match rest.find(['/', '?']) {
                Some(at) => (&rest[..at], &rest[at..]),
                None => (rest, "/"),
            },
            None => (self.host.as_str(), it.url.as_str()),
        };
        let method = Method::from_bytes(it.method.as_deref().unwrap_or("GET").as_bytes()).map_err(|_| "`method` is none".to_owned())?;
        let mut request = Request::new(Body::Empty);
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().map_err(|_| format!("`url`: '{target}' is no path"))?;
        let mut headers = headers(&it.headers)?;
        if !headers.contains_key(header::HOST) {
            headers.insert(header::HOST, HeaderValue::from_str(host).map_err(|_| format!("`url`: '{host}' is no host"))?);
        }
        let (bytes, media) = body(it.body.as_ref());
        if let Some(media) = media.filter(|_| !headers.contains_key(header::CONTENT_TYPE)) {
            headers.insert(header::CONTENT_TYPE, media);
        }
        *request.headers_mut() = headers;
        *request.body_mut() = Body::from(bytes);
        Ok(request)
    }

    fn answers(&self) -> Result<Answers, String> {
        let mut labels = Vec::new();
        for it in &self.test.given {
            let answers = it.answers.iter().map(answer).collect::<Result<_, _>>()?;
            labels.push(Label { name: it.name.as_str().into(), answers, calls: Default::default() });
        }
        Ok(Answers { labels, missing: Default::default() })
    }

    async fn compare(&self, mut answer: Response<Body>) -> Ran {
        let expect = self.test.expect.clone().unwrap_or_default();
        let mut faults = Vec::new();
        if let Some(it) = expect.status.filter(|it| *it != u32::from(answer.status().as_u16())) {
            faults.push(Difference::new("status", it, answer.status().as_u16()));
        }
        for it in &expect.headers {
            let got: Vec<_> = answer.headers().get_all(&it.name).iter().map(|it| String::from_utf8_lossy(it.as_bytes())).collect();
            let expected = texts(it.value.as_ref());
            if got != expected {
                let shown = |it: String| if it.is_empty() { "nothing".to_owned() } else { it };
                faults.push(Difference::new(format!("header {}", it.name), shown(expected.join(", ")), shown(got.join(", "))));
            }
        }
        let bytes = answer.body_mut().bytes(MOST_READ).await.cloned().unwrap_or_default();
        if let Some(expected) = expect.body.and_then(|it| serde_json::from_str::<Value>(&it.text).ok()) {
            match serde_json::from_slice::<Value>(&bytes) {
                Ok(got) => subset(&expected, &got, "", &mut faults),
                // A text is told as one.
                Err(_) if expected.as_str().is_some_and(|it| it.as_bytes() == bytes) => (),
                Err(_) => faults.push(Difference::new("body", expected, "no JSON")),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let shown: String = text.chars().take(MOST_SHOWN).collect();
        Ran { faults, took: Duration::ZERO, answer: format!("{} {shown}", answer.status().as_u16()) }
    }
}

fn answer(it: &v1::Answer) -> Result<Answer, String> {
    if let Some(word) = it.fail.as_deref() {
        return Ok(match word {
            "timeout" => Answer::Fails(CallError::Timeout),
            "connect" => Answer::Fails(CallError::Connect),
            "reset" => Answer::Fails(CallError::Reset),
            status => {
                let status = status.parse().ok().and_then(|it| StatusCode::from_u16(it).ok());
                let status = status.ok_or_else(|| format!("`fail`: '{word}' is neither timeout, connect, reset nor a status"))?;
                Answer::Answers { status, headers: HeaderMap::new(), body: Bytes::new() }
            }
        });
    }
    let status = u16::try_from(it.status.unwrap_or(200)).ok().and_then(|it| StatusCode::from_u16(it).ok());
    let status = status.ok_or_else(|| "`status` is none".to_owned())?;
    let mut headers = headers(&it.headers)?;
    let (body, media) = body(it.body.as_ref());
    if let Some(media) = media.filter(|_| !headers.contains_key(header::CONTENT_TYPE)) {
        headers.insert(header::CONTENT_TYPE, media);
    }
    Ok(Answer::Answers { status, headers, body })
}

fn headers(list: &[v1::NamedJson]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for it in list {
        let name = HeaderName::from_bytes(it.name.as_bytes()).map_err(|_| format!("'{}' is no header name", it.name))?;
        for text in texts(it.value.as_ref()) {
            let value = HeaderValue::from_str(&text).map_err(|_| format!("the header {} holds what no header can", it.name))?;
            headers.append(name.clone(), value);
        }
    }
    Ok(headers)
}

/// The texts of a header: none for null, several for a list.
fn texts(it: Option<&v1::Json>) -> Vec<String> {
    let one = |it: &Value| match it {
        Value::Null => None,
        Value::String(it) => Some(it.clone()),
        it => Some(it.to_string()),
    };
    match it.and_then(|it| serde_json::from_str(&it.text).ok()) {
        Some(Value::Array(items)) => items.iter().filter_map(one).collect(),
        Some(it) => one(&it).into_iter().collect(),
        None => Vec::new(),
    }
}

fn body(it: Option<&v1::Body>) -> (Bytes, Option<HeaderValue>) {
    use v1::body::Written;
    let of = |it: &str| HeaderValue::from_str(it).ok();
    match it.and_then(|it| Some((it.written.as_ref()?, it.r#type.as_deref()))) {
        None => (Bytes::new(), None),
        Some((Written::Json(it), _)) => (it.text.clone().into(), of("application/json")),
        Some((Written::Raw(it), media)) => (it.clone().into(), of(media.unwrap_or("text/plain; charset=utf-8"))),
    }
}
