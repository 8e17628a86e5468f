//! An Upstream's definition becomes something that can be called.
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use contract::{
    discovery::{Found, Node, Registry, Roll},
    expression::{Context, Names, Place},
};
use http::uri::Authority;
use schemas::{nearest, tree::escape, units, v1};

use super::{breaker::breaker, origin::Origin, tls, told::Told, world::Compiler};
use crate::{
    dial::Tls,
    http1::client::{Timeouts, permits::Limits},
    proxy::Proxy,
    registry::{
        dns::{Dns, Records},
        file::File,
        fixed::{self, Listed},
    },
    strategy,
    upstream::{
        Care, Upstream,
        balance::Balance,
        health::{Active, Passive},
    },
};

/// Compiles one Upstream; `None` after faults.
pub fn upstream(world: &Compiler<'_>, told: &Told<'_>, it: &v1::Upstream, digest: u128) -> Option<Arc<Upstream>> {
    let registry = it.discovery.as_ref().map(|from| discovery(world, told, &it.name, from));
    if it.protocol() == "auto" {
        told.not_built("/protocol", "the protocol auto");
    }
    let balance = it.balance.as_ref().map(|it| balance(told, it)).unwrap_or_default();
    let mut care = care(told, it);
    care.breaker = it.breaker.as_ref().and_then(|it| breaker(told, it));
    let mut listed = Vec::new();
    for (at, node) in it.nodes.iter().enumerate() {
        listed.extend(self::node(world, told, &format!("/nodes/{at}"), node));
    }
    if !it.nodes.is_empty() && it.nodes.iter().all(|it| it.weight == Some(0)) {
        told.error_help(
            "/nodes/0/weight",
            "no-node",
            "every node has the weight 0, so none is ever asked",
            "give one of them a weight, or leave `weight` out, which is 1",
        );
    }
    let pool = it.pool.clone().unwrap_or_default();
    let standard = Limits::default();
    let limits = Limits {
        max_idle: pool.max_idle.map_or(standard.max_idle, |it| it as usize),
        idle_timeout: told.duration("/pool/idle_timeout", pool.idle_timeout.as_deref()).unwrap_or(standard.idle_timeout),
        max_connections: pool.max_connections.map_or(standard.max_connections, |it| it as usize),
    };
    let timeouts = self::timeouts(world, told, it.timeouts.as_ref());
    let tls = it.tls.as_ref().map(|tls| tls::tls(world, told, &it.name, tls));
    if told.has_errors() {
        return None;
    }
    Some(build(
        world,
        &it.name,
        digest,
        world.former_upstream(&it.name),
        (balance, care),
        registry.flatten().unwrap_or(Origins::Listed(listed)),
        limits,
        timeouts,
        it.protocol() == "http2",
        tls.flatten(),
    ))
}

/// Where an upstream's nodes come from.
enum Origins {
    Listed(Vec<Listed>),
    /// And the nodes that are known before it has answered.
    Registry(Box<dyn Registry>, Vec<Found>),
}

/// Compiles `discovery`; `None` after faults.
fn discovery(world: &Compiler<'_>, told: &Told<'_>, upstream: &str, it: &v1::Discovery) -> Option<Origins> {
    use v1::{discovery::Registry as Written, reference};
    match it.registry.as_ref()? {
        Written::Dns(it) => {
            let pointer = "/discovery/dns/name";
            let records = match (it.r#type(), it.port.and_then(|it| u16::try_from(it).ok())) {
                ("srv", None) => Records::Services,
                ("srv", Some(_)) => {
                    let help = "take `port` away, or ask for addresses with `type: a`";
                    told.error_help("/discovery/dns/port", "no-meaning", "SRV records bring their own ports", help);
                    return None;
                }
                (_, Some(port)) => Records::Addresses(port),
                (_, None) => {
                    told.error_help(pointer, "missing-key", "addresses have no port of their own", "write `port`, or `type: srv`");
                    return None;
                }
            };
            if let Err(why) = authority(&format!("{}:1", it.name)) {
                told.error_help(pointer, "bad-name", why, "a name such as orders.internal, without a port");
                return None;
            }
            // Another name is another service: only nodes of this one stay until it is resolved.
            let former = world.former_upstream(upstream).map(Upstream::nodes).unwrap_or_default();
            let port = match records {
                Records::Addresses(port) => port,
                Records::Services => 0,
            };
            let same = |node: &&Arc<Node>| node.authority.as_str() == format!("{}:{port}", it.name);
            let known = former.iter().filter(same).map(|node| Found {
                authority: node.authority.clone(),
                address: node.address,
                weight: 1,
                metadata: BTreeMap::new(),
            });
            let known = known.collect();
            Some(Origins::Registry(Box::new(Dns { name: it.name.as_str().into(), records, resolver: world.resolver.clone() }), known))
        }
        Written::File(it) => {
            let (pointer, name) = match it.written.as_ref()? {
                reference::Written::Path(it) => ("/discovery/file", it),
                reference::Written::File(it) => ("/discovery/file/file", it),
                reference::Written::Env(_) => {
                    told.error_help("/discovery/file/env", "no-meaning", "a variable does not change", "name a file");
                    return None;
                }
            };
            let it = File { path: world.root.join(name), name: name.as_str().into() };
            // The way to it is judged as that of every file.
            match world.file(name).and_then(|_| it.read()) {
                Ok(known) => Some(Origins::Registry(Box::new(it), known)),
                Err(why) => {
                    told.error(pointer, "bad-reference", why);
                    None
                }
            }
        }
        other => {
            let name = match other {
                Written::Etcd(_) => "etcd",
                Written::Nacos(_) => "nacos",
                Written::Polaris(_) => "polaris",
                Written::Consul(_) => "consul",
                _ => "kubernetes",
            };
            told.not_built(&format!("/discovery/{name}"), &format!("discovery by {name}"));
            None
        }
    }
}

