//! How a value is spelt, as text and as JSON.

use std::borrow::Cow;

use super::Value;
use crate::json::{Kind, push_f64, push_string};

pub(super) fn text<'v>(value: &'v Value<'_>) -> Option<Cow<'v, str>> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Int(number) => Cow::Owned(number.to_string()),
        Value::UInt(number) => Cow::Owned(number.to_string()),
        Value::Float(number) => Cow::Owned(float(*number)),
        Value::Str(text) | Value::Spelt(text) => Cow::Borrowed(text),
        Value::Bytes(bytes) => Cow::Owned(base64(bytes)),
        Value::Type(name) => Cow::Borrowed(name),
        Value::Json(json) => match json.as_ref().kind() {
            Kind::String => json.as_ref().as_str().unwrap_or_default(),
            _ => Cow::Borrowed(json.as_ref().raw_str()),
        },
        Value::List(_) | Value::Map(_) => {
            let mut out = Vec::new();
            self::json(value, &mut out);
            Cow::Owned(String::from_utf8(out).unwrap_or_default())
        }
    })
}

/// A double as text: a whole one without fraction, others as in JSON.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number.trunc() == number && number.abs() < 1e15 {
        return (number as i64).to_string();
    }
    let mut out = Vec::new();
    push_f64(number, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

pub(super) fn json(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::UInt(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Float(number) => push_f64(*number, out),
        Value::Spelt(text) => out.extend_from_slice(text.as_bytes()),
        Value::Str(text) => push_string(text, out),
        Value::Bytes(bytes) => push_string(&base64(bytes), out),
        Value::Type(name) => push_string(name, out),
        Value::Json(json) => out.extend_from_slice(json.as_ref().raw()),
        Value::List(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json(item, out);
            }
            out.push(b']');
        }
        Value::Map(entries) => {
            out.push(b'{');
            for (at, (key, item)) in entries.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                push_string(&text(key).unwrap_or_default(), out);
                out.push(b':');
                json(item, out);
            }
            out.push(b'}');
        }
    }
}

/// RFC 4648 section 4, with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().enumerate().fold(0u32, |group, (at, byte)| group | (*byte as u32) << (16 - 8 * at));
        for at in 0..4 {
            out.push(if at <= chunk.len() { ALPHABET[(group >> (18 - 6 * at)) as usize & 63] as char } else { '=' });
        }
    }
    out
}
