//! Names of the DNS, resolved beside requests.
use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts},
    lookup::Lookup,
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::{RData, RecordType},
};

/// However short an answer's time to live is, it is believed for this long, so that nobody is asked all the time.
const LEAST: Duration = Duration::from_secs(1);
/// However long it is, it is asked for again after this.
const MOST: Duration = Duration::from_secs(300);

/// Asks the DNS; clones are the same. Needs a runtime where it is asked.
#[derive(Clone)]
pub struct Resolver(Arc<Inner>);

struct Inner {
    /// None are those of the system.
    servers: Vec<SocketAddr>,
    /// Made when it is first needed, and anew after a failure: the system may have got other servers.
    resolver: Mutex<Option<TokioResolver>>,
}

/// What the DNS said, and for how long that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said<T> {
    pub all: Vec<T>,
    pub holds: Duration,
}

/// One SRV record (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    /// Without the dot at its end.
    pub target: Box<str>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The DNS says that there is no such name, or nothing of this kind.
    Nothing,
    /// Nobody answered, or not well.
    Failed(String),
}

impl Resolver {
    /// Asks these servers, or those of the system (`/etc/resolv.conf`) where there are none.
    pub fn new(servers: Vec<SocketAddr>) -> Self {
        Self(Arc::new(Inner { servers, resolver: Mutex::default() }))
    }

    /// The addresses of a host, in order: the system's file of hosts first, then A and AAAA.
    pub async fn addresses(&self, host: &str) -> Result<Said<IpAddr>, Missing> {
        // Not every machine listens at every address of itself: the system says which it means.
        if host.eq_ignore_ascii_case("localhost") {
            let found = tokio::net::lookup_host((host, 0)).await.map_err(|it| Missing::Failed(it.to_string()))?;
            let mut all: Vec<IpAddr> = found.map(|it| it.ip()).collect();
            all.sort();
            all.dedup();
            return Ok(Said { all, holds: MOST });
        }
        let resolver = self.resolver()?;
        let found = resolver.lookup_ip(host).await.map_err(|it| self.missing(&it))?;
        let mut all: Vec<IpAddr> = found.iter().collect();
        all.sort();
        all.dedup();
        match all.is_empty() {
            true => Err(Missing::Nothing),
            false => Ok(Said { all, holds: holds(found.as_lookup()) }),
        }
    }

    /// The SRV records of a name.
    pub async fn services(&self, name: &str) -> Result<Said<Service>, Missing> {
        let resolver = self.resolver()?;
        let found = resolver.lookup(name, RecordType::SRV).await.map_err(|it| self.missing(&it))?;
        let service = |it: &RData| match it {
            // A target of the root says that the service is not there (RFC 2782).
            RData::SRV(it) if !it.target.is_root() => Some(Service {
                priority: it.priority,
                weight: it.weight,
                port: it.port,
                target: it.target.to_ascii().trim_end_matches('.').into(),
            }),
            _ => None,
        };
        let all: Vec<_> = found.answers().iter().filter_map(|it| service(&it.data)).collect();
        match all.is_empty() {
            true => Err(Missing::Nothing),
            false => Ok(Said { all, holds: holds(&found) }),
        }
    }

    fn resolver(&self) -> Result<TokioResolver, Missing> {
        let mut kept = self.0.resolver.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = &*kept {
            return Ok(it.clone());
        }
        let failed = |why: NetError| Missing::Failed(format!("the resolver cannot be set up: {why}"));
        let mut builder = match self.0.servers.as_slice() {
            [] => TokioResolver::builder_tokio().map_err(failed)?,
            servers => {
                let server = |at: &SocketAddr| {
                    let connection = |mut it: ConnectionConfig| {
                        it.port = at.port();
                        it
                    };
                    // UDP, and TCP for answers that are too long for it.
                    let both = vec![connection(ConnectionConfig::udp()), connection(ConnectionConfig::tcp())];
                    NameServerConfig::new(at.ip(), true, both)
                };
                let config = ResolverConfig::from_name_servers(servers.iter().map(server).collect());
                let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
                *builder.options_mut() = ResolverOpts::default();
                builder
            }
        };
        // Whoever asks here remembers by himself.
        builder.options_mut().cache_size = 0;
        let it = builder.build().map_err(failed)?;
        *kept = Some(it.clone());
        Ok(it)
    }

    fn missing(&self, error: &NetError) -> Missing {
        if error.is_no_records_found() {
            return Missing::Nothing;
        }
        *self.0.resolver.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Missing::Failed(error.to_string())
    }
}

/// Until the first of its records is over.
fn holds(it: &Lookup) -> Duration {
    let least = it.answers().iter().map(|it| it.ttl).min().unwrap_or_default();
    Duration::from_secs(least.into()).clamp(LEAST, MOST)
}
