//! Equality and order of values.

use std::cmp::Ordering;

use super::{Each, Evaluation, Result, Value, type_error};

impl<'a> Evaluation<'a> {
    /// CEL's equality: numbers by worth, lists and maps by content, different kinds never. Null equals null alone.
    pub(super) fn equal(&mut self, left: &Value<'_>, right: &Value<'_>) -> Result<bool> {
        match (left, right) {
            (Value::Null, Value::Null) => return Ok(true),
            (Value::Null, _) | (_, Value::Null) => return Ok(false),
            (Value::Bool(left), Value::Bool(right)) => return Ok(left == right),
            (Value::Int(left), Value::Int(right)) => return Ok(left == right),
            (Value::Bytes(left), Value::Bytes(right)) => {
                self.charge(left.len().min(right.len()) / 64)?;
                return Ok(left == right);
            }
            (Value::Type(left), Value::Type(right)) => return Ok(left == right),
            _ => {}
        }
        if let Some(left) = self.text(left)? {
            return Ok(self.text(right)?.is_some_and(|right| left == right));
        }
        if let Some(left) = self.number(left)? {
            return Ok(self.number(right)?.is_some_and(|right| left.compare(right) == Some(Ordering::Equal)));
        }
        if left.len() != right.len() || left.is_list() != right.is_list() {
            return Ok(false);
        }
        let (Some(each), Some(others)) = (Each::of(left), Each::of(right)) else { return Ok(false) };
        if left.is_list() {
            for (left, right) in each.zip(others) {
                self.charge(1)?;
                if !self.equal(&left, &right)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        for key in each {
            self.charge(1 + left.len().unwrap_or(0) / 4)?;
            if !self.member_equal(left, right, &key)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether both maps have `key`, with equal values.
    fn member_equal(&mut self, left: &Value<'_>, right: &Value<'_>, key: &Value<'_>) -> Result<bool> {
        if let Some(text) = self.text(key)? {
            return Ok(right.has(&text) && self.equal(&left.get(&text), &right.get(&text))?);
        }
        // Only maps that an expression made have keys that are no text.
        let (Value::Map(left), Value::Map(right)) = (left, right) else { return Ok(false) };
        let mut values = [None, None];
        for (entries, found) in [left, right].into_iter().zip(&mut values) {
            for (name, value) in entries.iter() {
                if self.equal(name, key)? {
                    *found = Some(value.clone());
                }
            }
        }
        match values {
            [Some(left), Some(right)] => self.equal(&left, &right),
            _ => Ok(false),
        }
    }

    /// The order of two texts, numbers, booleans or octet strings; nothing if one is NaN.
    pub(super) fn order(&mut self, left: &Value<'_>, right: &Value<'_>, symbol: &str) -> Result<Option<Ordering>> {
        if let (Some(left), Some(right)) = (self.number(left)?, self.number(right)?) {
            return Ok(left.compare(right));
        }
        if let (Some(left), Some(right)) = (self.text(left)?, self.text(right)?) {
            return Ok(Some(left.as_ref().cmp(right.as_ref())));
        }
        match (left, right) {
            (Value::Bool(left), Value::Bool(right)) => Ok(Some(left.cmp(right))),
            (Value::Bytes(left), Value::Bytes(right)) => Ok(Some(left.cmp(right))),
            _ => Err(type_error(format!("'{symbol}' does not take {} and {}", left.kind(), right.kind()))),
        }
    }
}
