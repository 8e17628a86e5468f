//! Definitions change again and again under load, with streams open: nobody notices, and nothing is left over.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tests::{
    aside::memory,
    backend::Backend,
    behaviour::Behaviour,
    harness::{Gateway, SILENT, fill},
    message::latin1,
    websocket::{Frame, opening},
    wire::{Wire, request},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

struct Soak {
    reloads: usize,
    clients: usize,
    /// Of each kind.
    streams: usize,
    /// How long after the load memory is looked at.
    settle: Duration,
    /// How much more it may be than before; nothing where other cases share the process, and with it the memory that is measured.
    more: Option<u64>,
}

/// Files that stay as they are.
const STAYS: &str = "
kind: Upstream\nname: echo\nnodes: [{address: $1}]\n---
kind: Upstream\nname: sse\nnodes: [{address: $2}]\n---
kind: Upstream\nname: ws\nnodes: [{address: $3}]\n---
kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: \"/a/{id}\", params: {id: {in: path, type: integer, minimum: 0}}}\nproxy: {http: {upstream: echo}}\n---
kind: Api\ninfo: {name: sse, version: v1}\ninbound: {match: /sse}\nproxy: {http: {upstream: sse}}\n---
kind: Api\ninfo: {name: ws, version: v1}\ninbound: {match: /ws}\nproxy: {http: {upstream: ws}}
";

