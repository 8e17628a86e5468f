//! A real Redis, which can be killed, frozen and started again.
use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tokio::{net::TcpStream, time::sleep};

use crate::message::PATIENCE;

/// A server of its own, on a port of its own, that keeps nothing. It ends with this.
pub struct Redis {
    pub address: SocketAddr,
    password: Option<&'static str>,
    child: Option<Child>,
}

impl Redis {
    pub async fn start() -> Self {
        Self::with(None).await
    }

    pub async fn with(password: Option<&'static str>) -> Self {
        let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port");
        let mut it = Self { address, password, child: None };
        it.again().await;
        it
    }

    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    /// Starts it where it was.
    pub async fn again(&mut self) {
        let port = self.address.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "/"]);
        command.args(self.password.iter().flat_map(|it| ["--requirepass", it]));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("redis-server; `make test` installs it"));
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).await.is_err() {
            assert!(Instant::now() < end, "redis-server does not listen");
            sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn kill(&mut self) {
        if let Some(mut it) = self.child.take() {
            let _ = it.kill();
            let _ = it.wait();
        }
    }

    /// It accepts connections, and answers nothing.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().expect("kill").success());
    }

    /// One command, as words.
    pub async fn ask(&self, words: &[&str]) -> redis::Value {
        let client = redis::Client::open(self.url()).expect("a URL");
        let mut link = client.get_multiplexed_async_connection().await.expect("a connection");
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut link).await.expect("an answer")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
