//! Why TLS with a node failed, in words that somebody can act on. They are for the log, never for a client.
use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// A handshake that expected `name` and `spoken`, and trusts what `trusts` says.
pub(super) fn of_handshake(error: &io::Error, name: &str, trusts: &str, spoken: &str) -> String {
    let Some(why) = inner(error) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                "it closed the connection in the middle of the TLS handshake: does it speak TLS here?".to_owned()
            }
            _ => format!("the TLS handshake broke off: {error}"),
        };
    };
    match why {
        Error::InvalidCertificate(it) => of_certificate(it, name, trusts),
        Error::AlertReceived(it) => of_alert(*it, name, spoken),
        Error::InvalidMessage(_) => "what it says is no TLS: take `tls` away, or name the port where it speaks TLS".to_owned(),
        Error::PeerIncompatible(it) => format!("it has no version or cipher of TLS 1.2 or 1.3 that is safe: {it:?}"),
        it => format!("the TLS handshake failed: {it}"),
    }
}

/// What a node says of a certificate after a handshake, where it says such a thing: TLS 1.3 lets it judge that late.
pub fn refusal(error: &io::Error) -> Option<String> {
    match inner(error)? {
        Error::AlertReceived(it) if is_about_us(*it) => Some(of_alert(*it, "", "")),
        _ => None,
    }
}

fn inner(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn of_certificate(error: &CertificateError, name: &str, trusts: &str) -> String {
    use CertificateError as E;
    match error {
        // A signature that does not fit is that of another authority with the same name.
        E::UnknownIssuer | E::BadSignature => {
            format!("nobody who is trusted has signed its certificate; trusted are {trusts}: name its authority under `tls.ca`")
        }
        E::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            // As rustls shows them: `DnsName("a.test")`.
            let name_of = |it: &String| it.split('"').nth(1).unwrap_or(it).to_owned();
            let names = presented.iter().take(8).map(name_of).collect::<Vec<_>>().join(", ");
            format!("its certificate is for {names} and not for {name}: set `tls.server_name` to what it is for")
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            format!("its certificate is not for {name}: set `tls.server_name` to what it is for")
        }
        E::Expired | E::ExpiredContext { .. } => "its certificate has expired".to_owned(),
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "its certificate is not valid yet, or the clock of this machine is wrong".to_owned()
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "its certificate is not one of a server (extended key usage)".to_owned(),
        it => format!("its certificate is refused: {it}"),
    }
}

fn of_alert(alert: AlertDescription, name: &str, spoken: &str) -> String {
    use AlertDescription as A;
    match alert {
        A::NoApplicationProtocol => format!("it does not speak {spoken}: set `protocol`"),
        A::UnrecognisedName => format!("it knows nobody called {name}: set `tls.server_name`"),
        A::ProtocolVersion => "it speaks neither TLS 1.2 nor 1.3".to_owned(),
        A::HandshakeFailure => "it refuses the handshake: no cipher in common, or it wants a certificate (`tls.client`)".to_owned(),
        it if is_about_us(it) => {
            format!("it refuses the certificate of the gateway, or wants one ({it:?}): see `tls.client`, and whom the node trusts")
        }
        it => format!("it refuses the handshake: {it:?}"),
    }
}

fn is_about_us(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::CertificateRequired
            | A::NoCertificate
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
    )
}
