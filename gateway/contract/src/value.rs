//! A value that outlives the request's bytes: parameters, variables, who is calling.
use crate::{expression, json::JsonValue};

/// Like a JSON value; a number keeps its text, so that no digit is lost.
#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    /// JSON's spelling of a number.
    Number(Box<str>),
    Text(Box<str>),
    List(Vec<Value>),
    Map(Vec<(Box<str>, Value)>),
    /// A part of a JSON document, kept byte for byte.
    Json(JsonValue),
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
            Self::Json(it) => serde_json::from_slice(&it.as_ref().raw_bytes()).unwrap_or(serde_json::Value::Null),
        }
    }
}

impl Value {
    /// As expressions see it; text is borrowed.
    pub fn view(&self) -> expression::Value<'_> {
        match self {
            Self::Null => expression::Value::Null,
            Self::Bool(it) => (*it).into(),
            Self::Number(it) => match it.parse::<i64>() {
                Ok(it) => it.into(),
                // A longer one keeps its digits.
                Err(_) => expression::Value::Spelt(it.as_ref().into()),
            },
            Self::Text(it) => it.as_ref().into(),
            Self::List(it) => expression::Value::list(it.iter().map(Value::view).collect()),
            Self::Map(it) => expression::Value::map(it.iter().map(|(key, it)| (key.as_ref(), it.view()))),
            Self::Json(it) => it.clone().into(),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) | (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            (Self::Json(a), Self::Json(b)) => a.as_ref().raw_bytes() == b.as_ref().raw_bytes(),
            _ => false,
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
