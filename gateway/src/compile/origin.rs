//! The scheme, host and port of a URL (RFC 6454): what two calls must share to share connections.
use std::{fmt, str::FromStr};

use http::{Uri, uri::Authority};

/// Invariant: the authority has a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// `https`, not `http`.
    pub secure: bool,
    pub authority: Authority,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

impl FromStr for Origin {
    type Err = ();

    /// Reads what is shown.
    fn from_str(text: &str) -> Result<Self, ()> {
        let uri: Uri = text.parse().map_err(|_| ())?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(()),
        };
        Ok(Self { secure, authority: uri.authority().filter(|it| it.port().is_some()).cloned().ok_or(())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again_and_schemes_are_told_apart() {
        let of = |text: &str| text.parse::<Origin>();
        for text in ["http://a.test:443", "https://a.test:443", "https://[::1]:8443"] {
            assert_eq!(of(text).map(|it| it.to_string()), Ok(text.to_owned()));
        }
        assert_ne!(of("http://a.test:443"), of("https://a.test:443"));
        assert_eq!((of("https://a.test"), of("ftp://a.test:1")), (Err(()), Err(())));
    }
}
