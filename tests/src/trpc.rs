//! A tRPC backend in the place of a real one, which no registry has: its errors are frames that a real trpc-go server sent.
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::{JoinHandle, JoinSet},
    time::sleep,
};

const RECORDED: &str = include_str!("../../gateway/src/proxy/trpc/frame/recorded.json");

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    /// Connections whose client closed its side alone.
    half_closed: AtomicUsize,
    frames: Mutex<Vec<Vec<u8>>>,
}

/// Ends when dropped, with its connections. What it does stands in the message, under `do`.
pub struct TrpcBackend {
    pub address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

impl TrpcBackend {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen: Arc<Seen> = Arc::default();
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, SeqCst);
                connections.spawn(serve(stream, shared.clone()));
            }
        });
        Self { address, seen, task }
    }

    pub fn connections(&self) -> usize {
        self.seen.connections.load(SeqCst)
    }

    pub fn half_closed(&self) -> usize {
        self.seen.half_closed.load(SeqCst)
    }

    /// The last call, as it came.
    pub fn last(&self) -> Vec<u8> {
        self.seen.frames.lock().expect("no panic").last().cloned().expect("a call")
    }
}

impl Drop for TrpcBackend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: tokio::net::TcpStream, seen: Arc<Seen>) {
    let (mut reader, mut writer) = stream.into_split();
    let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel::<Vec<u8>>();
    let writing = tokio::spawn(async move {
        while let Some(it) = answers.recv().await {
            if it.is_empty() || writer.write_all(&it).await.is_err() {
                return;
            }
        }
    });
    loop {
        let mut frame = vec![0; 16];
        match reader.read_exact(&mut frame).await {
            Ok(_) => (),
            Err(it) => {
                if it.kind() == std::io::ErrorKind::UnexpectedEof && !sender.is_closed() {
                    seen.half_closed.fetch_add(1, SeqCst);
                }
                return;
            }
        }
        let total = u32::from_be_bytes(frame[4..8].try_into().expect("four")) as usize;
        frame.resize(total, 0);
        if reader.read_exact(&mut frame[16..]).await.is_err() {
            return;
        }
        seen.frames.lock().expect("no panic").push(frame.clone());
        let sender = sender.clone();
        tokio::spawn(async move {
            if let Some(it) = answer(&frame).await {
                let _ = sender.send(it);
            }
        });
        if writing.is_finished() {
            return;
        }
    }
}

async fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let end = 16 + usize::from(u16::from_be_bytes([frame[8], frame[9]]));
    let id = u32::from_be_bytes(frame[10..14].try_into().expect("four"));
    let message: Value = serde_json::from_slice(&frame[end..]).unwrap_or(Value::Null);
    sleep(Duration::from_millis(message["sleep_ms"].as_u64().unwrap_or(0))).await;
    let wanted = message["do"].as_str().unwrap_or("echo");
    let body = json!({"got": message}).to_string().into_bytes();
    Some(match wanted {
        "echo" => reply(id, 2, 0, &body),
        "silence" => return None,
        "close" => Vec::new(),
        "garbage" => b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        "protobuf" => reply(id, 0, 0, b"\x08\x01"),
        "snappy" => reply(id, 2, 5, &snap(&body)),
        "late" => {
            // One that nobody awaits, before the one that is.
            let mut two = reply(id.wrapping_add(1000), 2, 0, b"{}");
            two.extend(reply(id, 2, 0, &body));
            two
        }
        case => recorded(case, id),
    })
}

/// Literals alone, as Snappy allows.
fn snap(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, body.len() as u64);
    for piece in body.chunks(60) {
        out.push(((piece.len() - 1) << 2) as u8);
        out.extend_from_slice(piece);
    }
    out
}

fn reply(id: u32, content_type: u64, encoding: u64, body: &[u8]) -> Vec<u8> {
    let mut head = vec![0x18];
    varint(&mut head, id.into());
    // `app-user`, and one of the framework's own.
    for (name, value) in [("app-user", "u1"), ("trpc-env", "secret")] {
        head.extend([0x42, (name.len() + value.len() + 4) as u8, 0x0a, name.len() as u8]);
        head.extend(name.bytes());
        head.extend([0x12, value.len() as u8]);
        head.extend(value.bytes());
    }
    for (tag, value) in [(0x48, content_type), (0x50, encoding)] {
        if value > 0 {
            head.push(tag);
            varint(&mut head, value);
        }
    }
    let mut out = vec![0x09, 0x30, 0, 0];
    out.extend(((16 + head.len() + body.len()) as u32).to_be_bytes());
    out.extend((head.len() as u16).to_be_bytes());
    out.extend(id.to_be_bytes());
    out.extend([1, 0]);
    out.extend(head);
    out.extend_from_slice(body);
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What the real server answered, under another number.
fn recorded(case: &str, id: u32) -> Vec<u8> {
    let all: Value = serde_json::from_str(RECORDED).expect("the recording");
    let frames = all["cases"][case].as_array().unwrap_or_else(|| panic!("{case}"));
    let hex = frames.iter().find(|it| it["dir"] == "s2c").and_then(|it| it["hex"].as_str()).unwrap_or_else(|| panic!("{case}"));
    let mut frame: Vec<u8> = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect();
    frame[10..14].copy_from_slice(&id.to_be_bytes());
    assert!(frame[16] == 0x18 && id < 128, "the number is one byte");
    frame[17] = id as u8;
    frame
}
