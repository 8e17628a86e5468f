//! Lets clients in, or keeps them out, by their address.
use std::net::IpAddr;

use contract::{
    Exchange, Kind, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::Env,
    meter::Counter,
    onion::{Filter, Flow},
};
use ipnet::IpNet;

/// The ring.
pub struct IpAcl {
    allow: Box<[IpNet]>,
    deny: Box<[IpNet]>,
    refused: Counter,
}

/// # Config
/// A client is refused when `deny` has its address, or when `allow` is given and does not have it.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Addresses and networks that may come in; everybody, when left out. IPv4 and IPv6, as in `10.0.0.0/8` or `192.0.2.7`.
    #[serde(default)]
    pub allow: Option<Vec<String>>,
    /// Addresses and networks that are kept out, even where `allow` has them.
    #[serde(default)]
    pub deny: Vec<String>,
}

impl Configure for IpAcl {
    type Config = Config;
    const NAME: &'static str = "ip-acl";
    const ABOUT: &'static str = "Lets clients in, or keeps them out, by their address.";
    const NOTES: RingNotes = RingNotes { reads: "the client's address", answers: "403", authenticates: false, rewrites_body: false };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut nets = |key: &str, list: &[String]| -> Box<[IpNet]> {
            let parsed = list
                .iter()
                .enumerate()
                .filter_map(|(at, text)| parse(text).map_err(|it| faults.push(Fault { pointer: format!("/{key}/{at}"), ..it })).ok());
            parsed.collect()
        };
        let (allow, deny) = (nets("allow", config.allow.as_deref().unwrap_or(&[])), nets("deny", &config.deny));
        if config.allow.as_ref().is_some_and(Vec::is_empty) {
            faults.push(Fault::new("/allow", "an empty list lets nobody in").help("leave `allow` out to let everybody in"));
        }
        if config.allow.is_none() && config.deny.is_empty() {
            faults.push(Fault::new("", "neither `allow` nor `deny` is given, so it does nothing").help("give one of them"));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let refused = env.meter.counter(
            "allium_ip_acl_refused_total",
            "Requests refused by ip-acl.",
            &[("owner", &env.scope.owner), ("ring", &env.scope.name)],
        );
        Ok(Self { allow, deny, refused })
    }
}

fn parse(text: &str) -> Result<IpNet, Fault> {
    let fault = |it: &str| Fault::new("", format!("'{text}' is no address and no network")).help(it);
    if let Ok(it) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(it.to_canonical()));
    }
    let net: IpNet = text.parse().map_err(|_| fault("write it like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7"))?;
    if net.addr() != net.network() {
        return Err(fault(&format!("the network is {}", net.trunc())));
    }
    Ok(net)
}

impl Filter for IpAcl {
    fn request(&self, ex: &mut Exchange) -> Flow {
        // An IPv4 client on a dual-stack listener is still that IPv4 client.
        let ip = ex.peer.client_ip.to_canonical();
        let has = |list: &[IpNet]| list.iter().any(|it| it.contains(&ip));
        if has(&self.deny) || (!self.allow.is_empty() && !has(&self.allow)) {
            self.refused.add(1);
            return Err(Problem::new(Kind::Forbidden, "your address is not allowed here").reason("ip_acl"));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use contract::{Body, catalog::filter, testkit::Bench};
    use serde_json::{Value, json};

    use super::*;

    async fn check(config: Value, allowed: &[&str], refused: &[&str]) {
        let bench = Bench::of(&filter::<IpAcl>(), config);
        for (list, want) in [(allowed, 200), (refused, 403)] {
            for ip in list {
                assert_eq!(bench.from(ip.parse().unwrap()).send(http::Request::new(Body::Empty)).await.status(), want, "{ip}");
            }
        }
    }

    #[tokio::test]
    async fn deny_beats_allow() {
        check(
            json!({"allow": ["10.0.0.0/8"], "deny": ["10.1.0.0/16"]}),
            &["10.0.0.1", "::ffff:10.0.0.1"],
            &["10.1.2.3", "11.0.0.1", "::1"],
        )
        .await;
    }

    #[tokio::test]
    async fn without_allow_everybody_else_comes_in() {
        check(json!({"deny": ["2001:db8::/32", "192.0.2.7"]}), &["192.0.2.8", "::1"], &["2001:db8::7", "192.0.2.7", "::ffff:192.0.2.7"])
            .await;
    }

    #[test]
    fn every_bad_network_is_told() {
        let faults = Bench::faults(&filter::<IpAcl>(), json!({"allow": ["10.0.0.1/8", "nonsense"], "deny": ["1.2.3.4/33"]}));
        assert_eq!(faults.iter().map(|it| it.pointer.as_str()).collect::<Vec<_>>(), ["/allow/0", "/allow/1", "/deny/0"]);
        assert!(faults[0].help.as_ref().unwrap().contains("10.0.0.0/8"));
        assert_eq!(Bench::faults(&filter::<IpAcl>(), json!({})).len(), 1);
        assert_eq!(Bench::faults(&filter::<IpAcl>(), json!({"allow": []}))[0].pointer, "/allow");
    }
}
