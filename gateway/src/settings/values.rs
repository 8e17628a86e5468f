//! Values that settings are made of, beside the units: addresses, networks, names.
use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use http::HeaderName;
use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Where a listener listens: `127.0.0.1:8080`, `[::]:8080`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// A range of addresses, `10.0.0.0/8`, or a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

/// The name of a header, in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header(pub HeaderName);

/// Names of environment variables: `ACME_KEY`, or all that begin alike: `ACME_*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables(Box<str>);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| {
            if text.parse::<Ipv6Addr>().is_ok() {
                return format!("an IPv6 address stands in brackets, with a port: `[{text}]:8080`");
            }
            let host = match text.rsplit_once(':') {
                Some(("" | "*", port)) if port.parse::<u16>().is_ok() => {
                    return format!("an address needs its host: write `0.0.0.0:{port}` for all of them");
                }
                Some((host, port)) if port.parse::<u16>().is_err() => {
                    return match host.contains(':') {
                        true => "an IPv6 address stands in brackets, with a port: `[::1]:8080`".to_owned(),
                        false => format!("`{port}` is not a port"),
                    };
                }
                Some((host, _)) => host,
                None if text.parse::<IpAddr>().is_ok() => return format!("an address needs its port: `{text}:8080`"),
                None => text,
            };
            match host {
                "localhost" => "write an IP address: `127.0.0.1:8080` for localhost".to_owned(),
                _ => "expected an IP address and a port, such as `127.0.0.1:8080` or `[::]:8080`".to_owned(),
            }
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(it) = text.parse::<IpAddr>() {
            return Ok(Self(it.into()));
        }
        let it: IpNet = text.parse().map_err(|_| "expected a range of addresses, such as `10.0.0.0/8` or `10.1.2.3`".to_owned())?;
        match it.trunc() == it {
            true => Ok(Self(it)),
            // Whoever wrote it meant one address or the whole range: guessing would trust the wrong one.
            false => {
                Err(format!("`{text}` has bits beyond its prefix: write `{}` for the range or `{}` for the address", it.trunc(), it.addr()))
            }
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        HeaderName::from_bytes(text.as_bytes()).map(Self).map_err(|_| "this is no name of a header".to_owned())
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Variables {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_suffix('*').unwrap_or(text);
        if name.is_empty() {
            return Err("`*` would let definitions read the whole environment; write how the names begin, such as `ACME_*`".to_owned());
        }
        match name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_') && !name.starts_with(|it: char| it.is_ascii_digit()) {
            true => Ok(Self(text.into())),
            false => Err("expected the name of an environment variable, or its beginning and a `*`: `ACME_*`".to_owned()),
        }
    }
}

impl Variables {
    /// Whether `name` is one of them.
    pub fn allows(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => *self.0 == *name,
        }
    }
}

impl fmt::Display for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! text {
    ($($type:ident $format:literal)*) => {
        /// What a text of this `format` of a schema must be; none for formats that are not ours.
        pub fn judge(format: &str, text: &str) -> Result<(), String> {
            match format {
                $($format => text.parse::<$type>().map(drop),)*
                _ => Ok(()),
            }
        }

        $(
            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    Cow::<'de, str>::deserialize(from)?.parse().map_err(D::Error::custom)
                }
            }

            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    to.collect_str(self)
                }
            }

            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($type).into()
                }

                fn inline_schema() -> bool {
                    true
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({"type": "string", "format": $format})
                }
            }
        )*
    };
}

text! { Address "address" Network "network" Header "header-name" Variables "variables" }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_none_says_what_to_write() {
        for good in ["127.0.0.1:8080", "[::]:8080", "0.0.0.0:0"] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), good);
        }
        for (bad, help) in [
            (":8080", "0.0.0.0:8080"),
            ("*:80", "0.0.0.0:80"),
            ("localhost:8080", "127.0.0.1"),
            ("127.0.0.1", "127.0.0.1:8080"),
            ("127.0.0.1:99999", "`99999` is not a port"),
            ("::1", "brackets"),
            ("fe80::x:y", "brackets"),
            ("example.com:80", "IP address"),
            ("", "IP address"),
        ] {
            let error = bad.parse::<Address>().unwrap_err();
            assert!(error.contains(help), "{bad}: {error}");
        }
    }

    #[test]
    fn a_network_is_a_range_or_one_address() {
        for (text, want) in [("10.0.0.0/8", "10.0.0.0/8"), ("10.1.2.3", "10.1.2.3/32"), ("::1", "::1/128"), ("fd00::/8", "fd00::/8")] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), want);
        }
        for bad in ["10.0.0.0/33", "10.0.0", "all", "10.0.0.1/8"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn variables_are_names_or_beginnings() {
        let it: Variables = "ACME_*".parse().unwrap();
        assert!(it.allows("ACME_KEY") && it.allows("ACME_") && !it.allows("ACM") && !it.allows("XACME_KEY"));
        let it: Variables = "ACME".parse().unwrap();
        assert!(it.allows("ACME") && !it.allows("ACME_KEY"));
        for bad in ["*", "", "A*B", "A-B", "1A", "A B"] {
            assert!(bad.parse::<Variables>().is_err(), "{bad}");
        }
    }
}
