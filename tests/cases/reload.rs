//! Definitions change while the gateway serves: how a change is noticed, what stays, what a fault does.
use std::{
    fs,
    os::unix::fs::symlink,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use contract::{
    catalog::{self, Configure, Entry, Fault, RingNotes},
    env::Env,
    onion::Filter,
};
use gateway::compile::Snapshot;
use schemas::{Id, Kind};
use tests::{
    aside::Aside,
    backend::Backend,
    behaviour::Behaviour,
    folder::Folder,
    harness::{Gateway, echo_api, fill},
    message::latin1,
    websocket::{Frame, opening},
    wire::request,
};

/// An Api that answers with a number.
fn numbered(name: &str, n: usize) -> String {
    fill("kind: Api\ninfo: {name: $1, version: v1}\ninbound: {match: /$1}\nproxy: {respond: {status: 200, body: {n: $2}}}\n", &[&name, &n])
}

async fn number(gateway: &Gateway, target: &str) -> Option<u64> {
    let answer = gateway.get(target).await;
    (answer.status == 200).then(|| answer.json()["n"].as_u64().expect("a number"))
}

/// Whether a fault of the report names this file.
fn blames(report: &serde_json::Value, file: &str) -> bool {
    report["faults"].to_string().contains(file)
}

#[tokio::test]
async fn a_change_is_served_however_it_is_written() {
    type Write = fn(&Folder, &str);
    let ways: [(&str, Write); 4] = [
        ("in place", |it, text| drop(it.write("routes/api.yaml", text))),
        ("beside and renamed over", |it, text| it.replace("routes/api.yaml", text)),
        ("the old one moved away first, as vim does", |it, text| {
            fs::rename(it.join("routes/api.yaml"), it.join("routes/api.yaml~")).expect("a rename");
            it.write("routes/api.yaml", text);
            it.remove("routes/api.yaml~");
        }),
        ("removed and written anew", |it, text| {
            it.remove("routes/api.yaml");
            it.write("routes/api.yaml", text);
        }),
    ];
    let gateway = Gateway::serving(&numbered("a", 0)).await;
    for (n, (way, write)) in ways.iter().enumerate() {
        gateway.reload(|it| write(it, &numbered("a", n + 1))).await;
        // A reload may have caught the moment in which the file was gone.
        let end = tokio::time::Instant::now() + Duration::from_secs(5);
        while number(&gateway, "/a").await != Some(n as u64 + 1) {
            assert!(tokio::time::Instant::now() < end, "{way}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_file_may_come_be_renamed_and_go_in_a_new_folder_too() {
    let gateway = Gateway::serving(&numbered("a", 1)).await;
    gateway.reload(|it| drop(it.write("routes/team/deep/b.yaml", &numbered("b", 2)))).await;
    assert_eq!((number(&gateway, "/a").await, number(&gateway, "/b").await), (Some(1), Some(2)));
    fs::rename(gateway.folder.join("routes/team/deep/b.yaml"), gateway.folder.join("routes/team/c.yaml")).expect("a rename");
    gateway.reload(|it| drop(it.write("routes/d.yaml", &numbered("d", 4)))).await;
    assert_eq!((number(&gateway, "/b").await, number(&gateway, "/d").await), (Some(2), Some(4)));
    gateway.reload(|it| it.remove("routes/team/c.yaml")).await;
    assert_eq!((number(&gateway, "/a").await, number(&gateway, "/b").await), (Some(1), None));
}

#[tokio::test]
async fn a_folder_of_kubernetes_that_is_swapped_by_a_link_is_noticed() {
    // ConfigMap volumes: file → ..data/file, ..data → ..stamp, and the link is renamed over.
    let setup = Gateway::with(&numbered("other", 0));
    let at = setup.folder().join("routes");
    let publish = |stamp: &str, n: usize| {
        fs::create_dir_all(at.join(stamp)).expect("a folder");
        fs::write(at.join(stamp).join("a.yaml"), numbered("a", n)).expect("a file");
        symlink(stamp, at.join("..data_tmp")).expect("a link");
        fs::rename(at.join("..data_tmp"), at.join("..data")).expect("a rename");
    };
    publish("..2027_01", 1);
    symlink("..data/a.yaml", at.join("a.yaml")).expect("a link");
    let gateway = setup.start().await;
    assert_eq!(number(&gateway, "/a").await, Some(1));
    for n in 2..4 {
        gateway.reload(|_| publish(&format!("..2027_0{n}"), n)).await;
        fs::remove_dir_all(gateway.folder.join(&format!("routes/..2027_0{}", n - 1))).expect("the old one goes");
        assert_eq!(number(&gateway, "/a").await, Some(n as u64));
    }
}

#[tokio::test]
async fn a_faulty_document_keeps_its_last_good_version_and_all_else_goes_on() {
    let two = |a: &str, b: usize| format!("{a}---\n{}", numbered("b", b));
    let gateway = Gateway::serving(&two(&numbered("a", 1), 1)).await;
    let report = gateway.redefine(&two(&numbered("a", 2).replace("respond", "repsond"), 2)).await;
    assert!(blames(&report, "api.yaml"), "{report}");
    assert_eq!((number(&gateway, "/a").await, number(&gateway, "/b").await), (Some(1), Some(2)));
    let report = gateway.redefine(&two(&numbered("a", 3), 3)).await;
    assert!(!blames(&report, "api.yaml"), "{report}");
    assert_eq!((number(&gateway, "/a").await, number(&gateway, "/b").await), (Some(3), Some(3)));
}

#[tokio::test]
async fn a_new_document_with_a_fault_stays_out() {
    let gateway = Gateway::serving(&numbered("a", 1)).await;
    let report = gateway.reload(|it| drop(it.write("routes/b.yaml", "kind: Api\ninfo: {name: b}\n"))).await;
    assert!(blames(&report, "b.yaml"), "{report}");
    assert_eq!((number(&gateway, "/a").await, gateway.get("/b").await.status), (Some(1), 404));
}

#[tokio::test]
async fn a_file_that_is_no_yaml_at_all_changes_nothing() {
    let gateway = Gateway::serving(&numbered("a", 1)).await;
    for text in ["{{{", "kind: Api\n  bad: [", "\u{0}"] {
        gateway.redefine(text).await;
        assert_eq!(number(&gateway, "/a").await, Some(1), "{text:?}");
        gateway.redefine(&numbered("a", 1)).await;
    }
}

#[tokio::test]
async fn a_file_that_is_emptied_keeps_what_it_held_until_it_is_written_or_gone() {
    let gateway = Gateway::serving(&numbered("a", 1)).await;
    let report = gateway.redefine("").await;
    assert!(blames(&report, "api.yaml"), "{report}");
    assert_eq!(number(&gateway, "/a").await, Some(1));
    gateway.redefine(&numbered("a", 2)).await;
    assert_eq!(number(&gateway, "/a").await, Some(2));
    gateway.reload(|it| it.remove("routes/api.yaml")).await;
    assert_eq!(gateway.get("/a").await.status, 404);
}

#[tokio::test]
async fn what_does_not_fit_together_keeps_the_whole_last_good_snapshot() {
    let gateway = Gateway::serving(&numbered("a", 1)).await;
    // Two that cannot be told apart.
    let clash = [numbered("a", 2), numbered("c", 2).replace("/c", "/a")].join("---\n");
    let report = gateway.redefine(&clash).await;
    assert!(blames(&report, "api.yaml"), "{report}");
    assert_eq!(number(&gateway, "/a").await, Some(1));
}

#[tokio::test]
async fn the_last_good_outlives_a_restart_on_broken_definitions() {
    let setup = Gateway::with("kind: Apii\n");
    assert!(setup.try_start().await.is_err(), "nothing good was ever there");
    let gateway = Gateway::serving(&numbered("a", 1)).await;
    // It is written beside the work, on a disk that may be slow.
    let kept = || {
        fs::read_dir(gateway.folder.path().join(".allium"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|it| it.path().extension().is_some_and(|it| it == "binpb"))
    };
    while !kept() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gateway.redefine("kind: Apii\n").await;
    let folder = Folder::new();
    copy(gateway.folder.path(), folder.path());
    gateway.stop().await;
    let gateway = Gateway::again(folder).await;
    assert_eq!(number(&gateway, "/a").await, Some(1));
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}

#[tokio::test]
async fn a_request_keeps_the_snapshot_it_began_with() {
    let slow = Backend::start(Behaviour::Slow(Duration::from_millis(500))).await;
    let gateway = Gateway::serving(&echo_api(slow.address, "/a", "outbound: {headers: {set: {x-version: old}}}")).await;
    let mut wire = gateway.wire().await;
    wire.send(request("GET /a", &[], "")).await;
    slow.asked(1).await;
    gateway.redefine(&numbered("b", 1)).await;
    assert_eq!(wire.answer().await.is(200).header("x-version"), Some("old"));
    assert_eq!(gateway.get("/a").await.status, 404);
}

#[tokio::test]
async fn streams_outlive_an_unrelated_change() {
    let (sse, ws) = (
        Backend::start(Behaviour::Sse { every: Duration::from_millis(50), events: usize::MAX }).await,
        Backend::start(Behaviour::Websocket).await,
    );
    let text = "kind: Upstream\nname: sse\nnodes: [{address: $1}]\n---\nkind: Upstream\nname: ws\nnodes: [{address: $2}]\n---
kind: Api\ninfo: {name: sse, version: v1}\ninbound: {match: /sse}\nproxy: {http: {upstream: sse}}\n---
kind: Api\ninfo: {name: ws, version: v1}\ninbound: {match: /ws}\nproxy: {http: {upstream: ws}}\n";
    let gateway = Gateway::serving(&fill(text, &[&sse.address, &ws.address])).await;
    let mut events = gateway.wire().await;
    events.send(request("GET /sse", &[], "")).await;
    assert_eq!(events.head().await.status(), 200);
    let mut socket = gateway.wire().await;
    socket.send(opening("/ws")).await;
    assert_eq!(socket.head().await.status(), 101);
    for n in 0..5 {
        gateway.reload(|it| drop(it.write("routes/b.yaml", &numbered("b", n)))).await;
    }
    let frame = Frame::text("still here");
    socket.send(frame.masked()).await;
    assert_eq!(socket.exactly(frame.unmasked().len()).await, frame.unmasked());
    // What was sent in the meantime, and what comes now.
    for id in 1..=10 {
        assert_eq!(latin1(&events.chunk().await), format!("id: {id}\ndata: event {id}\n\n"));
    }
}

#[tokio::test]
async fn an_unchanged_route_keeps_its_connections() {
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", "")).await;
    gateway.get("/a").await.is(200);
    for n in 0..20 {
        gateway.reload(|it| drop(it.write("routes/b.yaml", &numbered("b", n)))).await;
        gateway.get("/a").await.is(200);
    }
    assert_eq!(backend.connections(), 1, "the pool belongs to the upstream, which did not change");
}

#[tokio::test]
async fn connections_to_a_backend_that_nobody_names_any_more_are_closed() {
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", "")).await;
    gateway.get("/a").await.is(200);
    assert_eq!((backend.connections(), backend.open()), (1, 1));
    gateway.redefine(&numbered("a", 1)).await;
    // Long before they were idle for too long.
    let end = tokio::time::Instant::now() + Duration::from_secs(8);
    while backend.open() > 0 {
        assert!(tokio::time::Instant::now() < end, "still open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A ring that only holds a state.
struct Remembers(#[expect(dead_code, reason = "held, so that it is kept")] Arc<AtomicUsize>);

/// How often a state was made, for all tests of this file; only one uses it.
static MADE: AtomicUsize = AtomicUsize::new(0);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Anything {
    #[serde(default)]
    #[expect(dead_code, reason = "another value is another configuration")]
    size: u32,
}

impl Configure for Remembers {
    type Config = Anything;
    const NAME: &'static str = "remembers";
    const ABOUT: &'static str = "Remembers that it was there.";
    const NOTES: RingNotes = RingNotes { reads: "", answers: "", authenticates: false, rewrites_body: false };
    fn configure(_: Anything, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        Ok(Self(env.state(|| AtomicUsize::new(MADE.fetch_add(1, Ordering::Relaxed)))))
    }
}

impl Filter for Remembers {}

#[test]
fn a_ring_keeps_its_state_until_its_own_configuration_changes() {
    static PLUGINS: [Entry; 1] = [catalog::filter::<Remembers>()];
    let folder = Folder::new();
    let aside = Aside::with(&PLUGINS, folder.path());
    let text = |timeout: &str, size: usize, other: usize| {
        let text = "kind: Upstream\nname: u\nnodes: [{address: \"127.0.0.1:1\"}]\n---
kind: Preset\nname: p\nplugins: [{remembers: {size: 1}}]\n---
kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /a}\nproxy: {http: {upstream: u}, timeout: $1}
plugins: [{use: p}, {remembers: {size: $2}}]\n---\n$3";
        fill(text, &[&timeout, &size, &numbered("b", other)])
    };
    let mut snapshot = aside.text(&text("1s", 1, 0), None);
    let route = |it: &Snapshot| {
        let id = Id { kind: Kind::Api, name: "a".into(), version: Some("v1".into()) };
        it.route(&id).expect("the Api a").clone()
    };
    assert_eq!(MADE.load(Ordering::Relaxed), 2, "one for each ring");
    // (timeout, size, the neighbour), states made in all, whether the route stays the same object.
    for (change, made, same) in [
        (("1s", 1, 1), 2, true),
        (("1s", 1, 2), 2, true),
        (("2s", 1, 2), 2, false),
        (("2s", 7, 2), 3, false),
        (("2s", 7, 3), 3, true),
        // Its former state went when nobody held it any more.
        (("2s", 1, 3), 4, false),
    ] {
        let (timeout, size, other) = change;
        let next = aside.text(&text(timeout, size, other), Some(&snapshot));
        assert_eq!(MADE.load(Ordering::Relaxed), made, "{change:?}");
        assert_eq!(Arc::ptr_eq(&route(&snapshot), &route(&next)), same, "{change:?}");
        assert!(std::ptr::eq(&**snapshot.upstreams().next().unwrap(), &**next.upstreams().next().unwrap()), "the Upstream never changed");
        snapshot = next;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_definitions_change() {
    let backend = Backend::echo().await;
    let setup = Gateway::with(&echo_api(backend.address, "/a", ""))
        .settings("limits: {drain: {wait: 1ms, time: 2s}, connection: {requests: 1000000}}");
    let gateway = Arc::new(setup.start().await);
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (gateway, stop, asked) = (gateway.clone(), stop.clone(), asked.clone());
        clients.spawn(async move {
            let mut wire = gateway.wire().await;
            while !stop.load(Ordering::Relaxed) {
                wire.send(request("GET /a", &[], "")).await;
                wire.answer().await.is(200);
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for n in 0..50 {
        gateway.reload(|it| drop(it.write("routes/b.yaml", &numbered("b", n)))).await;
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.expect("no request failed");
    }
    assert!(asked.load(Ordering::Relaxed) > 50);
    assert!(backend.nonsense().is_empty());
}

#[tokio::test]
async fn a_file_that_cannot_be_taken_holds_up_no_other() {
    let gateway = Gateway::with(&numbered("a", 1)).file("routes/b.yaml", &numbered("b", 1)).start().await;
    let report = gateway.reload(|it| it.replace("routes/b.yaml", &" ".repeat((16 << 20) + 1))).await;
    assert!(blames(&report, "b.yaml") && !blames(&report, "api.yaml"), "{report}");
    // A pipe without an end, and a link to nothing.
    for (name, to) in [("pipe.yaml", "/dev/zero"), ("nothing.yaml", "nothing")] {
        symlink(to, gateway.folder.join("routes").join(name)).expect("a link");
    }
    gateway.redefine(&numbered("a", 2)).await;
    assert_eq!(number(&gateway, "/a").await, Some(2), "what can be read is served");
    assert_eq!(number(&gateway, "/b").await, Some(1), "what cannot keeps its last good version");
}

#[tokio::test]
async fn a_folder_that_comes_back_as_it_was_is_well_again() {
    let gateway = Gateway::serving(&numbered("a", 1)).await;
    let (here, away) = (gateway.folder.join("routes"), gateway.folder.join("away"));
    let report = gateway.reload(|_| fs::rename(&here, &away).expect("a rename")).await;
    assert!(blames(&report, "unreadable"), "{report}");
    assert_eq!(number(&gateway, "/a").await, Some(1));
    let report = gateway.reload(|_| fs::rename(&away, &here).expect("a rename")).await;
    assert!(report["faults"].as_array().is_some_and(Vec::is_empty), "{report}");
}
