//! What an expression's value is; it borrows from the exchange wherever it can.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;

use super::{number::Number, render};
use crate::json::{JsonRef, JsonValue, JsonView, Kind};

/// The value of an expression.
///
/// JSON `null` and absent things are always [`Value::Null`], JSON `true` and `false` always [`Value::Bool`]; other JSON stays [`Value::Json`],
/// with its very bytes, until an operator looks at it.
#[derive(Debug, Clone, Default)]
pub enum Value<'a> {
    /// Nothing.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A double.
    Float(f64),
    /// A number that goes out in the spelling it came in; the text must be a JSON number.
    Spelt(Cow<'a, str>),
    /// Text.
    Str(Cow<'a, str>),
    /// Octets.
    Bytes(Cow<'a, [u8]>),
    /// A list made by an expression.
    List(Arc<Vec<Value<'a>>>),
    /// A map made by an expression, in the order it was written; keys differ.
    Map(Arc<Vec<(Value<'a>, Value<'a>)>>),
    /// A number, string, list or object of a JSON document.
    Json(Json<'a>),
    /// A type, as `type(x)` gives it.
    Type(&'static str),
}

/// A value of a JSON document: within the exchange, or one that keeps its document alive.
#[derive(Debug, Clone)]
pub enum Json<'a> {
    /// Borrowed.
    Ref(JsonRef<'a>),
    /// Kept alive.
    Owned(JsonValue),
}

impl<'a> Json<'a> {
    /// The value, for reading.
    pub fn as_ref(&self) -> JsonRef<'_> {
        match self {
            Self::Ref(json) => *json,
            Self::Owned(json) => json.as_ref(),
        }
    }

    /// The part of this value that `find` chooses.
    pub fn part(&self, find: impl FnOnce(JsonRef<'_>) -> Option<JsonRef<'_>>) -> Value<'a> {
        match self {
            Self::Ref(json) => find(*json).into(),
            Self::Owned(json) => find(json.as_ref()).map_or(Value::Null, |part| part.to_owned().into()),
        }
    }

    /// The items of a list; none for everything else.
    pub fn items(&self) -> Vec<Value<'a>> {
        match self {
            Self::Ref(json) => json.items().map(Value::from).collect(),
            Self::Owned(json) => json.as_ref().items().map(|item| item.to_owned().into()).collect(),
        }
    }
}

impl<'a> Value<'a> {
    /// A list.
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(Arc::new(items))
    }

    /// A map with text keys, which must differ.
    pub fn map<K: Into<Cow<'a, str>>>(entries: impl IntoIterator<Item = (K, Value<'a>)>) -> Self {
        Self::Map(Arc::new(entries.into_iter().map(|(key, value)| (Self::Str(key.into()), value)).collect()))
    }

    /// The same value, its text or octets not copied.
    pub(super) fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Str(it) => Value::Str(Cow::Borrowed(it)),
            Self::Spelt(it) => Value::Spelt(Cow::Borrowed(it)),
            Self::Bytes(it) => Value::Bytes(Cow::Borrowed(it)),
            it => it.clone(),
        }
    }

    /// True for null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// True for `true` alone.
    pub fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    /// What kind of value this is, in an author's words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::UInt(_) | Self::Float(_) | Self::Spelt(_) => "a number",
            Self::Str(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Type(_) => "a type",
            Self::Json(json) => match json.as_ref().kind() {
                Kind::Null => "null",
                Kind::Bool => "a boolean",
                Kind::Number => "a number",
                Kind::String => "text",
                Kind::Array => "a list",
                Kind::Object => "a map",
            },
        }
    }

    /// The text of a text; borrowed unless it is a JSON string with escapes. Nothing for other kinds: see [`Value::to_text`].
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Str(text) => Some(Cow::Borrowed(text)),
            Self::Json(json) => json.as_ref().as_str(),
            _ => None,
        }
    }

    /// The number of a number.
    pub fn as_number(&self) -> Option<Number<'_>> {
        match self {
            Self::Int(number) => Some(Number::Int(*number)),
            Self::UInt(number) => Some(Number::UInt(*number)),
            Self::Float(number) => Some(Number::Float(*number)),
            Self::Spelt(text) => Some(Number::parse(text)),
            Self::Json(json) => json.as_ref().as_number().map(Number::parse),
            _ => None,
        }
    }

    /// The number, if it is an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The number, rounded to a double.
    pub fn as_f64(&self) -> Option<f64> {
        Some(self.as_number()?.as_f64())
    }

    /// Items of a list, entries of a map; nothing for other kinds.
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::List(items) => Some(items.len()),
            Self::Map(entries) => Some(entries.len()),
            Self::Json(json) => matches!(json.as_ref().kind(), Kind::Array | Kind::Object).then(|| json.as_ref().len()),
            _ => None,
        }
    }

    /// True for an empty list or map.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// True for lists, made or of a document.
    pub fn is_list(&self) -> bool {
        self.kind() == "a list"
    }

    /// The member of a map; null where there is none, and of everything that is no map.
    pub fn get(&self, key: &str) -> Value<'a> {
        match self {
            Self::Map(entries) => {
                let found = entries.iter().find(|(name, _)| matches!(name, Self::Str(name) if name == key));
                found.map_or(Value::Null, |(_, value)| value.clone())
            }
            Self::Json(json) => json.part(|json| json.get(key)),
            _ => Value::Null,
        }
    }

    /// True if the value is a map with this key, whatever stands there.
    pub fn has(&self, key: &str) -> bool {
        match self {
            Self::Map(entries) => entries.iter().any(|(name, _)| matches!(name, Self::Str(name) if name == key)),
            Self::Json(json) => json.as_ref().get(key).is_some(),
            _ => false,
        }
    }

    /// The item of a list, from zero; null out of range, and of everything that is no list.
    pub fn item(&self, index: usize) -> Value<'a> {
        match self {
            Self::List(items) => items.get(index).cloned().unwrap_or_default(),
            Self::Json(json) => json.part(|json| json.index(index)),
            _ => Value::Null,
        }
    }

    /// The items of a list; nothing for other kinds.
    pub fn items(&self) -> Option<Vec<Value<'a>>> {
        match self {
            Self::List(items) => Some(items.as_ref().clone()),
            Self::Json(json) if json.as_ref().kind() == Kind::Array => Some(json.items()),
            _ => None,
        }
    }

    /// How the value reads as text; nothing for null. Numbers of a document keep their spelling; a whole double has no fraction (`2`);
    /// lists and maps are JSON text; octets are Base64.
    pub fn to_text(&self) -> Option<Cow<'_, str>> {
        render::text(self)
    }

    /// Appends the value as JSON. What is of a document keeps its very bytes; octets are a Base64 string; NaN and infinities are null.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        render::json(self, out);
    }

    /// The value as JSON; of a document, its very bytes, shared.
    pub fn to_json(&self) -> Bytes {
        match self {
            Self::Json(json) => json.as_ref().raw_bytes(),
            Self::Null => Bytes::from_static(b"null"),
            Self::Bool(true) => Bytes::from_static(b"true"),
            Self::Bool(false) => Bytes::from_static(b"false"),
            _ => {
                let mut out = Vec::new();
                self.push_json(&mut out);
                out.into()
            }
        }
    }

    /// The value without its ties to the exchange; documents are kept alive, not copied.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::UInt(value) => Value::UInt(value),
            Self::Float(value) => Value::Float(value),
            Self::Type(value) => Value::Type(value),
            Self::Str(text) => Value::Str(Cow::Owned(text.into_owned())),
            Self::Spelt(text) => Value::Spelt(Cow::Owned(text.into_owned())),
            Self::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Self::List(items) => Value::list(items.iter().cloned().map(Value::into_owned).collect()),
            Self::Map(entries) => {
                let owned = |(key, value): &(Value<'a>, Value<'a>)| (key.clone().into_owned(), value.clone().into_owned());
                Value::Map(Arc::new(entries.iter().map(owned).collect()))
            }
            Self::Json(json) => Value::Json(Json::Owned(match json {
                Json::Ref(json) => json.to_owned(),
                Json::Owned(json) => json,
            })),
        }
    }
}

impl<'a> From<JsonRef<'a>> for Value<'a> {
    fn from(json: JsonRef<'a>) -> Self {
        match json.kind() {
            Kind::Null => Self::Null,
            Kind::Bool => Self::Bool(json.as_bool() == Some(true)),
            _ => Self::Json(Json::Ref(json)),
        }
    }
}

impl<'a> From<&'a JsonView> for Value<'a> {
    fn from(view: &'a JsonView) -> Self {
        view.root().into()
    }
}

impl From<JsonValue> for Value<'_> {
    fn from(json: JsonValue) -> Self {
        match json.as_ref().kind() {
            Kind::Null => Self::Null,
            Kind::Bool => Self::Bool(json.as_ref().as_bool() == Some(true)),
            _ => Self::Json(Json::Owned(json)),
        }
    }
}

impl From<JsonView> for Value<'_> {
    fn from(view: JsonView) -> Self {
        JsonValue::from(view).into()
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Str(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Str(Cow::Owned(text))
    }
}

impl<'a> From<Cow<'a, str>> for Value<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Str(text)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Self::UInt(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
