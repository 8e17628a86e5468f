//! A small server of the DNS, over UDP and TCP, whose records a test changes.
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use hickory_resolver::proto::{
    op::{Message, ResponseCode},
    rr::{RData, Record, RecordType},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    task::JoinHandle,
};

/// How it is today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// Says that it failed.
    Fails,
    /// Says nothing.
    Silent,
}

struct Zone {
    records: HashMap<(String, RecordType), (u32, Vec<RData>)>,
    mood: Mood,
    asked: usize,
    by_tcp: usize,
}

/// Ends when dropped.
pub struct Dns {
    pub address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    tasks: [JoinHandle<()>; 2],
}

impl Dns {
    pub async fn start() -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        let udp = UdpSocket::bind(address).await.expect("the same port");
        let zone = Arc::new(Mutex::new(Zone { records: HashMap::new(), mood: Mood::Well, asked: 0, by_tcp: 0 }));
        let (over_udp, over_tcp) = (zone.clone(), zone.clone());
        let first = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((size, from)) = udp.recv_from(&mut buffer).await {
                if let Some(bytes) = answer(&over_udp, &buffer[..size], Some(512)) {
                    let _ = udp.send_to(&bytes, from).await;
                }
            }
        });
        let second = tokio::spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let zone = over_tcp.clone();
                tokio::spawn(async move {
                    while let Ok(size) = stream.read_u16().await {
                        let mut query = vec![0; size.into()];
                        let Ok(_) = stream.read_exact(&mut query).await else { return };
                        let Some(bytes) = answer(&zone, &query, None) else { return };
                        zone.lock().expect("no test panics with this lock").by_tcp += 1;
                        let _ = stream.write_u16(bytes.len() as u16).await;
                        let _ = stream.write_all(&bytes).await;
                    }
                });
            }
        });
        Self { address, zone, tasks: [first, second] }
    }

    /// The line of the settings by which a gateway asks it.
    pub fn settings(&self) -> String {
        format!("dns: {{servers: [\"{}\"]}}", self.address)
    }

    /// `set("a.test", "A", 1, &["10.0.0.1"])`; nothing at all where the list is empty.
    pub fn set(&self, name: &str, kind: &str, ttl: u32, data: &[&str]) {
        let kind: RecordType = kind.parse().expect("a kind of record");
        let data = data.iter().map(|it| RData::try_from_str(kind, it).expect("data of a record")).collect();
        self.zone().records.insert((format!("{name}."), kind), (ttl, data));
    }

    pub fn mood(&self, mood: Mood) {
        self.zone().mood = mood;
    }

    /// How many questions there were, and how many of them over TCP.
    pub fn asked(&self) -> (usize, usize) {
        let zone = self.zone();
        (zone.asked, zone.by_tcp)
    }

    fn zone(&self) -> std::sync::MutexGuard<'_, Zone> {
        self.zone.lock().expect("no test panics with this lock")
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn answer(zone: &Mutex<Zone>, query: &[u8], most: Option<usize>) -> Option<Vec<u8>> {
    let mut zone = zone.lock().expect("no test panics with this lock");
    let query = Message::from_vec(query).ok()?;
    let asked = query.queries.first()?.clone();
    zone.asked += 1;
    let mut answer = Message::response(query.metadata.id, query.metadata.op_code);
    answer.metadata.recursion_desired = query.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.add_query(asked.clone());
    match zone.mood {
        Mood::Silent => return None,
        Mood::Fails => answer.metadata.response_code = ResponseCode::ServFail,
        Mood::Well => {
            let name = asked.name().to_ascii().to_lowercase();
            match zone.records.get(&(name.clone(), asked.query_type())) {
                Some((ttl, data)) => {
                    for it in data {
                        answer.add_answer(Record::from_rdata(asked.name().clone(), *ttl, it.clone()));
                    }
                }
                None if !zone.records.keys().any(|it| it.0 == name) => answer.metadata.response_code = ResponseCode::NXDomain,
                None => (),
            }
        }
    }
    let bytes = answer.to_vec().ok()?;
    match most {
        Some(most) if bytes.len() > most => answer.truncate().to_vec().ok(),
        _ => Some(bytes),
    }
}
