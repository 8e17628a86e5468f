//! Backends that others wrote, started for a test from what `scripts/setup.sh peers` installed.
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::folder::Folder;

/// A gRPC backend by grpcio; ends when dropped.
pub struct Grpcio {
    child: Child,
    /// Where it speaks the binary form.
    pub proto: String,
    /// Where it speaks JSON.
    pub json: String,
    /// Its descriptors, serialized.
    pub descriptors: Vec<u8>,
    folder: Folder,
}

/// The folder of the project.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The text of what it serves.
pub fn lab_proto() -> String {
    std::fs::read_to_string(root().join("tests/peers/lab.proto")).expect("tests/peers/lab.proto")
}

impl Grpcio {
    pub fn start() -> Self {
        let python: PathBuf = root().join(".build/tests/venv/bin/python");
        assert!(python.exists(), "grpcio is not installed: run `scripts/setup.sh peers`, as `make test` does");
        let peers = root().join("tests/peers");
        let descriptors = protox_set(&peers);
        let folder = Folder::new();
        let file = folder.write_bytes("lab.binpb", &descriptors);
        let mut child = Command::new(python)
            .arg(peers.join("grpc_server.py"))
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("its ports");
        let (proto, json) = line.trim().split_once(' ').expect("two ports");
        let at = |port: &str| format!("127.0.0.1:{port}");
        Self { proto: at(proto), json: at(json), descriptors, child, folder }
    }
}

/// Calls `lab.v1.Lab` by grpcio's client, and tells what came.
pub async fn grpcio_calls(peer: &Grpcio, address: std::net::SocketAddr) -> serde_json::Value {
    let descriptors = peer.folder.join("lab.binpb");
    let python = root().join(".build/tests/venv/bin/python");
    let script = root().join("tests/peers/grpc_client.py");
    let address = address.to_string();
    let run = move || Command::new(python).arg(script).arg(descriptors).arg(address).output().expect("python starts");
    let it = tokio::task::spawn_blocking(run).await.expect("no panic");
    assert!(it.status.success(), "{}", String::from_utf8_lossy(&it.stderr));
    serde_json::from_slice(&it.stdout).expect("one document")
}

impl Drop for Grpcio {
    fn drop(&mut self) {
        // Its standard input ends, and so it does; waiting leaves no zombie.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn protox_set(folder: &Path) -> Vec<u8> {
    let read = |folder: &Path, name: &str| {
        let bytes = std::fs::read(folder.join(name)).expect(name);
        gateway::compile::descriptors::read(folder, name, &bytes, true).unwrap_or_else(|why| panic!("{why}"))
    };
    let mut set = read(folder, "lab.proto").encode_to_vec();
    // Serialized messages one behind the other are one message with the lists of both.
    set.extend(read(&root().join("routes/grpc"), "profile.proto").encode_to_vec());
    set
}
