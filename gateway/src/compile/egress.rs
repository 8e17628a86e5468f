//! Addresses that no definition may call by accident or by trick: link-local, metadata services, the gateway itself.
use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{Arc, RwLock},
};

use ipnet::IpNet;

/// What may be called; clones are the same.
#[derive(Clone, Default)]
pub struct Egress(Arc<Inner>);

#[derive(Default)]
struct Inner {
    allow: Vec<IpNet>,
    /// The gateway's own listeners, once they are bound.
    own: RwLock<Vec<SocketAddr>>,
}

/// AWS's metadata service over IPv6; over IPv4 all of them are link-local.
const METADATA6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

impl Egress {
    pub fn new(allow: Vec<IpNet>) -> Self {
        Self(Arc::new(Inner { allow, own: RwLock::default() }))
    }

    /// The gateway listens here: a call to it would go round in circles.
    pub fn set_own(&self, own: Vec<SocketAddr>) {
        *self.0.own.write().unwrap_or_else(|it| it.into_inner()) = own;
    }

    /// Whether this address may be called, or why not.
    pub fn allows(&self, at: &SocketAddr) -> Result<(), String> {
        let ip = at.ip().to_canonical();
        if self.0.allow.iter().any(|it| it.contains(&ip)) {
            return Ok(());
        }
        let bad = match ip {
            IpAddr::V4(it) if it.is_link_local() => Some("a link-local address, where clouds keep their metadata"),
            IpAddr::V4(it) if it.is_broadcast() || it.is_multicast() => Some("no address of one machine"),
            IpAddr::V6(it) if it.is_unicast_link_local() => Some("a link-local address"),
            IpAddr::V6(it) if it == METADATA6 => Some("a metadata service"),
            IpAddr::V6(it) if it.is_multicast() => Some("no address of one machine"),
            _ => None,
        };
        if let Some(why) = bad {
            return Err(format!("{ip} is {why}"));
        }
        let own = self.0.own.read().unwrap_or_else(|it| it.into_inner());
        let is_own = |it: &SocketAddr| {
            let same = it.ip().to_canonical() == ip || (it.ip().is_unspecified() && (ip.is_loopback() || ip.is_unspecified()));
            it.port() == at.port() && same
        };
        match own.iter().any(is_own) {
            true => Err(format!("{at} is a listener of this gateway itself")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_inside_is_refused_unless_it_is_named() {
        let egress = Egress::new(vec!["169.254.7.0/24".parse().unwrap()]);
        egress.set_own(vec!["0.0.0.0:8080".parse().unwrap(), "127.0.0.1:9080".parse().unwrap()]);
        for (at, good) in [
            ("10.0.0.1:80", true),
            ("127.0.0.1:80", true),
            ("169.254.169.254:80", false),
            ("[::ffff:169.254.169.254]:80", false),
            ("169.254.7.1:80", true),
            ("[fe80::1]:80", false),
            ("[fd00:ec2::254]:80", false),
            ("127.0.0.1:8080", false),
            ("[::1]:8080", false),
            ("127.0.0.1:9080", false),
            ("127.0.0.2:9080", true),
            ("224.0.0.1:80", false),
        ] {
            assert_eq!(egress.allows(&at.parse().unwrap()).is_ok(), good, "{at}");
        }
    }
}
