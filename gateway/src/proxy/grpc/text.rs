//! Texts of paths and queries as values of fields, by the fields' own types.
use base64::Engine as _;
use bytes::Bytes;
use prost_reflect::{FieldDescriptor, Kind, Value};

use super::method::from_json;

/// Well-known types that JSON writes as a text, and as a bare value.
const TEXTS: &[&str] = &["Timestamp", "Duration", "FieldMask", "StringValue", "BytesValue"];
const BARE: &[&str] = &["BoolValue", "Int32Value", "UInt32Value", "Int64Value", "UInt64Value", "FloatValue", "DoubleValue"];

/// Whether a single text can be this field's value.
pub(super) fn is_one(field: &FieldDescriptor) -> bool {
    match field.kind() {
        Kind::Message(it) => well_known(it.full_name()).is_some(),
        _ => true,
    }
}

/// Some(true) for those written as a text.
fn well_known(name: &str) -> Option<bool> {
    let name = name.strip_prefix("google.protobuf.")?;
    if TEXTS.contains(&name) { Some(true) } else { BARE.contains(&name).then_some(false) }
}

/// Errors: what it should be, in words.
pub(super) fn value(field: &FieldDescriptor, text: &str) -> Result<Value, String> {
    fn number<T: std::str::FromStr>(text: &str, words: &str) -> Result<T, String> {
        text.parse().map_err(|_| words.to_owned())
    }
    Ok(match field.kind() {
        Kind::String => Value::String(text.to_owned()),
        Kind::Bool => Value::Bool(match text {
            "true" => true,
            "false" => false,
            _ => return Err("true or false".to_owned()),
        }),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(number(text, "a whole number of 32 bits")?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number(text, "a whole number of 64 bits")?),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(number(text, "a whole number of 32 bits, not negative")?),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(number(text, "a whole number of 64 bits, not negative")?),
        Kind::Float => Value::F32(number(text, "a number")?),
        Kind::Double => Value::F64(number(text, "a number")?),
        Kind::Bytes => {
            let plain: String = text
                .trim_end_matches('=')
                .chars()
                .map(|it| {
                    if it == '-' {
                        '+'
                    } else if it == '_' {
                        '/'
                    } else {
                        it
                    }
                })
                .collect();
            let bytes = base64::engine::general_purpose::STANDARD_NO_PAD.decode(plain).map_err(|_| "base64".to_owned())?;
            Value::Bytes(Bytes::from(bytes))
        }
        Kind::Enum(it) => {
            let by_name = it.get_value_by_name(text).map(|it| it.number());
            let number = by_name.or_else(|| text.parse().ok());
            Value::EnumNumber(number.ok_or_else(|| {
                let names: Vec<String> = it.values().map(|it| it.name().to_owned()).take(16).collect();
                format!("one of {}", names.join(", "))
            })?)
        }
        Kind::Message(it) => {
            let expected = || format!("a {}", it.name());
            let json = match well_known(it.full_name()) {
                Some(true) => serde_json::Value::from(text).to_string(),
                Some(false) if serde_json::from_str::<serde_json::Value>(text).is_ok_and(|it| it.is_number() || it.is_boolean()) => {
                    text.to_owned()
                }
                _ => return Err(expected()),
            };
            Value::Message(from_json(&it, json.as_bytes()).map_err(|_| expected())?)
        }
    })
}
