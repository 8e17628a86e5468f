//! Writes an answer's head and decides how its body is framed.
use contract::Body;
use http::{HeaderMap, StatusCode, header};
use http_body::Body as _;
use tokio::time::Instant;

use super::{
    date,
    encode::{self, Encoder, Misframed},
    fields,
    inbound::status_line,
};

/// What an answer has to know of its request and its connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) http_11: bool,
    pub(super) head_only: bool,
    /// Whether the client takes trailers.
    pub(super) trailers: bool,
    /// Whether it offered to leave HTTP.
    pub(super) upgrade: bool,
    /// Whether the connection ends with this answer.
    pub(super) close: bool,
    pub(super) now: Instant,
}

/// How the answer goes on after its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// None: the head is all.
    pub(super) body: Option<Encoder>,
    pub(super) close: bool,
    pub(super) tunnel: bool,
}

/// Writes the head. An error leaves half of one in `out`, with which the connection must go.
pub(super) fn head(status: StatusCode, headers: &HeaderMap, body: &Body, facts: Facts, out: &mut Vec<u8>) -> Result<Plan, Misframed> {
    let tunnel = status == StatusCode::SWITCHING_PROTOCOLS;
    if status.is_informational() && !(tunnel && facts.upgrade) {
        return Err(Misframed);
    }
    let switching = tunnel || status == StatusCode::UPGRADE_REQUIRED;
    let mut close = facts.close;
    let mut length = None;
    let mut dated = tunnel;

    out.reserve(256);
    status_line(out, status);
    for (name, value) in headers {
        match *name {
            header::CONTENT_LENGTH => {
                let it = number(value.as_bytes()).ok_or(Misframed)?;
                if length.replace(it).is_some_and(|before| before != it) {
                    return Err(Misframed);
                }
                continue;
            }
            header::CONNECTION => {
                close |= fields::tokens(value.as_bytes()).any(|it| it.eq_ignore_ascii_case(b"close"));
                continue;
            }
            header::TRANSFER_ENCODING | header::TE => continue,
            header::TRAILER if !facts.trailers => continue,
            header::UPGRADE if !switching => continue,
            header::DATE => dated = true,
            _ if matches!(name.as_str(), "keep-alive" | "proxy-connection") => continue,
            _ => {}
        }
        encode::field(out, name, value);
    }
    if !dated {
        date::write(out, facts.now);
    }

    let body = if tunnel {
        Some(Encoder::Raw)
    } else if status == StatusCode::NO_CONTENT {
        None
    } else if facts.head_only || status == StatusCode::NOT_MODIFIED {
        // The length is of what a GET would get, which only the handler knows.
        if let Some(it) = length.or(body.size_hint().exact().filter(|it| *it > 0)) {
            encode::content_length(out, it);
        }
        None
    } else {
        match (length, body.size_hint().exact()) {
            (Some(said), Some(is)) if said != is => return Err(Misframed),
            (Some(it), _) | (None, Some(it)) => {
                encode::content_length(out, it);
                (it > 0 || !body.is_end_stream()).then_some(Encoder::Length(it))
            }
            (None, None) if facts.http_11 => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\n");
                Some(Encoder::Chunked)
            }
            (None, None) => {
                close = true;
                Some(Encoder::Raw)
            }
        }
    };
    if switching {
        close |= tunnel;
        out.extend_from_slice(if close && !tunnel { b"connection: upgrade, close\r\n".as_slice() } else { b"connection: upgrade\r\n" });
    } else if close {
        out.extend_from_slice(b"connection: close\r\n");
    } else if !facts.http_11 {
        out.extend_from_slice(b"connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(Plan { body, close, tunnel })
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, it| sum.checked_mul(10)?.checked_add(u64::from(it - b'0')))
}
