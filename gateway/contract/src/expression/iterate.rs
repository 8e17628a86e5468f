//! Going through lists and the keys of maps without collecting them first.

use std::sync::Arc;

use super::{Json, Value};
use crate::json::{Items, Kind, Members};

pub(super) enum Each<'a> {
    List(Arc<Vec<Value<'a>>>, usize),
    Keys(Arc<Vec<(Value<'a>, Value<'a>)>>, usize),
    Items(Items<'a>),
    Members(Members<'a>),
    Owned(std::vec::IntoIter<Value<'a>>),
}

impl<'a> Each<'a> {
    /// The items of a list or the keys of a map; nothing for other kinds.
    pub(super) fn of(value: &Value<'a>) -> Option<Self> {
        match value {
            Value::List(items) => Some(Self::List(items.clone(), 0)),
            Value::Map(entries) => Some(Self::Keys(entries.clone(), 0)),
            Value::Json(json) => match (json.as_ref().kind(), json) {
                (Kind::Array, Json::Ref(json)) => Some(Self::Items(json.items())),
                (Kind::Array, Json::Owned(_)) => Some(Self::Owned(json.items().into_iter())),
                (Kind::Object, Json::Ref(json)) => Some(Self::Members(json.members())),
                (Kind::Object, Json::Owned(json)) => {
                    let keys = json.as_ref().members().map(|(key, _)| key.to_owned().into());
                    Some(Self::Owned(keys.collect::<Vec<_>>().into_iter()))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl<'a> Iterator for Each<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        match self {
            Self::List(items, at) => {
                *at += 1;
                items.get(*at - 1).cloned()
            }
            Self::Keys(entries, at) => {
                *at += 1;
                entries.get(*at - 1).map(|(key, _)| key.clone())
            }
            Self::Items(items) => items.next().map(Value::from),
            Self::Members(members) => members.next().map(|(key, _)| key.into()),
            Self::Owned(items) => items.next(),
        }
    }
}
