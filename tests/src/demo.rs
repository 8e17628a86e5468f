//! The backends behind `routes/demo`, at the addresses that its definitions name.
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use crate::{backend::Backend, behaviour::Behaviour};

/// A backend of the demo: its name, its address as the definitions have it, how it behaves.
const PARTS: &[(&str, u16)] = &[("customers", 9101), ("events", 9102), ("shop", 9103)];

/// Nobody listens here: the report service of the demo is always down.
const DOWN: u16 = 9109;

/// What the shop knows.
const SHOP: &[(&str, &str)] = &[
    ("/profile/7", r#"{"account_id":"a1","name":"Ada"}"#),
    ("/orders?account=a1", r#"{"items":[{"tracking_no":"T1","total":19.90},{"tracking_no":"T2","total":5.00}]}"#),
    ("/track/T1", r#"{"tracking_no":"T1","status":"delivered"}"#),
    ("/track/T2", r#"{"tracking_no":"T2","status":"on its way"}"#),
];

pub struct Backends {
    running: Vec<(u16, Backend)>,
}

fn behaviour(name: &str) -> Behaviour {
    match name {
        "events" => Behaviour::Sse { every: Duration::from_secs(1), events: usize::MAX },
        "shop" => Behaviour::ByPath(SHOP),
        _ => Behaviour::Summary,
    }
}

impl Backends {
    /// Where the definitions say. Errors: the name and the address that is taken.
    pub async fn in_place() -> Result<Self, String> {
        let mut running = Vec::new();
        for (name, port) in PARTS {
            let address = SocketAddr::from(([127, 0, 0, 1], *port));
            TcpListener::bind(address).map_err(|why| format!("the demo's backend {name} needs {address}: {why}"))?;
            running.push((*port, Backend::start_at(address, behaviour(name)).await));
        }
        Ok(Self { running })
    }

    /// On ports that the system chooses, for tests.
    pub async fn anywhere() -> Self {
        let mut running = Vec::new();
        for (name, port) in PARTS {
            running.push((*port, Backend::start(behaviour(name)).await));
        }
        Self { running }
    }

    /// Makes a copy of the definitions name the ports that were chosen.
    pub async fn rewrite(&self, folder: &Path) {
        let mut ports: Vec<(u16, u16)> = self.running.iter().map(|(port, it)| (*port, it.address.port())).collect();
        ports.push((DOWN, Backend::nobody().await.port()));
        for entry in fs::read_dir(folder).expect("the folder of definitions").flatten() {
            let text = fs::read_to_string(entry.path()).expect("a text file");
            let text = ports.iter().fold(text, |text, (from, to)| text.replace(&format!("127.0.0.1:{from}"), &format!("127.0.0.1:{to}")));
            fs::write(entry.path(), text).expect("a file to write");
        }
    }
}