/// The file that changes: an Api, its rings, its Upstream with the connections, a name to resolve, and an Api of another name each time.
const CHANGES: &str = "
kind: Upstream\nname: moving\nnodes: [{address: $1}]\ntimeouts: {first_byte: $2s}\n---
kind: Upstream\nname: named\nnodes: [{address: \"localhost:$3\"}]\ntimeouts: {first_byte: $2s}\n---
kind: Api\ninfo: {name: b, version: v1}\ninbound: {match: /b, params: {q: {in: query, type: integer, maximum: $2}}}
plugins: [{headers: {response: {set: {x-n: \"$2\"}}}}]\nproxy: {http: {upstream: moving}}\n---
kind: Api\ninfo: {name: c, version: v1}\ninbound: {match: /c}\nproxy: {http: {upstream: named}}\n---
kind: Api\ninfo: {name: other-$2, version: v1}\ninbound: {match: /other-$2}\nproxy: {respond: {status: 204}}
";

struct Stage {
    gateway: Gateway,
    echo: Backend,
    sse: Backend,
    ws: Backend,
    asked: AtomicUsize,
    over: AtomicBool,
}

impl Stage {
    async fn set() -> Arc<Self> {
        let echo = Backend::forgetful().await;
        let sse = Backend::start(Behaviour::Sse { every: Duration::from_millis(25), events: usize::MAX }).await;
        let ws = Backend::start(Behaviour::Websocket).await;
        let setup = Gateway::with(&fill(STAYS, &[&echo.address, &sse.address, &ws.address]))
            .file("routes/changes.yaml", &changes(&echo, 1))
            .settings("workers: 2")
            .settings(SILENT)
            .settings("limits: {drain: {wait: 1ms, time: 2s}, connection: {requests: 1000000000}}");
        let gateway = setup.start().await;
        Arc::new(Self { gateway, echo, sse, ws, asked: AtomicUsize::new(0), over: AtomicBool::new(false) })
    }

    /// Writes the changing file for the `n`-th time, and returns when it is served.
    async fn change(&self, wire: &mut Wire, n: usize) {
        self.gateway.folder.replace("routes/changes.yaml", &changes(&self.echo, n));
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            wire.send(request("GET /b", &[], "")).await;
            if wire.answer().await.is(200).header("x-n") == Some(&n.to_string()) {
                return;
            }
            assert!(Instant::now() < end, "change {n} is not served");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// One client on one connection, until it is over.
    async fn ask(self: Arc<Self>, number: usize) {
        let asks = [
            request(&format!("GET /a/{number}?x=1"), &[], ""),
            request(&format!("POST /a/{number}"), &[], "a body that is sent along"),
            request("GET /b?q=1", &[], ""),
            request("GET /c", &[], ""),
        ];
        let mut wire = self.gateway.wire().await;
        for turn in 0_usize.. {
            if self.over.load(Relaxed) {
                return;
            }
            wire.send(&asks[turn % asks.len()]).await;
            let answer = wire.answer().await.is(200);
            assert!(answer.complete, "{}", answer.text());
            self.asked.fetch_add(1, Relaxed);
        }
    }

    /// Reads events, in order and without a gap, for ever.
    async fn listen(self: Arc<Self>) {
        let mut wire = self.gateway.wire().await;
        wire.send(request("GET /sse", &[], "")).await;
        assert_eq!(wire.head().await.status(), 200);
        for id in 1_usize.. {
            assert_eq!(latin1(&wire.chunk().await), format!("id: {id}\ndata: event {id}\n\n"));
        }
    }

    /// Talks over a WebSocket, for ever.
    async fn talk(self: Arc<Self>, number: usize) {
        let mut wire = self.gateway.wire().await;
        wire.send(opening("/ws")).await;
        assert_eq!(wire.head().await.status(), 101);
        for turn in 0_usize.. {
            let frame = Frame::text(&format!("{number} says {turn}"));
            wire.send(frame.masked()).await;
            assert_eq!(latin1(&wire.exactly(frame.unmasked().len()).await), latin1(&frame.unmasked()));
            sleep(Duration::from_millis(25)).await;
        }
    }
}

fn changes(echo: &Backend, n: usize) -> String {
    fill(CHANGES, &[&echo.address, &n, &echo.address.port()])
}

async fn soak(it: Soak) {
    let stage = Stage::set().await;
    let mut streams = JoinSet::new();
    for number in 0..it.streams {
        streams.spawn(stage.clone().listen());
        streams.spawn(stage.clone().talk(number));
    }
    let cold = memory();
    let mut before = 0;
    let mut took = Vec::new();
    // The first round warms up: what the allocator once took from the system, it keeps.
    for (reloads, measured) in [(it.reloads.div_ceil(10), false), (it.reloads, true)] {
        stage.over.store(false, Relaxed);
        stage.asked.store(0, Relaxed);
        let mut clients = JoinSet::new();
        for number in 0..it.clients {
            clients.spawn(stage.clone().ask(number));
        }
        let mut wire = stage.gateway.wire().await;
        let begun = Instant::now();
        for n in 0..reloads {
            let begun = Instant::now();
            stage.change(&mut wire, if measured { 10_000 + n } else { 2 + n }).await;
            took.push(begun.elapsed());
            if let Some(fault) = clients.try_join_next().or_else(|| streams.try_join_next()) {
                panic!("after {n} reloads: {fault:?}");
            }
        }
        let all = begun.elapsed();
        stage.over.store(true, Relaxed);
        while let Some(client) = clients.join_next().await {
            client.expect("no request failed");
        }
        let asked = stage.asked.load(Relaxed);
        if !measured {
            sleep(it.settle).await;
            before = memory();
            took.clear();
            continue;
        }
        took.sort();
        println!(
            "{reloads} reloads in {all:?} (each {:?} in the middle, {:?} at worst) under {asked} requests ({:.0} a second)",
            took[took.len() / 2],
            took[took.len() - 1],
            asked as f64 / all.as_secs_f64()
        );

        assert!(asked > reloads, "{asked} requests are no load");
    }
    let last = memory();
    sleep(it.settle).await;
    let after = memory();
    let mib = |it: u64| it as f64 / (1 << 20) as f64;
    println!(
        "memory: {:.1} MiB at first, {:.1} before, {:.1} right after, {:.1} MiB {:?} later",
        mib(cold),
        mib(before),
        mib(last),
        mib(after),
        it.settle
    );
    println!("connections to the backend: {} opened, {} open", stage.echo.connections(), stage.echo.open());
    // None of them has ended.
    assert!(streams.try_join_next().is_none());
    let open = timeout(Duration::from_millis(200), streams.join_next()).await;
    assert!(open.is_err(), "{open:?}");
    assert_eq!((stage.sse.connections(), stage.ws.connections()), (it.streams, it.streams), "each stream is still its first connection");
    assert!(stage.echo.nonsense().is_empty(), "{:?}", stage.echo.nonsense());
    if let Some(more) = it.more {
        assert!(after < before + more, "{:.1} MiB more than before", mib(after.saturating_sub(before)));
    }
    streams.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reloads_under_load_fail_no_request_and_close_no_stream() {
    soak(Soak { reloads: 100, clients: 4, streams: 2, settle: Duration::from_secs(1), more: None }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes, and an optimized build: make soak"]
async fn five_hundred_reloads_under_full_load_leave_nothing_behind() {
    soak(Soak { reloads: 500, clients: 16, streams: 8, settle: Duration::from_secs(60), more: Some(10 << 20) }).await;
}
