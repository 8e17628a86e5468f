//! The listeners of clients, of the admin API and of probes.
use std::{net::IpAddr, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{fault::Faults, secret::Secret, values::Address};

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// An IP address and a port: `127.0.0.1:8080`, `0.0.0.0:8080` for all, `[::]:8080` for all with IPv6.
    pub address: Address,
    /// TLS, 1.2 and 1.3. Left out: plain HTTP.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// Whether each connection begins with a header of the PROXY protocol, version 1 or 2. Only those of `trusted_proxies` may connect then.
    #[serde(default)]
    pub proxy_protocol: bool,
    /// Whether everything is answered by a redirect (308) to `https://`, at the port of HTTPS, 443.
    #[serde(default)]
    pub redirect_to_https: bool,
}

/// The TLS of a listener. Files are relative to the folder of `allium.yaml`, and are read anew when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// One is chosen by the name that the client asks for (SNI), and by what its kind of key can sign; the first where none has that name.
    pub certificates: Vec<Certificate>,
    /// Authorities in PEM: every client must show a certificate of one of them. `auth.subject` is its name then.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

/// A certificate and its key, each a file in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The certificate, and those between it and its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The admin listener: definitions, catalogue, figures, readiness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// An IP address and a port. Without tokens it must be one of this machine alone.
    pub address: Address,
    /// Who may use it. Without any it answers reads only, and only to this machine.
    pub tokens: Vec<Token>,
}

/// One token of the admin listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Where the token is kept: `{env: NAME}` or `{file: PATH}`.
    pub token: Secret,
    /// What it allows: `read` or `write`, which includes reading.
    pub role: Role,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Read,
    Write,
}

/// A listener for probes and scrapers: only `/live`, `/ready` and `/metrics`, and no token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// An IP address and a port.
    pub address: Address,
}

/// How accepted connections come to the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Accept {
    /// As the gateway thinks best; now `per_core`.
    #[default]
    Auto,
    /// Each worker accepts for itself, and the kernel spreads connections.
    PerCore,
    /// One acceptor hands each connection to the worker with the fewest: for few connections that live long.
    Balanced,
}

impl Default for Listen {
    fn default() -> Self {
        Self::at(local(8080))
    }
}

impl Listen {
    /// Plain HTTP at `address`.
    pub fn at(address: Address) -> Self {
        Self { address, tls: None, proxy_protocol: false, redirect_to_https: false }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self { address: local(9080), tokens: Vec::new() }
    }
}

fn local(port: u16) -> Address {
    Address(([127, 0, 0, 1], port).into())
}

/// What the listeners' own settings have against each other; `trusted` is how many `trusted_proxies` there are.
pub fn check_each(listen: &[Listen], trusted: usize, faults: &mut Faults) {
    for (at, it) in listen.iter().enumerate() {
        if it.tls.as_ref().is_some_and(|it| it.certificates.is_empty()) {
            faults
                .error(&format!("/listen/{at}/tls/certificates"), "TLS needs a certificate")
                .help("write at least one `{cert: FILE, key: FILE}`");
        }
        if it.tls.is_some() && it.redirect_to_https {
            faults.error(&format!("/listen/{at}/redirect_to_https"), "this listener speaks TLS: there is nothing to redirect to");
        }
        if it.proxy_protocol && trusted == 0 {
            faults
                .error(&format!("/listen/{at}/proxy_protocol"), "nobody may connect: there are no `trusted_proxies` to believe")
                .help("name the addresses of your load balancers in `trusted_proxies`");
        }
    }
}

/// What the listeners have against each other.
pub fn check(listen: &[Listen], admin: &Admin, status: Option<&Status>, faults: &mut Faults) {
    if listen.is_empty() {
        faults
            .error("/listen", "there is nothing to listen on")
            .help("write at least one address, or leave `listen` out for 127.0.0.1:8080");
    }
    let mut taken: Vec<(String, Address)> = Vec::new();
    let named = listen.iter().enumerate().map(|(at, it)| (format!("/listen/{at}/address"), it.address));
    let others = [("/admin/address", Some(admin.address)), ("/status/address", status.map(|it| it.address))];
    for (pointer, address) in named.chain(others.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?)))) {
        match taken.iter().find(|(_, other)| clash(*other, address)) {
            Some((other, it)) if *it == address => {
                faults.error(&pointer, format!("`{}` and `{}` are both `{address}`", spoken(&pointer), spoken(other)));
            }
            Some((other, it)) => {
                faults.error(&pointer, format!("`{}` cannot be `{address}`: `{}` is `{it}`", spoken(&pointer), spoken(other)));
            }
            None => taken.push((pointer, address)),
        }
    }
    if admin.tokens.is_empty() && !is_local(admin.address.0.ip()) {
        let fault =
            faults.error("/admin/address", format!("`{}` can be reached from other machines, and there are no tokens", admin.address));
        fault.help("write `tokens`, or listen on 127.0.0.1; probes and scrapers have a listener of their own, `status`");
    }
}

