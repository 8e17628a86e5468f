//! The PROXY protocol, versions 1 and 2: who the client of the load balancer in front is.
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::{io::AsyncReadExt, net::TcpStream};

/// The twelve bytes that begin a header of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The longest header of version 1, with its line end.
const LONGEST: usize = 107;
/// The longest rest of a header of version 2; what it may hold beside the addresses is small.
const LONGEST_REST: usize = 4096;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The client, and the address that it connected to.
    Proxied { client: SocketAddr, to: SocketAddr },
    /// The load balancer speaks for itself: a health check, or a client of another family.
    Itself,
}

/// Reads a header off the beginning of a connection, and not a byte more.
///
/// Errors: the connection broke, or what it began with is no such header.
pub async fn read(stream: &mut TcpStream) -> io::Result<Said> {
    let mut begin = [0; SIGNATURE.len()];
    stream.read_exact(&mut begin).await?;
    if begin == SIGNATURE {
        let mut fixed = [0; 4];
        stream.read_exact(&mut fixed).await?;
        let length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if length > LONGEST_REST {
            return Err(malformed());
        }
        let mut rest = vec![0; length];
        stream.read_exact(&mut rest).await?;
        return version_2(fixed[0], fixed[1], &rest).ok_or_else(malformed);
    }
    if !begin.starts_with(b"PROXY ") {
        return Err(malformed());
    }
    let mut line = begin.to_vec();
    let mut peeked = [0; LONGEST];
    loop {
        // Peeked first, so that what follows the line stays in the socket.
        let size = stream.peek(&mut peeked[..LONGEST - line.len()]).await?;
        if size == 0 {
            return Err(malformed());
        }
        let end = memchr::memchr(b'\n', &peeked[..size]).map(|it| it + 1);
        let part = &mut peeked[..end.unwrap_or(size)];
        stream.read_exact(part).await?;
        line.extend_from_slice(part);
        if end.is_some() {
            return version_1(&line).ok_or_else(malformed);
        }
        if line.len() >= LONGEST {
            return Err(malformed());
        }
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no header of the PROXY protocol")
}

/// A whole line: `PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n`.
fn version_1(line: &[u8]) -> Option<Said> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix("\r\n")?.strip_prefix("PROXY ")?;
    if text == "UNKNOWN" || text.starts_with("UNKNOWN ") {
        return Some(Said::Itself);
    }
    let mut words = text.split(' ');
    let mut next = || words.next().filter(|it| !it.is_empty());
    let family = next()?;
    let address = |it: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => it.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => it.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let (client, to) = (address(next()?)?, address(next()?)?);
    let port = |it: &str| it.bytes().all(|it| it.is_ascii_digit()).then(|| it.parse::<u16>().ok()).flatten();
    let (from_port, to_port) = (port(next()?)?, port(next()?)?);
    words.next().is_none().then_some(Said::Proxied { client: SocketAddr::new(client, from_port), to: SocketAddr::new(to, to_port) })
}

/// What stands behind the signature; further fields behind the addresses are passed over.
fn version_2(version_and_command: u8, family: u8, rest: &[u8]) -> Option<Said> {
    match version_and_command {
        0x20 => return Some(Said::Itself),
        0x21 => {}
        _ => return None,
    }
    let (from, to, ports) = match family {
        0x11 => {
            let from: [u8; 4] = rest.get(..4)?.try_into().ok()?;
            let to: [u8; 4] = rest.get(4..8)?.try_into().ok()?;
            (IpAddr::from(from), IpAddr::from(to), rest.get(8..12)?)
        }
        0x21 => {
            let from: [u8; 16] = rest.get(..16)?.try_into().ok()?;
            let to: [u8; 16] = rest.get(16..32)?.try_into().ok()?;
            (IpAddr::from(from), IpAddr::from(to), rest.get(32..36)?)
        }
        // Neither datagrams nor sockets of files come here.
        0x00 => return Some(Said::Itself),
        _ => return None,
    };
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    Some(Said::Proxied { client: SocketAddr::new(from, port(0)), to: SocketAddr::new(to, port(2)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxied(client: &str, to: &str) -> Option<Said> {
        Some(Said::Proxied { client: client.parse().unwrap(), to: to.parse().unwrap() })
    }

    #[test]
    fn a_line_of_version_1_is_read_to_the_letter() {
        for (line, expect) in [
            ("PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n", proxied("192.0.2.1:40000", "198.51.100.1:443")),
            ("PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n", proxied("[2001:db8::1]:1", "[2001:db8::2]:2")),
            ("PROXY UNKNOWN\r\n", Some(Said::Itself)),
            ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", Some(Said::Itself)),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\n", None),
            ("PROXY TCP4 192.0.2.1  198.51.100.1 40000 443\r\n", None),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 40000 443 x\r\n", None),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 40000\r\n", None),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 +4 443\r\n", None),
            ("PROXY TCP4 192.0.2.1 198.51.100.1 70000 443\r\n", None),
            ("PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", None),
            ("PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n", None),
            ("PROXY UNKNOWNS\r\n", None),
            ("PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n", None),
            ("GET / HTTP/1.1\r\n", None),
        ] {
            assert_eq!(version_1(line.as_bytes()), expect, "{line:?}");
        }
    }

    #[test]
    fn a_header_of_version_2_is_read_and_its_further_fields_passed_over() {
        let four = [192, 0, 2, 1, 198, 51, 100, 1, 0x9c, 0x40, 1, 0xbb, 0x04, 0, 1, 0xff];
        let mut six = [0; 36];
        (six[15], six[31], six[33], six[35]) = (1, 2, 3, 4);
        for (command, family, rest, expect) in [
            (0x21, 0x11, &four[..], proxied("192.0.2.1:40000", "198.51.100.1:443")),
            (0x21, 0x11, &four[..12], proxied("192.0.2.1:40000", "198.51.100.1:443")),
            (0x21, 0x21, &six[..], proxied("[::1]:3", "[::2]:4")),
            (0x20, 0x00, &[], Some(Said::Itself)),
            (0x20, 0x11, &four[..], Some(Said::Itself)),
            (0x21, 0x00, &[], Some(Said::Itself)),
            (0x21, 0x11, &four[..11], None),
            (0x21, 0x21, &six[..35], None),
            (0x21, 0x12, &four[..], None),
            (0x21, 0x31, &six[..], None),
            (0x22, 0x11, &four[..], None),
            (0x11, 0x11, &four[..], None),
        ] {
            assert_eq!(version_2(command, family, rest), expect, "{command:x} {family:x} {}", rest.len());
        }
    }
}
