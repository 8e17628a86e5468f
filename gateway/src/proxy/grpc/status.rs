//! How a call ended, as gRPC tells it and as HTTP would.
use std::borrow::Cow;

use base64::Engine as _;
use contract::json::push_string;
use http::{HeaderMap, HeaderName, StatusCode};
use percent_encoding::percent_decode;
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::method::json_of;

pub(super) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(super) const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(super) const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The end of a call, as the backend tells it.
pub(super) struct Status {
    pub(super) code: u32,
    pub(super) message: String,
    pub(super) details: Option<Vec<u8>>,
}

impl Status {
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let code = headers.get(STATUS)?.to_str().ok().and_then(|it| it.trim().parse().ok()).unwrap_or(2);
        let message = headers.get(MESSAGE).map_or(Cow::Borrowed(""), |it| {
            // Percent-encoded UTF-8; what is not so is shown as it can be.
            Cow::Owned(percent_decode(it.as_bytes()).decode_utf8_lossy().into_owned())
        });
        let details = headers.get(DETAILS).and_then(|it| {
            let text = it.as_bytes().trim_ascii();
            let text = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
            base64::engine::general_purpose::STANDARD_NO_PAD.decode(text).ok()
        });
        Some(Self { code, message: message.into_owned(), details })
    }

    /// What an answer means that is none of gRPC (http-grpc-status-mapping.md).
    pub(super) fn of_http(status: StatusCode) -> Self {
        let code = match status.as_u16() {
            400 => 13,
            401 => 16,
            403 => 7,
            404 => 12,
            429 | 502 | 503 | 504 => 14,
            _ => 2,
        };
        Self { code, message: format!("the backend answered HTTP {} without a gRPC status", status.as_u16()), details: None }
    }

    /// The status of HTTP that says the same (google/rpc/code.proto).
    pub(super) fn http(&self) -> StatusCode {
        let code = match self.code {
            0 => 200,
            1 => 499,
            3 | 9 | 11 => 400,
            4 => 504,
            5 => 404,
            6 | 10 => 409,
            7 => 403,
            8 => 429,
            12 => 501,
            14 => 503,
            16 => 401,
            _ => 500,
        };
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// google.rpc.Status as JSON; details only of types that are described.
    pub(super) fn json(&self, pool: Option<&DescriptorPool>) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(format!("{{\"code\":{},\"message\":", self.code).as_bytes());
        push_string(&self.message, &mut out);
        let details = self.details.as_deref().zip(pool).map(|(bytes, pool)| self::details(bytes, self.code, pool)).unwrap_or_default();
        if !details.is_empty() {
            out.extend_from_slice(b",\"details\":[");
            out.extend_from_slice(&details.join(&b","[..]));
            out.push(b']');
        }
        out.push(b'}');
        out
    }
}

/// The details of a serialized google.rpc.Status, each with its `@type`. Nothing of one that contradicts its own status.
fn details(bytes: &[u8], code: u32, pool: &DescriptorPool) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut told = 0;
    for (number, value) in Fields(bytes) {
        match (number, value) {
            (1, Field::Whole(it)) => told = it,
            (3, Field::Bytes(it)) => all.push(it),
            _ => (),
        }
    }
    if told != u64::from(code) {
        return Vec::new();
    }
    all.into_iter()
        .filter_map(|any| {
            let (mut url, mut value) = ("", &[][..]);
            for field in Fields(any) {
                match field {
                    (1, Field::Bytes(it)) => url = std::str::from_utf8(it).ok()?,
                    (2, Field::Bytes(it)) => value = it,
                    _ => (),
                }
            }
            let described = pool.get_message_by_name(url.rsplit('/').next()?)?;
            let json = json_of(&DynamicMessage::decode(described, value).ok()?).ok()?;
            let mut out = b"{\"@type\":".to_vec();
            push_string(url, &mut out);
            // Well-known types are written as a value.
            match json.as_slice() {
                [b'{', b'}'] => out.push(b'}'),
                [b'{', rest @ ..] => {
                    out.push(b',');
                    out.extend_from_slice(rest);
                }
                other => {
                    out.extend_from_slice(b",\"value\":");
                    out.extend_from_slice(other);
                    out.push(b'}');
                }
            }
            Some(out)
        })
        .collect()
}

/// The fields of a serialized message, as far as they can be read.
struct Fields<'a>(&'a [u8]);

enum Field<'a> {
    Whole(u64),
    Bytes(&'a [u8]),
    Other,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = varint(&mut self.0)?;
        let field = match tag & 7 {
            0 => Field::Whole(varint(&mut self.0)?),
            1 => self.0.split_off(..8).map(|_| Field::Other)?,
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).ok()?;
                Field::Bytes(self.0.split_off(..length)?)
            }
            5 => self.0.split_off(..4).map(|_| Field::Other)?,
            _ => return None,
        };
        Some((tag >> 3, field))
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
