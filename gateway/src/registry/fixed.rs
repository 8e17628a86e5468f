//! Nodes that the definition lists: addresses as they stand, host names resolved in the background.
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use contract::discovery::{Found, Node, Roll};
use http::uri::Authority;
use tokio::{runtime::Handle, time::sleep};

use super::{
    dns::{Patience, RETRY},
    resolver::{Resolver, Said},
};

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

    fn found(&self, address: SocketAddr) -> Found {
        Found { authority: self.authority.clone(), address, weight: self.weight, metadata: self.metadata.clone() }
    }
}

/// The addresses of all that are listed, in their order.
struct Everyone {
    roll: Roll,
    found: Mutex<Vec<Vec<Found>>>,
}

impl Everyone {
    fn set(&self, at: usize, found: Vec<Found>) {
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all[at] = found;
        self.roll.put(all.iter().flatten().cloned());
    }
}

/// Follows the listed nodes. Each name is resolved on `background` by its own time to live, for as long as somebody reads the roll.
///
/// A name that cannot be resolved keeps its last addresses.
/// `former` are nodes of before: until a name is resolved, it has the addresses that it had there.
pub fn follow(listed: Vec<Listed>, former: &[Arc<Node>], resolver: &Resolver, background: Option<&Handle>, roll: Roll) {
    let known = |it: &Listed| -> Vec<Found> {
        match it.address() {
            Some(at) => vec![it.found(at)],
            None => former.iter().filter(|node| node.authority == it.authority).map(|node| it.found(node.address)).collect(),
        }
    };
    let found: Vec<_> = listed.iter().map(known).collect();
    roll.put(found.iter().flatten().cloned());
    let Some(background) = background else { return };
    let everyone = Arc::new(Everyone { roll, found: Mutex::new(found) });
    for (at, it) in listed.into_iter().enumerate().filter(|(_, it)| it.address().is_none()) {
        background.spawn(resolve_for_ever(at, it, resolver.clone(), everyone.clone()));
    }
}

async fn resolve_for_ever(at: usize, it: Listed, resolver: Resolver, everyone: Arc<Everyone>) {
    let (host, port) = (it.authority.host(), it.authority.port_u16().unwrap_or_default());
    let mut patience = Patience::default();
    loop {
        let pause = match resolver.addresses(host).await {
            Ok(Said { all, holds }) => {
                patience.well();
                everyone.set(at, all.into_iter().map(|ip| it.found(SocketAddr::new(ip, port))).collect());
                holds
            }
            Err(missing) => {
                if patience.is_over(&missing) {
                    everyone.set(at, Vec::new());
                }
                let none = everyone.found.lock().unwrap_or_else(PoisonError::into_inner)[at].is_empty();
                if let Some(told) = patience.tells(it.authority.as_str(), &missing, none) {
                    everyone.roll.tell(&told);
                }
                RETRY
            }
        };
        tokio::select! {
            () = sleep(pause) => (),
            () = everyone.roll.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contract::discovery::Nodes;
    use tokio::sync::watch;

    use super::*;

    fn listed(at: &str) -> Listed {
        Listed { authority: at.parse().unwrap(), weight: 1, metadata: BTreeMap::new() }
    }

    fn follow(all: &[&str], former: &[Arc<Node>], background: Option<&Handle>) -> watch::Receiver<Nodes> {
        let (roll, nodes) = Roll::new(|_| Ok(()), |_| ());
        super::follow(all.iter().map(|it| listed(it)).collect(), former, &Resolver::new(Vec::new()), background, roll);
        nodes
    }

    fn addresses(nodes: &watch::Receiver<Nodes>) -> Vec<String> {
        nodes.borrow().iter().map(|it| it.address.to_string()).collect()
    }

    #[test]
    fn addresses_are_there_at_once() {
        assert_eq!(addresses(&follow(&["127.0.0.1:1", "[::1]:2"], &[], None)), ["127.0.0.1:1", "[::1]:2"]);
    }

    #[tokio::test]
    async fn a_name_becomes_its_addresses() {
        let mut nodes = follow(&["127.0.0.1:1", "localhost:2"], &[], Some(&Handle::current()));
        // What needs no resolver is there before what does.
        let nodes = nodes.wait_for(|it| it.len() > 1).await.unwrap();
        assert_eq!(nodes[0].address.to_string(), "127.0.0.1:1");
        assert!(nodes.iter().any(|it| it.address.to_string() == "127.0.0.1:2" && it.authority == "localhost:2"));
    }

    #[tokio::test]
    async fn a_name_has_its_former_addresses_until_it_is_resolved() {
        let (roll, former) = Roll::new(|_| Ok(()), |_| ());
        roll.put([("a.invalid:1", 1), ("b.invalid:1", 2)].map(|(name, last)| listed(name).found(([10, 0, 0, last], 1).into())));
        let former = former.borrow().clone();
        let nodes = follow(&["b.invalid:1"], &former, Some(&Handle::current()));
        assert_eq!(addresses(&nodes), ["10.0.0.2:1"]);
        // And longer, where it cannot be.
        sleep(Duration::from_millis(100)).await;
        assert_eq!(addresses(&nodes), ["10.0.0.2:1"]);
    }
}
