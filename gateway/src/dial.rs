//! Opens connections to nodes: TCP, and TLS over it where that is asked for.
mod failed;
mod said;
mod stream;
mod tls;

use std::{net::SocketAddr, sync::Arc};

use contract::CallError;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

use self::tls::Secured;
pub use self::{
    failed::Failed,
    said::refusal,
    stream::Stream,
    tls::{Handshakes, Spoken, Tls},
};

/// The way to one node; clones share its sessions.
#[derive(Clone, Default)]
pub struct Way(Option<Secured>);

// === impl Way ===

impl Way {
    /// In the clear.
    pub fn plain() -> Self {
        Self::default()
    }

    /// To the node at `address`, written as `host`: over TLS where there is some.
    pub fn new(tls: Option<&Arc<Tls>>, host: &str, address: SocketAddr, spoken: Spoken) -> Self {
        Self(tls.map(|it| it.secured(host, address, spoken)))
    }

    /// Connects, and shakes hands over TLS where that is asked for, all of it until `by`.
    pub async fn open(&self, at: SocketAddr, by: Instant) -> Result<Stream, Failed> {
        let stream = match timeout_at(by, TcpStream::connect(at)).await {
            Ok(Ok(it)) => it,
            Ok(Err(error)) => return Err(Failed::because(CallError::Connect, "upstream_connect", error)),
            Err(_) => return Err(Failed::new(CallError::ConnectTimeout, "upstream_connect_timeout")),
        };
        // A connection that cannot be tuned still works.
        let _ = stream.set_nodelay(true);
        match &self.0 {
            None => Ok(Stream::Tcp(stream)),
            Some(it) => it.shake(stream, by).await.map(|it| Stream::Tls(Box::new(it))),
        }
    }
}