/// Whether two listeners cannot stand side by side. Port 0 is a free one, each time another.
fn clash(one: Address, two: Address) -> bool {
    let (one, two) = (one.0, two.0);
    let both = |it: IpAddr, other: IpAddr| it.is_unspecified() && (it.is_ipv6() || other.is_ipv4());
    one.port() == two.port() && one.port() != 0 && (one.ip() == two.ip() || both(one.ip(), two.ip()) || both(two.ip(), one.ip()))
}

fn is_local(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// `/listen/0/address` as a reader says it.
fn spoken(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(listen: &[&str], admin: &str, status: Option<&str>, tokens: usize) -> String {
        let address = |it: &str| it.parse::<Address>().unwrap();
        let listen: Vec<_> = listen.iter().map(|it| Listen::at(address(it))).collect();
        let token = Token { token: Secret::Env("A".into()), role: Role::Read };
        let admin = Admin { address: address(admin), tokens: vec![token; tokens] };
        let status = status.map(|it| Status { address: address(it) });
        let mut faults = Faults::default();
        check(&listen, &admin, status.as_ref(), &mut faults);
        faults.list.iter().map(|it| format!("{}: {}\n", it.pointer, it.message)).collect()
    }

    #[test]
    fn no_two_listeners_have_one_address() {
        let ok = "127.0.0.1:9080";
        assert_eq!(
            faults(&["127.0.0.1:8080", "127.0.0.2:8080", "[::1]:8080", "127.0.0.1:0", "127.0.0.1:0"], ok, Some("0.0.0.0:9081"), 0),
            ""
        );
        for (listen, status, want) in [
            (
                &["127.0.0.1:8080", "127.0.0.1:8080"][..],
                None,
                "/listen/1/address: `listen.1.address` and `listen.0.address` are both `127.0.0.1:8080`",
            ),
            (&["127.0.0.1:9080"], None, "/admin/address: `admin.address` and `listen.0.address` are both `127.0.0.1:9080`"),
            (&["0.0.0.0:9080"], None, "/admin/address: `admin.address` cannot be `127.0.0.1:9080`: `listen.0.address` is `0.0.0.0:9080`"),
            (&["[::]:9080"], None, "/admin/address: `admin.address` cannot be `127.0.0.1:9080`: `listen.0.address` is `[::]:9080`"),
            (
                &["127.0.0.1:8080"],
                Some("0.0.0.0:8080"),
                "/status/address: `status.address` cannot be `0.0.0.0:8080`: `listen.0.address` is `127.0.0.1:8080`",
            ),
            (&[], None, "/listen: there is nothing to listen on"),
        ] {
            let got = faults(listen, ok, status, 0);
            assert!(got.starts_with(want) && got.lines().count() == 1, "{listen:?}: {got}");
        }
        assert_eq!(faults(&["0.0.0.0:8080"], ok, Some("[::1]:8080"), 0), "", "IPv4's all is not IPv6's");
    }

    #[test]
    fn a_listener_that_could_answer_nobody_is_told() {
        let tls = |count: usize| Tls { certificates: vec![Certificate { cert: "a".into(), key: "b".into() }; count], client_ca: None };
        let plain = Listen::at(local(1));
        for (it, trusted, want) in [
            (plain.clone(), 0, ""),
            (Listen { tls: Some(tls(1)), proxy_protocol: true, ..plain.clone() }, 1, ""),
            (Listen { redirect_to_https: true, ..plain.clone() }, 0, ""),
            (Listen { tls: Some(tls(0)), ..plain.clone() }, 0, "/listen/0/tls/certificates"),
            (Listen { tls: Some(tls(1)), redirect_to_https: true, ..plain.clone() }, 0, "/listen/0/redirect_to_https"),
            (Listen { proxy_protocol: true, ..plain.clone() }, 0, "/listen/0/proxy_protocol"),
        ] {
            let mut faults = Faults::default();
            check_each(&[it], trusted, &mut faults);
            assert_eq!(faults.list.iter().map(|it| it.pointer.as_str()).collect::<String>(), want);
        }
    }

    #[test]
    fn the_admin_listener_without_tokens_is_for_this_machine_alone() {
        let listen = &["127.0.0.1:8080"][..];
        for address in ["0.0.0.0:9080", "10.0.0.1:9080", "[::]:9080"] {
            assert!(faults(listen, address, None, 0).contains("can be reached from other machines"), "{address}");
            assert_eq!(faults(listen, address, None, 1), "", "{address}");
        }
        for address in ["127.0.0.1:9080", "[::1]:9080", "[::ffff:127.0.0.1]:9080"] {
            assert_eq!(faults(listen, address, None, 0), "", "{address}");
        }
    }
}
