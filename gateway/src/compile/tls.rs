//! `tls` of an Upstream: files become what handshakes with its nodes need, and are read anew when they change.
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use schemas::v1;

use super::{
    told::Told,
    world::{self, Compiler},
};
use crate::{dial::Tls, telemetry::log::Log};

/// Whom an Upstream without `ca` trusts.
const SYSTEM: &str = "the authorities of the system";
/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Compiles `tls` of the Upstream `upstream`; `None` after faults.
pub fn tls(world: &Compiler<'_>, told: &Told<'_>, upstream: &str, it: &v1::Tls) -> Option<Arc<Tls>> {
    let name = it.server_name.as_deref().map(|text| {
        ServerName::try_from(text.to_owned()).map_err(|_| {
            let help = "a host name or an address without a port, as in `orders.internal`";
            told.error_help("/tls/server_name", "bad-name", format!("no certificate can be for '{text}'"), help);
        })
    });
    let roots = if it.ca.is_some() { Some(Arc::new(RootCertStore::empty())) } else { system(world, told, "/tls") };
    let (ca, client) = (it.ca.as_ref(), it.client.as_ref());
    let material = Material {
        root: world.root.to_owned(),
        roots: roots?,
        ca: ca.and_then(|it| reference(world, told, "/tls/ca", it)),
        cert: client.and_then(|it| it.cert.as_ref()).and_then(|it| reference(world, told, "/tls/client/cert", it)),
        key: client.and_then(|it| it.key.as_ref()).and_then(|it| key(world, told, "/tls/client/key", it)),
    };
    // Before it is read: what is written in between is seen as a change.
    let stamp = material.stamp();
    let config = material.config().map_err(|wrong| wrong.into_iter().for_each(|it| told.error(&it.place, it.code, it.message))).ok();
    let (name, config) = (name.transpose().ok()?, config?);
    let metrics = world.metrics.upstream_metrics(upstream);
    let tls = Tls::new(config, &material.trusts(), name, metrics.handshakes());
    if let (Some(background), true) = (world.background, !stamp.is_empty()) {
        background.spawn(follow(Arc::downgrade(&tls), material, stamp, upstream.to_owned(), world.log.clone()));
    }
    Some(tls)
}

/// Of a URL that begins with `https://` and stands at `place`.
pub fn of_url(world: &Compiler<'_>, told: &Told<'_>, place: &str, upstream: &str) -> Option<Arc<Tls>> {
    let config = Tls::config(system(world, told, place)?, None).ok()?;
    Some(Tls::new(config, SYSTEM, None, world.metrics.upstream_metrics(upstream).handshakes()))
}

fn system(world: &Compiler<'_>, told: &Told<'_>, place: &str) -> Option<Arc<RootCertStore>> {
    world
        .system_roots()
        .map_err(|why| {
            let help = "install `ca-certificates`, name a file in SSL_CERT_FILE, or name the authorities under `tls.ca`";
            told.error_help(place, "no-authority", why, help);
        })
        .ok()
}

/// Looks at the files for as long as the upstream lives: what is broken is told and changes nothing.
async fn follow(tls: Weak<Tls>, material: Material, mut known: Stamp, upstream: String, log: Log) {
    let material = Arc::new(material);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let it = material.clone();
        let Ok(now) = tokio::task::spawn_blocking(move || it.stamp()).await else { return };
        let Some(tls) = tls.upgrade() else { return };
        if now == known {
            continue;
        }
        let it = material.clone();
        let Ok(read) = tokio::task::spawn_blocking(move || it.config()).await else { return };
        match read {
            Ok(it) => {
                tls.replace(it, &material.trusts());
                log.info("tls", format_args!("the certificates were read anew"), &[("upstream", &upstream)]);
            }
            Err(wrong) => {
                let why = wrong.iter().map(|it| &*it.message).collect::<Vec<_>>().join("; ");
                log.error("tls", format_args!("the former certificates stay: {why}"), &[("upstream", &upstream)]);
            }
        }
        known = now;
    }
}

/// What a file was when it was last looked at; a link's target, as mounted secrets are.
type Stamp = Vec<Option<(i64, i64, u64, u64)>>;

/// Where whatever handshakes need comes from.
struct Material {
    root: PathBuf,
    /// Those of the system; none where there is a `ca`.
    roots: Arc<RootCertStore>,
    ca: Option<Named>,
    cert: Option<Named>,
    key: Option<Named>,
}

/// Something in PEM, and the place where it is named.
struct Named {
    place: String,
    /// As messages call it.
    shown: String,
    source: Source,
}

enum Source {
    File(String),
    /// A variable, which does not change while the process runs; none where secrets are not looked up.
    Known(Option<Vec<u8>>),
}

/// A fault, and the place that it belongs to.
struct Wrong {
    place: String,
    code: &'static str,
    message: String,
}

// === impl Material ===

impl Material {
    fn stamp(&self) -> Stamp {
        let files = [&self.ca, &self.cert, &self.key].into_iter().flatten().filter_map(|it| match &it.source {
            Source::File(it) => Some(self.root.join(it)),
            Source::Known(_) => None,
        });
        let print = |it: fs::Metadata| (it.mtime(), it.mtime_nsec(), it.len(), it.ino());
        files.map(|it| fs::metadata(it).ok().map(print)).collect()
    }

