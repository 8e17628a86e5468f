//! TLS to the nodes of one upstream: whom it trusts, whom it expects, and who it says that it is.
use std::{
    collections::HashMap,
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use contract::CallError;
use rustls::{
    ClientConfig, HandshakeKind, RootCertStore,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{failed::Failed, said};

/// Sessions that are remembered of each node: as many as TLS 1.3 hands out at once, and some that wait.
const SESSIONS: usize = 8;
/// More addresses than one upstream has at a time; beyond them all sessions are forgotten, which costs full handshakes.
const MOST_NODES: usize = 4096;

/// What is spoken inside of TLS, told by ALPN (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    Http1,
    Http2,
}

/// How TLS handshakes with the nodes of an upstream went.
#[derive(Debug, Default)]
pub struct Handshakes([AtomicU64; 4]);

/// How one of them went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Went {
    Full,
    Resumed,
    Failed,
    Timeout,
}

/// Of an upstream; the same for all threads.
pub struct Tls {
    /// What nodes must be certified as, where that is not the name in their address.
    name: Option<ServerName<'static>>,
    handshakes: Arc<Handshakes>,
    terms: ArcSwap<Terms>,
}

/// What comes from files, and the sessions that were begun under it: whoever is not trusted any more resumes none.
struct Terms {
    config: ClientConfig,
    /// In words: whom it trusts.
    trusts: Box<str>,
    /// By node: a session of one is of no use to another.
    sessions: Mutex<HashMap<SocketAddr, Resumption>>,
}

/// What TLS with one node needs.
#[derive(Clone)]
pub(super) struct Secured {
    tls: Arc<Tls>,
    node: SocketAddr,
    /// None where the address has no name that a certificate could have.
    name: Option<ServerName<'static>>,
    spoken: Spoken,
}

// === impl Spoken ===

impl Spoken {
    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        }
    }
}

// === impl Handshakes ===

impl Handshakes {
    const WORDS: [&str; 4] = ["full", "resumed", "failed", "timeout"];

    fn count(&self, went: Went) {
        self.0[went as usize].fetch_add(1, Relaxed);
    }

    /// Each result that there was, by its word.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::WORDS.into_iter().zip(&self.0).map(|(word, it)| (word, it.load(Relaxed))).filter(|it| it.1 > 0)
    }
}

// === impl Tls ===

impl Tls {
    /// Trusts what `config` trusts, which `trusts` says in words, and expects `name`, or the host of each node.
    pub fn new(config: ClientConfig, trusts: &str, name: Option<ServerName<'static>>, handshakes: Arc<Handshakes>) -> Arc<Self> {
        Arc::new(Self { name, handshakes, terms: ArcSwap::from_pointee(Terms::new(config, trusts)) })
    }

    /// What handshakes need. Certificates are always verified.
    ///
    /// Errors: the own key does not go with its chain.
    pub fn config(
        roots: Arc<RootCertStore>,
        own: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> Result<ClientConfig, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        match own {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key),
        }
    }

    /// From the next handshake on; connections that stand go on.
    pub fn replace(&self, config: ClientConfig, trusts: &str) {
        self.terms.store(Arc::new(Terms::new(config, trusts)));
    }

    /// For the node at `address`, written as `host`.
    pub(super) fn secured(self: &Arc<Self>, host: &str, node: SocketAddr, spoken: Spoken) -> Secured {
        // As a URL writes an address of IPv6.
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let name = self.name.clone().or_else(|| ServerName::try_from(host.to_owned()).ok());
        Secured { tls: self.clone(), node, name, spoken }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

// === impl Terms ===

impl Terms {
    fn new(config: ClientConfig, trusts: &str) -> Self {
        Self { config, trusts: trusts.into(), sessions: Mutex::default() }
    }

    fn config_for(&self, node: SocketAddr, spoken: Spoken) -> ClientConfig {
        let mut config = self.config.clone();
        config.alpn_protocols = vec![spoken.alpn().to_vec()];
        let mut all = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_NODES && !all.contains_key(&node) {
            all.clear();
        }
        config.resumption = all.entry(node).or_insert_with(|| Resumption::in_memory_sessions(SESSIONS)).clone();
        config
    }
}

// === impl Secured ===

impl Secured {
    pub(super) async fn shake(&self, stream: TcpStream, by: Instant) -> Result<TlsStream<TcpStream>, Failed> {
        let refused = |why: String| {
            self.tls.handshakes.count(Went::Failed);
            Failed::because(CallError::Tls, "upstream_tls", why)
        };
        let Some(name) = self.name.clone() else {
            return Err(refused("no certificate can be for the host of this address: set `tls.server_name`".to_owned()));
        };
        let shown = name.to_str().into_owned();
        let terms = self.tls.terms.load_full();
        let config = Arc::new(terms.config_for(self.node, self.spoken));
        let stream = match timeout_at(by, TlsConnector::from(config).connect(name, stream)).await {
            Ok(Ok(it)) => it,
            Ok(Err(error)) => return Err(refused(said::of_handshake(&error, &shown, &terms.trusts, self.spoken.word()))),
            Err(_) => {
                self.tls.handshakes.count(Went::Timeout);
                let why = "it took the connection and did not finish the TLS handshake in time: does it speak TLS here?";
                return Err(Failed::because(CallError::ConnectTimeout, "upstream_tls_timeout", why));
            }
        };
        let about = stream.get_ref().1;
        // Who answers without ALPN may speak anything; HTTP/2 is not to be guessed (RFC 9113 §3.2).
        if self.spoken == Spoken::Http2 && about.alpn_protocol() != Some(self.spoken.alpn()) {
            return Err(refused("it speaks TLS and does not say that it speaks HTTP/2 inside of it: set `protocol: http1`".to_owned()));
        }
        let resumed = about.handshake_kind() == Some(HandshakeKind::Resumed);
        self.tls.handshakes.count(if resumed { Went::Resumed } else { Went::Full });
        Ok(stream)
    }
}
