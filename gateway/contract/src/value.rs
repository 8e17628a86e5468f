//! A value that outlives the request's bytes: parameters, variables, who is calling.
use bytes::Bytes;

/// Like a JSON value; a number keeps its text, so that no digit is lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    /// JSON's spelling of a number.
    Number(Box<str>),
    Text(Box<str>),
    List(Vec<Value>),
    Map(Vec<(Box<str>, Value)>),
    /// JSON text, kept byte for byte.
    Raw(Bytes),
}

impl Value {
    pub fn text(it: impl Into<Box<str>>) -> Self {
        Self::Text(it.into())
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Map(it) => it.iter().find(|(key, _)| **key == *name).map(|(_, it)| it),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(it) => Some(it),
            _ => None,
        }
    }

    /// For validation only: a number beyond 64 bits becomes the nearest double.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(it) => (*it).into(),
            Self::Number(it) => serde_json::from_str(it).unwrap_or(serde_json::Value::Null),
            Self::Text(it) => serde_json::Value::String(it.to_string()),
            Self::List(it) => it.iter().map(Value::to_json).collect(),
            Self::Map(it) => serde_json::Value::Object(it.iter().map(|(key, it)| (key.to_string(), it.to_json())).collect()),
            Self::Raw(it) => serde_json::from_slice(it).unwrap_or(serde_json::Value::Null),
        }
    }
}

impl From<&serde_json::Value> for Value {
    fn from(it: &serde_json::Value) -> Self {
        match it {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(it) => Self::Bool(*it),
            serde_json::Value::Number(it) => Self::Number(it.to_string().into()),
            serde_json::Value::String(it) => Self::Text(it.as_str().into()),
            serde_json::Value::Array(it) => Self::List(it.iter().map(Self::from).collect()),
            serde_json::Value::Object(it) => Self::Map(it.iter().map(|(key, it)| (key.as_str().into(), it.into())).collect()),
        }
    }
}
