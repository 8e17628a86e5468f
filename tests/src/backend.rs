//! A backend: a listener that behaves in one way and remembers every byte it was sent.
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use crate::{
    behaviour::{self, Behaviour},
    message::{Content, Head, Line, PATIENCE, bad, hex},
};

/// A request as the backend received it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    pub head: Head,
    pub content: Content,
    /// Which connection it came on, from 0.
    pub connection: usize,
}

impl Received {
    /// What `echo` answers.
    pub fn to_json(&self) -> serde_json::Value {
        let pairs = |it: &[(String, String)]| it.iter().map(|(name, value)| serde_json::json!([name, value])).collect::<Vec<_>>();
        serde_json::json!({
            "line": self.head.line,
            "method": self.head.method(),
            "target": self.head.target(),
            "headers": pairs(&self.head.headers),
            "body": String::from_utf8_lossy(&self.content.bytes),
            "body_hex": hex(&self.content.bytes),
            "trailers": pairs(&self.content.trailers),
            "connection": self.connection,
        })
    }
}

/// What the connections of one backend have come to.
#[derive(Default)]
pub struct Record {
    /// Requests are counted, and not kept: for those that come in millions.
    forgetful: bool,
    seen: Mutex<Vec<Received>>,
    requests: watch::Sender<usize>,
    /// Connections that the gateway ended while an answer was still due.
    abandoned: watch::Sender<usize>,
    connections: watch::Sender<usize>,
    open: AtomicUsize,
    /// Requests that no correct gateway sends: framed twice, cut off inside a head.
    nonsense: Mutex<Vec<String>>,
}

impl Record {
    pub fn received(&self, it: Received) {
        if !self.forgetful {
            self.seen.lock().expect("no test panics with this lock").push(it);
        }
        self.requests.send_modify(|it| *it += 1);
    }

    pub fn abandoned(&self) {
        self.abandoned.send_modify(|it| *it += 1);
    }

    pub fn nonsense(&self, what: String) {
        self.nonsense.lock().expect("no test panics with this lock").push(what);
    }
}

/// Stops when dropped.
pub struct Backend {
    pub address: SocketAddr,
    record: Arc<Record>,
    accepting: AbortHandle,
}

impl Backend {
    pub async fn start(behaviour: Behaviour) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), behaviour).await
    }

    /// At a given address: a backend that comes back to life.
    pub async fn start_at(address: SocketAddr, behaviour: Behaviour) -> Self {
        Self::listen(address, behaviour, Record::default())
    }

    /// `echo` that only counts what it is sent, however much that is.
    pub async fn forgetful() -> Self {
        let record = Record { forgetful: true, ..Record::default() };
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), Behaviour::Echo, record)
    }

    fn listen(address: SocketAddr, behaviour: Behaviour, record: Record) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("an address that can be taken again");
        socket.bind(address).unwrap_or_else(|why| panic!("{address}: {why}"));
        let listener = socket.listen(1024).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let record = Arc::new(record);
        let accepting = tokio::spawn(accept(listener, Arc::new(behaviour), record.clone())).abort_handle();
        Self { address, record, accepting }
    }

    /// Answers with JSON of what it received.
    pub async fn echo() -> Self {
        Self::start(Behaviour::Echo).await
    }

    /// An address where nobody listens.
    pub async fn nobody() -> SocketAddr {
        Self::echo().await.address
    }

    pub fn seen(&self) -> Vec<Received> {
        self.record.seen.lock().expect("no test panics with this lock").clone()
    }

    /// The request that came last.
    #[track_caller]
    pub fn last(&self) -> Received {
        self.seen().pop().expect("the backend was asked")
    }

    pub fn nonsense(&self) -> Vec<String> {
        self.record.nonsense.lock().expect("no test panics with this lock").clone()
    }

    pub fn connections(&self) -> usize {
        *self.record.connections.borrow()
    }

    /// Those of them that have not ended.
    pub fn open(&self) -> usize {
        self.record.open.load(Relaxed)
    }

    pub async fn asked(&self, times: usize) {
        reaches(&self.record.requests, times, "requests").await;
    }

    pub async fn left(&self, times: usize) {
        reaches(&self.record.abandoned, times, "connections left by the gateway").await;
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn reaches(count: &watch::Sender<usize>, at_least: usize, what: &str) {
    let mut count = count.subscribe();
    let reached = timeout(PATIENCE, count.wait_for(|it| *it >= at_least)).await.is_ok_and(|it| it.is_ok());
    assert!(reached, "{} of {at_least} {what}", *count.borrow());
}

async fn accept(listener: TcpListener, behaviour: Arc<Behaviour>, record: Arc<Record>) {
    // The set ends its connections when this task is aborted.
    let mut conversations = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                let _ = stream.set_nodelay(true);
                let (behaviour, record, connection) = (behaviour.clone(), record.clone(), number);
                number += 1;
                record.connections.send_modify(|it| *it += 1);
                record.open.fetch_add(1, Relaxed);
                conversations.spawn(async move {
                    let mut line = Line::new(stream);
                    if let Err(why) = behaviour::converse(&mut line, &behaviour, &record, connection).await
                        && why.kind() == bad("").kind()
                    {
                        record.nonsense(why.to_string());
                    }
                    record.open.fetch_sub(1, Relaxed);
                });
            }
            Some(_) = conversations.join_next() => {}
        }
    }
}
