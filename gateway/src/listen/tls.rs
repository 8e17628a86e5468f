//! TLS of a listener: its certificates by name, read anew when their files change, and who the client is by its own.
use std::{
    collections::HashMap,
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use contract::{exchange::Caller, value::Value};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;
use webpki::EndEntityCert;

use super::der;
use crate::{settings::listen::Tls, telemetry::log::Log};

/// How ALPN names HTTP/2 over TLS (RFC 9113 §3.2).
pub const HTTP2: &[u8] = b"h2";
/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// No file of certificates is larger.
const MOST: u64 = 4 << 20;

/// The files of a listener, and what they last held.
pub struct Keys {
    address: String,
    settings: Tls,
    folder: PathBuf,
    config: ArcSwap<ServerConfig>,
}

/// What a file was when it was last looked at; a link's target, as mounted secrets are.
type Stamp = Vec<Option<(SystemTime, u64, u64)>>;

impl Keys {
    /// Reads all files; relative ones lie in `folder`.
    ///
    /// Errors: one cannot be read, or holds nothing that fits; the message names the file.
    pub fn load(address: String, settings: &Tls, folder: &Path) -> Result<Arc<Self>, String> {
        let config = ArcSwap::from(config(settings, folder)?);
        Ok(Arc::new(Self { address, settings: settings.clone(), folder: folder.to_owned(), config }))
    }

    /// For one handshake.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }

    /// Looks at the files for ever; what is new is served to the next handshake, what is broken is told and changes nothing.
    pub async fn follow(self: Arc<Self>, log: Log) {
        let mut known = self.stamp();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let it = self.clone();
            let Ok(now) = tokio::task::spawn_blocking(move || it.stamp()).await else { return };
            if now == known {
                continue;
            }
            let it = self.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || config(&it.settings, &it.folder)).await else { return };
            match read {
                Ok(it) => {
                    self.config.store(it);
                    log.info("tls", format_args!("the certificates of {} were read anew", self.address), &[]);
                }
                Err(why) => log.error("tls", format_args!("the former certificates of {} stay: {why}", self.address), &[]),
            }
            known = now;
        }
    }

    fn stamp(&self) -> Stamp {
        use std::os::unix::fs::MetadataExt;
        let files = self.settings.certificates.iter().flat_map(|it| [&it.cert, &it.key]).chain(&self.settings.client_ca);
        files
            .map(|it| fs::metadata(self.folder.join(it)).ok())
            .map(|it| it.and_then(|it| Some((it.modified().ok()?, it.len(), it.ino()))))
            .collect()
    }
}

/// Builds what a handshake needs. Tickets are of this configuration alone: who resumes was checked by the `client_ca` of now.
fn config(settings: &Tls, folder: &Path) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let names = Names::read(settings, folder, &provider)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|why| format!("TLS cannot be set up: {why}"))?;
    let builder = match &settings.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for it in certificates(&folder.join(file))? {
                roots.add(it).map_err(|why| format!("{}: a certificate cannot be an authority: {why}", file.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|why| format!("{}: {why}", file.display()))?)
        }
    };
    let mut it = builder.with_cert_resolver(Arc::new(names));
    it.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    // Sessions are resumed by tickets alone: nothing is kept for clients that never come back.
    it.session_storage = Arc::new(NoServerSessionStorage {});
    it.ticketer = ring::Ticketer::new().map_err(|why| format!("TLS cannot be set up: {why}"))?;
    Ok(Arc::new(it))
}

/// Certificates by the names that they are for.
struct Names {
    exact: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// `example.com` of `*.example.com`.
    below: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// The first of the list: for clients that name nothing, or nothing known.
    first: Vec<Arc<CertifiedKey>>,
}

impl Names {
    fn read(settings: &Tls, folder: &Path, provider: &CryptoProvider) -> Result<Self, String> {
        let mut it = Self { exact: HashMap::new(), below: HashMap::new(), first: Vec::new() };
        for pair in &settings.certificates {
            let chain = certificates(&folder.join(&pair.cert))?;
            let names: Vec<String> = match EndEntityCert::try_from(&chain[0]) {
                Ok(it) => it.valid_dns_names().map(str::to_ascii_lowercase).collect(),
                Err(why) => return Err(format!("{}: {why:?}", pair.cert.display())),
            };
            let key = key(&folder.join(&pair.key))?;
            let key = CertifiedKey::from_der(chain, key, provider)
                .map_err(|why| format!("{} does not go with {}: {why}", pair.key.display(), pair.cert.display()))?;
            let key = Arc::new(key);
            for name in names {
                let (to, name) = match name.strip_prefix("*.") {
                    Some(below) => (&mut it.below, below),
                    None => (&mut it.exact, name.as_str()),
                };
                to.entry(name.into()).or_default().push(key.clone());
            }
            it.first.push(key);
        }
        Ok(it)
    }

    fn find(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let Some(name) = name else { return &self.first };
        let below = || name.split_once('.').and_then(|(_, it)| self.below.get(it));
        self.exact.get(name).or_else(below).unwrap_or(&self.first)
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls gives the name in lower case, and none that is malformed.
        let found = self.find(hello.server_name());
        let usable = |it: &&Arc<CertifiedKey>| it.key.choose_scheme(hello.signature_schemes()).is_some();
        found.iter().find(usable).or(found.first()).cloned()
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.exact.keys()).entries(self.below.keys()).finish()
    }
}

fn pem(file: &Path) -> Result<Vec<u8>, String> {
    let shown = file.display();
    let size = fs::metadata(file).map_err(|why| format!("{shown} cannot be read: {why}"))?.len();
    if size > MOST {
        return Err(format!("{shown} is larger than 4MiB"));
    }
    fs::read(file).map_err(|why| format!("{shown} cannot be read: {why}"))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem(file)?).collect();
    match all {
        Ok(it) if !it.is_empty() => Ok(it),
        Ok(_) => Err(format!("{} holds no `BEGIN CERTIFICATE`", file.display())),
        Err(why) => Err(format!("{} is not PEM: {why}", file.display())),
    }
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(&pem(file)?).map_err(|_| format!("{} holds no private key in PEM", file.display()))
}

/// What expressions see of a client's certificate: `auth.subject`, and under `auth.claims` its issuer, serial and names.
pub fn caller(certificate: &CertificateDer<'_>) -> Option<Caller> {
    let it = EndEntityCert::try_from(certificate).ok()?;
    let subject = der::distinguished_name(it.subject())?;
    let serial: String = it.serial().iter().map(|it| format!("{it:02x}")).collect();
    let list = |names: Vec<&str>| Value::List(names.into_iter().map(Value::text).collect());
    let map = |pairs: Vec<(&str, Value)>| Value::Map(pairs.into_iter().map(|(name, it)| (name.into(), it)).collect());
    let claims = map(vec![
        ("issuer", der::distinguished_name(it.issuer()).map_or(Value::Null, Value::text)),
        ("serial", Value::text(serial)),
        ("dns", list(it.valid_dns_names().collect())),
        ("uri", list(it.valid_uri_names().collect())),
    ]);
    let auth = map(vec![("subject", Value::text(subject)), ("scopes", Value::List(Vec::new())), ("claims", claims)]);
    Some(Caller { auth, ..Caller::default() })
}
