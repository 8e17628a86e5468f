//! Certificates made for a test, and a client that speaks TLS.
use std::{net::SocketAddr, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    version::{TLS12, TLS13},
};
use tokio::{io::AsyncReadExt, io::AsyncWriteExt, net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::message::PATIENCE;

/// An authority that a test makes up.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub struct Pair {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these host names; the first is its common name, too.
    pub fn issue(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|it| it.to_string()).collect();
        let mut params = CertificateParams::new(names.clone()).expect("names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Acme, Inc.");
        params.distinguished_name.push(DnType::CommonName, names[0].clone());
        let key = KeyPair::generate().expect("a key");
        Pair { cert: params.signed_by(&key, &self.0).expect("a certificate").pem(), key: key.serialize_pem() }
    }

    /// A client that trusts this authority alone.
    pub fn client(&self) -> Client {
        self.client_with(None, false)
    }

    /// The same with a certificate of its own, or held to TLS 1.2.
    pub fn client_with(&self, own: Option<&Pair>, old: bool) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        let versions = if old { vec![&TLS12] } else { vec![&TLS13] };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&versions)
            .expect("versions")
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(it) => {
                let chain: Vec<_> = CertificateDer::pem_slice_iter(it.cert.as_bytes()).map(|it| it.expect("PEM")).collect();
                let key = PrivateKeyDer::from_pem_slice(it.key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("a key that fits")
            }
        };
        Client(Arc::new(config))
    }
}

/// Opens connections; it remembers tickets.
pub struct Client(Arc<ClientConfig>);

impl Client {
    /// Offers these protocols (ALPN).
    pub fn offering(&self, protocols: &[&str]) -> Self {
        let mut config = (*self.0).clone();
        config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        Self(Arc::new(config))
    }

    /// Connects and asks for the host by its name.
    pub async fn open(&self, address: SocketAddr, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
        self.over(TcpStream::connect(address).await?, name).await
    }

    /// A handshake on a connection that has begun.
    pub async fn over(&self, stream: TcpStream, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        timeout(PATIENCE, TlsConnector::from(self.0.clone()).connect(name, stream)).await.expect("a handshake in time")
    }

    /// One request on a connection of its own, the answer to its very end.
    pub async fn get(&self, address: SocketAddr, name: &str, target: &str) -> std::io::Result<String> {
        let mut stream = self.open(address, name).await?;
        get(&mut stream, name, target).await
    }
}

/// Sends one request and reads until the gateway says the end inside of TLS; a bare end of the connection is an error.
pub async fn get(stream: &mut TlsStream<TcpStream>, host: &str, target: &str) -> std::io::Result<String> {
    stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes()).await?;
    let mut text = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut text)).await.expect("an answer in time")?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