/// An upstream that a call gives as a URL, which stands at `place`.
pub fn of_url(world: &Compiler<'_>, told: &Told<'_>, place: &str, origin: &Origin) -> Option<Arc<Upstream>> {
    let name = origin.authority.as_str();
    let tls = if origin.secure { Some(tls::of_url(world, told, place, name)?) } else { None };
    let listed = Origins::Listed(vec![Listed { authority: origin.authority.clone(), weight: 1, metadata: BTreeMap::new() }]);
    let timeouts = Timeouts { stream_idle: world.limits.stream.idle.get(), ..Timeouts::default() };
    Some(build(world, name, 0, None, Default::default(), listed, Limits::default(), timeouts, false, tls))
}

#[expect(clippy::too_many_arguments, reason = "all that makes an upstream, named by its kind and in one place")]
fn build(
    world: &Compiler<'_>,
    name: &str,
    digest: u128,
    former: Option<&Upstream>,
    (balance, mut care): (Balance, Care),
    origins: Origins,
    limits: Limits,
    timeouts: Timeouts,
    prefers_http2: bool,
    tls: Option<Arc<Tls>>,
) -> Arc<Upstream> {
    let (log, upstream, egress) = (world.log.clone(), name.to_owned(), world.egress.clone());
    let tell = move |message: &str| log.warn("upstream", format_args!("{message}"), &[("upstream", &upstream)]);
    let teller = tell.clone();
    care.tell = Some(Box::new(move |message| teller(message)));
    if let Some(it) = former {
        care.health = it.health().clone();
        care.breaker = care.breaker.map(|own| own.after(it.breaker()));
    }
    let former = former.map(Upstream::nodes).unwrap_or_default();
    let (roll, nodes) = Roll::new(move |at| egress.allows(at), tell);
    match origins {
        Origins::Listed(listed) => fixed::follow(listed, &former, world.resolver, world.background, roll),
        Origins::Registry(it, known) => {
            roll.put(known);
            if let Some(background) = world.background {
                background.spawn(it.follow(roll));
            }
        }
    }
    let proxy = Proxy::new(limits, timeouts, world.threads, prefers_http2).secured(tls);
    let it = Upstream::new(name, digest, balance, nodes, proxy, world.metrics.upstream_metrics(name), care);
    if let Some(background) = world.background {
        it.follow(background);
    }
    it
}

fn balance(told: &Told<'_>, it: &v1::Balance) -> Balance {
    let name = it.policy.as_deref().unwrap_or(strategy::ALL[0].name);
    // The words of the format are these; another one was refused before.
    let entry = strategy::ALL.iter().find(|it| it.name == name).unwrap_or(&strategy::ALL[0]);
    let mut balance = Balance::new(entry.make);
    let names = Names::new(Place::Balance);
    balance.hash = it.hash.as_deref().and_then(|text| told.template("/balance/hash", text, &names, Context::Plain));
    match (name, &it.hash) {
        ("hash", None) => {
            let help = "write `hash: \"${headers['x-user']}\"`: calls of equal value go to the same node";
            told.error_help("/balance/policy", "missing-key", "the policy hash needs `hash`", help);
        }
        ("hash", Some(_)) | (_, None) => (),
        (other, Some(_)) => {
            told.error_help("/balance/hash", "no-meaning", format!("the policy {other} does not hash"), "write `policy: hash`");
        }
    }
    let wanted = it.r#where.iter().filter_map(|it| {
        let pointer = format!("/balance/where/{}", escape(&it.name));
        Some((it.name.as_str().into(), told.template(&pointer, &it.value, &names, Context::Plain)?))
    });
    balance.wanted = wanted.collect();
    balance.or_any = it.or_any.unwrap_or(false);
    balance.sticky = it.sticky.as_ref().map(|it| it.cookie.as_str().into());
    if let Some(it) = &it.sticky
        && (it.cookie.is_empty() || !it.cookie.bytes().all(|it| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it)))
    {
        told.error("/balance/sticky/cookie", "bad-cookie", format!("'{}' is no cookie name", it.cookie));
    }
    balance
}

