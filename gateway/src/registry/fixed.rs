//! Nodes that the definition lists: addresses as they stand, host names resolved in the background.
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use contract::discovery::{Node, Nodes};
use http::uri::Authority;
use tokio::{runtime::Handle, sync::watch, time::sleep};

/// How long a resolved address is believed. The system's resolver does not tell the record's own time to live.
pub const RESOLVE_EVERY: Duration = Duration::from_secs(30);
/// How soon a name that could not be resolved is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// One node, as a definition lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// With a port.
    pub authority: Authority,
    pub weight: u32,
    pub metadata: BTreeMap<Box<str>, Box<str>>,
}

impl Listed {
    /// The address, where no name has to be resolved.
    pub fn address(&self) -> Option<SocketAddr> {
        self.authority.as_str().parse().ok()
    }

    fn node(&self, address: SocketAddr) -> Arc<Node> {
        Arc::new(Node { authority: self.authority.clone(), address, weight: self.weight, metadata: self.metadata.clone() })
    }
}

/// Follows the listed nodes. Names are resolved on `background`, for as long as somebody holds the receiver.
///
/// A name that cannot be resolved keeps its last addresses. What a name resolves to is asked of `allows`.
pub fn follow(
    listed: Vec<Listed>,
    background: Option<&Handle>,
    allows: impl Fn(&SocketAddr) -> Result<(), String> + Send + 'static,
    tell: impl Fn(&str) + Send + 'static,
) -> watch::Receiver<Nodes> {
    let known: Vec<_> = listed.iter().filter_map(|it| Some(it.node(it.address()?))).collect();
    let all_known = known.len() == listed.len();
    let (sender, receiver) = watch::channel::<Nodes>(known.into());
    if let (false, Some(background)) = (all_known, background) {
        background.spawn(resolve_for_ever(listed, sender, allows, tell));
    }
    receiver
}

async fn resolve_for_ever(
    listed: Vec<Listed>,
    sender: watch::Sender<Nodes>,
    allows: impl Fn(&SocketAddr) -> Result<(), String>,
    tell: impl Fn(&str),
) {
    let mut last: Vec<Vec<Arc<Node>>> = listed.iter().map(|it| it.address().map(|at| it.node(at)).into_iter().collect()).collect();
    loop {
        let mut failed = false;
        for (it, nodes) in listed.iter().zip(&mut last) {
            if it.address().is_some() {
                continue;
            }
            match tokio::net::lookup_host(it.authority.as_str()).await {
                Ok(found) => {
                    let refused =
                        |at: &SocketAddr| allows(at).map_err(|why| tell(&format!("{} is not called: {why}", it.authority))).is_ok();
                    let mut found: Vec<_> = found.filter(refused).collect();
                    found.sort();
                    found.dedup();
                    // A node that is still there stays the same one, with its connections.
                    *nodes = found
                        .into_iter()
                        .map(|at| nodes.iter().find(|it| it.address == at).cloned().unwrap_or_else(|| it.node(at)))
                        .collect();
                }
                Err(fault) => {
                    failed = true;
                    tell(&format!(
                        "{} cannot be resolved: {fault}; {}",
                        it.authority,
                        if nodes.is_empty() { "it has no address yet" } else { "its last addresses stay" }
                    ));
                }
            }
        }
        let now: Nodes = last.iter().flatten().cloned().collect();
        sender.send_if_modified(|old| {
            let same = old.len() == now.len() && old.iter().zip(now.iter()).all(|(a, b)| Arc::ptr_eq(a, b));
            if !same {
                *old = now;
            }
            !same
        });
        tokio::select! {
            () = sleep(if failed { RETRY_EVERY } else { RESOLVE_EVERY }) => (),
            () = sender.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(at: &str) -> Listed {
        Listed { authority: at.parse().unwrap(), weight: 1, metadata: BTreeMap::new() }
    }

    #[test]
    fn addresses_are_there_at_once() {
        let nodes = follow(vec![listed("127.0.0.1:1"), listed("[::1]:2")], None, |_| Ok(()), |_| ());
        assert_eq!(nodes.borrow().iter().map(|it| it.address.to_string()).collect::<Vec<_>>(), ["127.0.0.1:1", "[::1]:2"]);
    }

    #[tokio::test]
    async fn a_name_becomes_its_addresses() {
        let mut nodes = follow(vec![listed("127.0.0.1:1"), listed("localhost:2")], Some(&Handle::current()), |_| Ok(()), |_| ());
        nodes.changed().await.unwrap();
        let nodes = nodes.borrow();
        assert_eq!(nodes[0].address.to_string(), "127.0.0.1:1");
        assert!(nodes.iter().any(|it| it.address.to_string() == "127.0.0.1:2" && it.authority == "localhost:2"));
    }
}
