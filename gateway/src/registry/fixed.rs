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
        Arc::new(Node {
            authority: self.authority.clone(),
            address,
            weight: self.weight,
            metadata: self.metadata.clone(),
            in_flight: Default::default(),
        })
    }
}

/// Follows the listed nodes. Names are resolved on `background`, for as long as somebody holds the receiver.
///
/// A name that cannot be resolved keeps its last addresses. What a name resolves to is asked of `allows`.
/// `former` are nodes of before: until a name is resolved, it has the addresses that it had there.
pub fn follow(
    listed: Vec<Listed>,
    former: &[Arc<Node>],
    background: Option<&Handle>,
    allows: impl Fn(&SocketAddr) -> Result<(), String> + Send + 'static,
    tell: impl Fn(&str) + Send + 'static,
) -> watch::Receiver<Nodes> {
    let known = |it: &Listed| -> Vec<Arc<Node>> {
        match it.address() {
            Some(at) => vec![it.node(at)],
            None => former.iter().filter(|node| node.authority == it.authority).map(|node| it.node(node.address)).collect(),
        }
    };
    let nodes: Vec<_> = listed.iter().map(known).collect();
    let (sender, receiver) = watch::channel::<Nodes>(nodes.iter().flatten().cloned().collect());
    if let (true, Some(background)) = (listed.iter().any(|it| it.address().is_none()), background) {
        background.spawn(resolve_for_ever(listed, nodes, sender, allows, tell));
    }
    receiver
}

async fn resolve_for_ever(
    listed: Vec<Listed>,
    mut last: Vec<Vec<Arc<Node>>>,
    sender: watch::Sender<Nodes>,
    allows: impl Fn(&SocketAddr) -> Result<(), String>,
    tell: impl Fn(&str),
) {
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
        let nodes = follow(vec![listed("127.0.0.1:1"), listed("[::1]:2")], &[], None, |_| Ok(()), |_| ());
        assert_eq!(nodes.borrow().iter().map(|it| it.address.to_string()).collect::<Vec<_>>(), ["127.0.0.1:1", "[::1]:2"]);
    }

    #[tokio::test]
    async fn a_name_becomes_its_addresses() {
        let mut nodes = follow(vec![listed("127.0.0.1:1"), listed("localhost:2")], &[], Some(&Handle::current()), |_| Ok(()), |_| ());
        nodes.changed().await.unwrap();
        let nodes = nodes.borrow();
        assert_eq!(nodes[0].address.to_string(), "127.0.0.1:1");
        assert!(nodes.iter().any(|it| it.address.to_string() == "127.0.0.1:2" && it.authority == "localhost:2"));
    }

    #[tokio::test]
    async fn a_name_has_its_former_addresses_until_it_is_resolved() {
        let former = [("a.invalid:1", 1), ("b.invalid:1", 2)].map(|(name, last)| listed(name).node(([10, 0, 0, last], 1).into()));
        let nodes = follow(vec![listed("b.invalid:1")], &former, Some(&Handle::current()), |_| Ok(()), |_| ());
        let known = || nodes.borrow().iter().map(|it| it.address.to_string()).collect::<Vec<_>>();
        assert_eq!(known(), ["10.0.0.2:1"]);
        // And longer, where it cannot be.
        sleep(Duration::from_millis(100)).await;
        assert_eq!(known(), ["10.0.0.2:1"]);
    }
}
