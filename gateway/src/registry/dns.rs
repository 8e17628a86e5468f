//! Nodes found in the DNS: all addresses of a name, or its SRV records.
use std::{future::Future, net::SocketAddr, pin::Pin, time::Duration};

use contract::discovery::{Found, Registry, Roll};
use http::uri::Authority;
use tokio::time::{Instant, sleep};

use super::resolver::{Missing, Resolver, Said};

/// How soon the DNS is asked again where it did not answer.
pub(super) const RETRY: Duration = Duration::from_secs(2);
/// For how long nodes stay after the DNS says that there are none: such an answer is more often a mistake than meant.
pub(super) const HOLD: Duration = Duration::from_secs(30);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// A and AAAA; each address is a node with this port.
    Addresses(u16),
    /// SRV: ports and weights are theirs, and only those that come first by priority are nodes.
    Services,
}

/// A name in the DNS.
pub struct Dns {
    pub name: Box<str>,
    pub records: Records,
    pub resolver: Resolver,
}

impl Registry for Dns {
    fn follow(self: Box<Self>, roll: Roll) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut patience = Patience::default();
            loop {
                let pause = match self.look().await {
                    Ok(Said { all, holds }) => {
                        patience.well();
                        roll.put(all);
                        holds
                    }
                    Err(missing) => {
                        if patience.is_over(&missing) {
                            roll.put([]);
                        }
                        if let Some(told) = patience.tells(&self.name, &missing, roll.is_empty()) {
                            roll.tell(&told);
                        }
                        RETRY
                    }
                };
                tokio::select! {
                    () = sleep(pause) => (),
                    () = roll.closed() => return,
                }
            }
        })
    }
}

impl Dns {
    async fn look(&self) -> Result<Said<Found>, Missing> {
        match self.records {
            Records::Addresses(port) => addresses(&self.resolver, &self.name, port, 1).await,
            Records::Services => {
                let Said { all, mut holds } = self.resolver.services(&self.name).await?;
                let first = all.iter().map(|it| it.priority).min().unwrap_or_default();
                let (mut found, mut failed) = (Vec::new(), None);
                for it in all.iter().filter(|it| it.priority == first) {
                    // Of weight 0 are those that have next to no chance (RFC 2782); none at all would be no node.
                    match addresses(&self.resolver, &it.target, it.port, u32::from(it.weight).max(1)).await {
                        Ok(it) => {
                            found.extend(it.all);
                            holds = holds.min(it.holds);
                        }
                        Err(missing) => failed = Some(missing),
                    }
                }
                match (found.is_empty(), failed) {
                    // Part of the nodes is not all of them.
                    (_, Some(Missing::Failed(why))) => Err(Missing::Failed(why)),
                    (true, _) => Err(Missing::Nothing),
                    (false, _) => Ok(Said { all: found, holds }),
                }
            }
        }
    }
}

/// The nodes of one host.
async fn addresses(resolver: &Resolver, host: &str, port: u16, weight: u32) -> Result<Said<Found>, Missing> {
    let authority: Authority = format!("{host}:{port}").parse().map_err(|_| Missing::Failed(format!("'{host}' is no host")))?;
    let Said { all, holds } = resolver.addresses(host).await?;
    let found = |ip| Found { authority: authority.clone(), address: SocketAddr::new(ip, port), weight, metadata: Default::default() };
    Ok(Said { all: all.into_iter().map(found).collect(), holds })
}

/// What to make of answers that are missing.
#[derive(Default)]
pub(super) struct Patience {
    /// Since when the DNS says that there is nothing.
    nothing: Option<Instant>,
    /// What was told last, so that it is told once.
    told: Option<Missing>,
}

impl Patience {
    pub(super) fn well(&mut self) {
        *self = Self::default();
    }

    /// Whether the last nodes have stayed long enough. They stay for ever while nobody answers.
    pub(super) fn is_over(&mut self, missing: &Missing) -> bool {
        match missing {
            Missing::Failed(_) => {
                self.nothing = None;
                false
            }
            Missing::Nothing => self.nothing.get_or_insert_with(Instant::now).elapsed() >= HOLD,
        }
    }

    /// What somebody should know, unless he does.
    pub(super) fn tells(&mut self, name: &str, missing: &Missing, none: bool) -> Option<String> {
        if self.told.as_ref().is_some_and(|it| std::mem::discriminant(it) == std::mem::discriminant(missing)) {
            return None;
        }
        self.told = Some(missing.clone());
        let stays = if none { "it has no address yet" } else { "its last addresses stay" };
        Some(match missing {
            Missing::Nothing if none => format!("the DNS knows no address of {name}"),
            Missing::Nothing => format!("the DNS knows no address of {name} any more; its last ones stay for {}s", HOLD.as_secs()),
            Missing::Failed(why) => format!("{name} cannot be resolved: {why}; {stays}"),
        })
    }
}
