//! A front of TLS before a backend that speaks in the clear; it remembers how clients shook hands.
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use rustls::{
    HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::tls::{Authority, Pair};

/// How a front shakes hands.
#[derive(Default)]
pub struct Manners<'a> {
    /// The clients of this authority alone.
    pub clients: Option<&'a Authority>,
    /// TLS 1.2, and nothing newer.
    pub old: bool,
    /// What it speaks, in ALPN's words; none where it knows nothing of ALPN.
    pub speaks: &'a [&'a str],
    /// Ends connections without a word.
    pub rude: bool,
}

/// How one client shook hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaken {
    pub server_name: Option<String>,
    pub alpn: Option<String>,
    pub resumed: bool,
    pub old: bool,
    pub showed_certificate: bool,
}

/// Ends when dropped.
pub struct TlsFront {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Shaken>>>,
    task: JoinHandle<()>,
}

impl TlsFront {
    /// With this certificate, before the backend at `inner`.
    pub async fn before(inner: SocketAddr, own: &Pair, manners: Manners<'_>) -> Self {
        let provider = Arc::new(ring::default_provider());
        let versions = if manners.old { vec![&TLS12] } else { vec![&TLS13, &TLS12] };
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions).expect("versions");
        let builder = match manners.clients {
            None => builder.with_no_client_auth(),
            Some(it) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(it.pem().as_bytes()).expect("PEM")).expect("an authority");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier");
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(own.cert.as_bytes()).map(|it| it.expect("PEM")).collect();
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("a key");
        let mut config = builder.with_single_cert(chain, key).expect("a key that fits");
        config.alpn_protocols = manners.speaks.iter().map(|it| it.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen: Arc<Mutex<Vec<Shaken>>> = Arc::default();
        let (told, rude) = (seen.clone(), manners.rude);
        let task = tokio::spawn(async move {
            // Connections end with the listener.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, told) = (acceptor.clone(), told.clone());
                connections.spawn(async move {
                    let Ok(mut outer) = acceptor.accept(stream).await else { return };
                    let about = outer.get_ref().1;
                    let shaken = Shaken {
                        server_name: about.server_name().map(str::to_owned),
                        alpn: about.alpn_protocol().map(|it| String::from_utf8_lossy(it).into_owned()),
                        resumed: about.handshake_kind() == Some(HandshakeKind::Resumed),
                        old: about.protocol_version() == Some(ProtocolVersion::TLSv1_2),
                        showed_certificate: about.peer_certificates().is_some(),
                    };
                    told.lock().expect("no test panics with this lock").push(shaken);
                    let Ok(mut inner) = TcpStream::connect(inner).await else { return };
                    if rude {
                        let (mut from, mut to) = tokio::io::split(outer);
                        let (mut out, mut back) = inner.split();
                        tokio::select! {
                            _ = tokio::io::copy(&mut from, &mut back) => (),
                            _ = tokio::io::copy(&mut out, &mut to) => drop(to.flush().await),
                        }
                        return;
                    }
                    let _ = copy_bidirectional(&mut outer, &mut inner).await;
                    let _ = outer.shutdown().await;
                });
            }
        });
        Self { address, seen, task }
    }

    /// With a certificate for `name` that this authority signed, and usual manners.
    pub async fn of(inner: SocketAddr, authority: &Authority, name: &str) -> Self {
        Self::before(inner, &authority.issue(&[name]), Manners::default()).await
    }

    /// The handshakes so far, without those that failed.
    pub fn seen(&self) -> Vec<Shaken> {
        self.seen.lock().expect("no test panics with this lock").clone()
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.task.abort();
    }
}