    /// In words: who is trusted.
    fn trusts(&self) -> String {
        self.ca.as_ref().map_or_else(|| SYSTEM.to_owned(), |it| format!("those of {}", it.shown))
    }

    fn config(&self) -> Result<ClientConfig, Vec<Wrong>> {
        let roots = self.ca.as_ref().map_or_else(|| Ok(self.roots.clone()), |it| it.authorities(&self.root));
        let cert = self.cert.as_ref().map(|it| it.chain(&self.root)).transpose();
        let key = self.key.as_ref().map(|it| it.key(&self.root)).transpose();
        match (roots, cert, key) {
            (Ok(roots), Ok(cert), Ok(key)) => Tls::config(roots, cert.flatten().zip(key.flatten())).map_err(|why| vec![self.unfit(&why)]),
            (roots, cert, key) => Err([roots.err(), cert.err(), key.err()].into_iter().flatten().collect()),
        }
    }

    /// The own certificate and its key are of no use.
    fn unfit(&self, why: &rustls::Error) -> Wrong {
        let (named, code, what) = match why {
            rustls::Error::InconsistentKeys(_) => (&self.key, "bad-key", "is the key of another certificate"),
            rustls::Error::InvalidCertificate(_) => (&self.cert, "bad-certificate", "holds a certificate that cannot be used"),
            _ => (&self.key, "bad-key", "holds a key that cannot be used"),
        };
        let (place, shown) = named.as_ref().map(|it| (it.place.clone(), it.shown.clone())).unwrap_or_default();
        Wrong { place, code, message: format!("{shown} {what}: {why}") }
    }
}

// === impl Named ===

impl Named {
    fn wrong(&self, code: &'static str, message: String) -> Wrong {
        Wrong { place: self.place.clone(), code, message }
    }

    fn read(&self, root: &Path) -> Result<Option<Vec<u8>>, Wrong> {
        match &self.source {
            Source::File(it) => world::read(root, it).map(Some).map_err(|why| self.wrong("bad-reference", why)),
            Source::Known(it) => Ok(it.clone()),
        }
    }

    fn chain(&self, root: &Path) -> Result<Option<Vec<CertificateDer<'static>>>, Wrong> {
        let Some(pem) = self.read(root)? else { return Ok(None) };
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        match all {
            Ok(it) if !it.is_empty() => Ok(Some(it)),
            Ok(_) => Err(self.wrong("bad-certificate", format!("{} holds no `BEGIN CERTIFICATE`", self.shown))),
            Err(_) => Err(self.wrong("bad-certificate", format!("{} is not PEM", self.shown))),
        }
    }

    fn authorities(&self, root: &Path) -> Result<Arc<RootCertStore>, Wrong> {
        let mut roots = RootCertStore::empty();
        for it in self.chain(root)?.unwrap_or_default() {
            let message = |why| format!("{} holds a certificate that cannot be an authority: {why}", self.shown);
            roots.add(it).map_err(|why| self.wrong("bad-certificate", message(why)))?;
        }
        Ok(Arc::new(roots))
    }

    fn key(&self, root: &Path) -> Result<Option<PrivateKeyDer<'static>>, Wrong> {
        let Some(pem) = self.read(root)? else { return Ok(None) };
        // Why it is none may say what stands there, which nobody needs to read.
        let wrong = |_| self.wrong("bad-key", format!("{} holds no private key in PEM", self.shown));
        PrivateKeyDer::from_pem_slice(&pem).map(Some).map_err(wrong)
    }
}

fn reference(world: &Compiler<'_>, told: &Told<'_>, place: &str, it: &v1::Reference) -> Option<Named> {
    use v1::reference::Written;
    match it.written.as_ref()? {
        Written::Path(it) => Some(file(place.to_owned(), it)),
        Written::File(it) => Some(file(format!("{place}/file"), it)),
        Written::Env(it) => variable(world, told, format!("{place}/env"), it),
    }
}

fn key(world: &Compiler<'_>, told: &Told<'_>, place: &str, it: &v1::KeyFile) -> Option<Named> {
    use v1::key_file::Written;
    match it.written.as_ref()? {
        Written::Path(it) => Some(file(place.to_owned(), it)),
        Written::File(it) => Some(file(format!("{place}/file"), it)),
        Written::Env(it) => variable(world, told, format!("{place}/env"), it),
    }
}

fn file(place: String, name: &str) -> Named {
    Named { place, shown: format!("`{name}`"), source: Source::File(name.to_owned()) }
}

/// A variable that may not be read is told here, and then holds nothing.
fn variable(world: &Compiler<'_>, told: &Told<'_>, place: String, name: &str) -> Option<Named> {
    let bytes = match world.without_secrets {
        true => None,
        false => world.variable(name).map_err(|why| told.error(&place, "bad-reference", why)).ok().map(String::into_bytes),
    };
    Some(Named { place, shown: format!("`{name}`"), source: Source::Known(bytes) })
}
