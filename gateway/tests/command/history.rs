//! `allium history` and `allium rollback`, beside a gateway that runs.
use std::{
    fs,
    process::Child,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::bench::{Bench, UPSTREAM, api};

/// A gateway of this folder; ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SETTINGS: &str = "listen: [{address: \"127.0.0.1:0\"}]\nadmin: {address: \"127.0.0.1:0\"}\nworkers: 1\n";

fn bench() -> (Bench, Running) {
    let bench = Bench::new(&[("allium.yaml", SETTINGS), ("routes/u.yaml", UPSTREAM), ("routes/a.yaml", &api("a", "/a"))]);
    let running = Running(bench.command(&["run"]).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap());
    (bench, running)
}

fn states(bench: &Bench) -> Vec<Value> {
    serde_json::from_str::<Value>(&bench.check(&["history", "--format", "json"], 0).out).unwrap().as_array().unwrap().clone()
}

/// Waits until this many states are kept, and gives the newest.
fn wait(bench: &Bench, count: usize) -> Value {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let all = states(bench);
        if all.len() == count {
            return all[0].clone();
        }
        assert!(Instant::now() < end && all.len() < count, "{all:#?}");
        #[expect(clippy::disallowed_methods, reason = "a test that waits for another process")]
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_was_served_can_be_served_again() {
    let (bench, _running) = bench();
    let first = wait(&bench, 1);
    assert_eq!((&first["state"], &first["who"]), (&Value::from(1), &Value::from("start")));
    bench.write("routes/a.yaml", &api("a", "/changed"));
    bench.write("routes/b.yaml", &api("b", "/b"));
    let second = wait(&bench, 2);
    assert_eq!((&second["who"], &second["changed"][0], &second["added"][0]), (&"files".into(), &"a.yaml".into(), &"b.yaml".into()));

    let told = bench.check(&["history", "2"], 0).out;
    assert!(told.contains("+ Api b@v1") && told.contains("~ Api a@v1") && told.contains("/changed"), "{told}");
    let told = bench.check(&["diff", "@1", "routes"], 1).out;
    assert!(told.contains("+ Api b@v1"), "{told}");
    bench.check(&["diff", "@2", "routes"], 0);

    let told = bench.check(&["rollback", "1", "--dry-run"], 0).out;
    assert!(told.contains("~ routes/a.yaml") && told.contains("- routes/b.yaml"), "{told}");
    assert!(bench.0.join("routes/b.yaml").exists(), "nothing was changed");
    bench.check(&["rollback", "1", "--why", "b is slow"], 0);
    let third = wait(&bench, 3);
    assert_eq!((&third["why"], &third["revision"]), (&"back to 1: b is slow".into(), &first["revision"]));
    assert!(!bench.0.join("routes/b.yaml").exists() && bench.read("routes/a.yaml") == api("a", "/a"));
    assert!(bench.check(&["rollback", "1"], 0).err.contains("already"));
}

#[test]
fn what_nobody_served_is_kept_before_it_is_replaced() {
    let (bench, running) = bench();
    wait(&bench, 1);
    drop(running);
    bench.write("routes/a.yaml", "kind: Apii\n");
    bench.check(&["rollback", "1"], 0);
    assert_eq!(bench.read("routes/a.yaml"), api("a", "/a"));
    let kept = wait(&bench, 2);
    assert_eq!(kept["whole"], false);
    let inside = fs::read_dir(bench.0.join(".allium/routes/history/contents")).unwrap();
    assert!(inside.flatten().any(|it| fs::read_to_string(it.path()).unwrap() == "kind: Apii\n"));
    let it = bench.check(&["rollback", "2"], 1);
    assert!(it.err.contains("has faults today") && it.err.contains("routes/a.yaml:1:"), "{}", it.err);
}

#[test]
fn a_state_that_is_not_there_is_told() {
    let bench = Bench::new(&[("allium.yaml", SETTINGS), ("routes/u.yaml", UPSTREAM), ("routes/a.yaml", &api("a", "/a"))]);
    assert!(bench.check(&["history"], 0).err.contains("nothing is kept yet"));
    for arguments in [&["rollback", "7"][..], &["history", "7"], &["diff", "@7", "routes"]] {
        assert!(bench.check(arguments, 1).err.contains("there is no state \"7\""));
    }
}