fn care(told: &Told<'_>, it: &v1::Upstream) -> Care {
    let health = it.health.clone().unwrap_or_default();
    let duration = |pointer: &str, text: &Option<String>, or: Duration| match told.duration(pointer, text.as_deref()) {
        Some(it) if it.is_zero() => {
            told.error(pointer, "bad-unit", "no time at all is no time between two checks, and none for an answer");
            or
        }
        it => it.unwrap_or(or),
    };
    let passive = health.passive.map(|it| Passive {
        failures: it.failures.unwrap_or(5),
        eject_for: duration("/health/passive/eject_for", &it.eject_for, Duration::from_secs(30)),
        max_ejected: match it.max_ejected.as_deref().map(str::parse::<units::Percent>) {
            None => 0.5,
            Some(Ok(it)) => it.fraction(),
            Some(Err(fault)) => {
                told.error("/health/passive/max_ejected", "bad-unit", fault.message);
                0.5
            }
        },
    });
    let active = health.active.map(|it| {
        if !it.path.starts_with('/') || !it.path.bytes().all(|it| it.is_ascii_graphic()) {
            told.error("/health/active/path", "bad-path", "a path begins with a slash, and has no blanks or control characters");
        }
        Active {
            path: it.path.as_str().into(),
            interval: duration("/health/active/interval", &it.interval, Duration::from_secs(5)),
            timeout: duration("/health/active/timeout", &it.timeout, Duration::from_secs(1)),
            healthy_after: it.healthy_after.unwrap_or(2),
            unhealthy_after: it.unhealthy_after.unwrap_or(3),
        }
    });
    Care { passive, active, ..Care::default() }
}

fn node(world: &Compiler<'_>, told: &Told<'_>, at: &str, it: &v1::Node) -> Option<Listed> {
    use v1::address::Written;
    let pointer = format!("{at}/address");
    let (text, pointer) = match it.address.as_ref().and_then(|it| it.written.as_ref())? {
        Written::Literal(it) => (it.clone(), pointer),
        Written::Env(name) => {
            let pointer = format!("{pointer}/env");
            match world.variable(name) {
                Ok(it) => (it, pointer),
                Err(why) => {
                    told.error(&pointer, "bad-reference", why);
                    return None;
                }
            }
        }
    };
    let authority = match authority(&text) {
        Ok(it) => it,
        Err(why) => {
            told.error_help(&pointer, "bad-address", why, "write it like 10.0.0.1:8080, [::1]:8080 or orders.internal:8080");
            return None;
        }
    };
    let listed = Listed {
        authority,
        weight: it.weight.unwrap_or(1),
        metadata: it.metadata.iter().map(|it| (it.name.as_str().into(), it.value.as_str().into())).collect(),
    };
    if let Some(address) = listed.address()
        && let Err(why) = world.egress.allows(&address)
    {
        told.error_help(&pointer, "refused-address", why, "if that is meant, name it under `egress.allow` in the settings");
        return None;
    }
    Some(listed)
}

/// Host and port, and nothing else.
pub fn authority(text: &str) -> Result<Authority, &'static str> {
    if text.contains("://") {
        return Err("an address is a host and a port, without http:// or another scheme");
    }
    let it: Authority = text.parse().map_err(|_| "this is no host and port")?;
    if it.as_str().contains('@') {
        return Err("an address has no user name");
    }
    match it.port_u16() {
        None | Some(0) => Err("a port is missing"),
        Some(_) if it.host().is_empty() => Err("a host is missing"),
        // What looks like an IPv4 address but is none would be resolved as a name, and fail later.
        Some(_) if it.host().parse::<IpAddr>().is_err() && it.host().bytes().all(|it| it.is_ascii_digit() || it == b'.') => {
            Err("this is no IPv4 address")
        }
        Some(_) => Ok(it),
    }
}

fn timeouts(world: &Compiler<'_>, told: &Told<'_>, it: Option<&v1::Timeouts>) -> Timeouts {
    let standard = Timeouts { stream_idle: world.limits.stream.idle.get(), ..Timeouts::default() };
    let Some(it) = it else { return standard };
    let one = |pointer: &str, text: &Option<String>, or| match told.duration(pointer, text.as_deref()) {
        Some(it) if it.is_zero() => {
            told.error(pointer, "bad-unit", "no time at all is not enough for any call");
            or
        }
        Some(it) => it,
        None => or,
    };
    Timeouts {
        connect: one("/timeouts/connect", &it.connect, standard.connect),
        first_byte: one("/timeouts/first_byte", &it.first_byte, standard.first_byte),
        idle: one("/timeouts/idle", &it.idle, standard.idle),
        stream_idle: standard.stream_idle,
    }
}

/// Tells that no Upstream has this name, and which near ones there are.
pub fn unknown<'n>(told: &Told<'_>, pointer: &str, name: &str, known: impl Iterator<Item = &'n str>) {
    let known: Vec<&str> = known.collect();
    let message = format!("there is no Upstream named '{name}'");
    match nearest(name, known.iter().copied()) {
        Some(near) => told.error_help(pointer, "unknown-reference", message, format!("did you mean '{near}'?")),
        None => told.error_help(pointer, "unknown-reference", message, "write one: `kind: Upstream`, with `nodes`"),
    }
}
