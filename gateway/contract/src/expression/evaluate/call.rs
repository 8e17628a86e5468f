//! What the functions do. Any null among a function's values gives null.

use std::borrow::Cow;

use super::{Each, EvalError, EvalErrorKind, Evaluation, Json, Node, Number, Result, Value, error, type_error};
use crate::expression::{functions::Function, render};

impl<'a> Evaluation<'a> {
    pub(super) fn call(&mut self, function: Function, arguments: &'a [Node]) -> Result<Value<'a>> {
        if let Function::Min | Function::Max = function {
            return self.extreme(function, arguments);
        }
        let mut values: [Value<'a>; 4] = Default::default();
        let mut null = false;
        // Invariant: the compiler has checked that there are at most four.
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = self.eval(argument)?;
            null |= value.is_null();
        }
        if null {
            return Ok(Value::Null);
        }
        let [first, second, third, fourth] = values;
        let refused = |name: &str, value: &Value<'_>| type_error(format!("{name}() does not take {}", value.kind()));
        match function {
            Function::Size => match &first {
                Value::Bytes(bytes) => Ok(Value::Int(bytes.len() as i64)),
                _ => match (first.len(), self.text(&first)?) {
                    (Some(length), _) => Ok(Value::Int(length as i64)),
                    (None, Some(text)) => Ok(Value::Int(text.chars().count() as i64)),
                    (None, None) => Err(refused("size", &first)),
                },
            },
            Function::Same => Ok(first),
            Function::TypeOf => Ok(Value::Type(type_of(&first))),
            Function::Contains | Function::StartsWith | Function::EndsWith => {
                let (Some(text), Some(part)) = (self.text(&first)?, self.text(&second)?) else {
                    return Err(type_error(format!("a search in text does not take {} and {}", first.kind(), second.kind())));
                };
                Ok(Value::Bool(match function {
                    Function::Contains => text.contains(part.as_ref()),
                    Function::StartsWith => text.starts_with(part.as_ref()),
                    _ => text.ends_with(part.as_ref()),
                }))
            }
            Function::Text => self.string(first),
            Function::Int => self.int(&first),
            Function::UInt => self.uint(&first),
            Function::Double => match self.number(&first)? {
                Some(number) => Ok(Value::Float(number.as_f64())),
                None => {
                    let text = self.text(&first)?.ok_or_else(|| refused("double", &first))?;
                    text.parse().map(Value::Float).map_err(|_| conversion("text", "double"))
                }
            },
            Function::Bool => match (&first, self.text(&first)?.as_deref()) {
                (Value::Bool(value), _) => Ok(Value::Bool(*value)),
                (_, Some("true" | "True" | "TRUE" | "t" | "1")) => Ok(Value::Bool(true)),
                (_, Some("false" | "False" | "FALSE" | "f" | "0")) => Ok(Value::Bool(false)),
                (_, Some(_)) => Err(conversion("text", "bool")),
                (_, None) => Err(refused("bool", &first)),
            },
            Function::Bytes => match first {
                Value::Bytes(bytes) => Ok(Value::Bytes(bytes)),
                other => {
                    let kind = other.kind();
                    let text = self.take_text(other)?.ok_or_else(|| type_error(format!("bytes() does not take {kind}")))?;
                    Ok(Value::Bytes(match text {
                        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                    }))
                }
            },
            Function::LowerAscii | Function::UpperAscii | Function::Trim | Function::Substring | Function::CharAt => {
                let kind = first.kind();
                let text = self.take_text(first)?.ok_or_else(|| type_error(format!("a function of text does not take {kind}")))?;
                self.shape(function, text, &second, &third)
            }
            Function::IndexOf | Function::LastIndexOf => {
                let (Some(text), Some(part)) = (self.text(&first)?, self.text(&second)?) else {
                    return Err(type_error(format!("a search in text does not take {} and {}", first.kind(), second.kind())));
                };
                let from = match &third {
                    Value::Null => 0,
                    third => self.byte_at(&text, third)?,
                };
                let found = if function == Function::IndexOf {
                    text[from..].find(part.as_ref()).map(|at| from + at)
                } else {
                    text.rfind(part.as_ref())
                };
                Ok(Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
            }
            Function::Replace => self.replace(&first, &second, &third, &fourth),
            Function::Split => self.split(&first, &second, &third),
            Function::Join => self.join(&first, &second),
            Function::Keys => match Each::of(&first) {
                Some(keys) if !first.is_list() => {
                    self.charge(first.len().unwrap_or(0))?;
                    self.weigh(&first)?;
                    Ok(Value::list(keys.collect()))
                }
                _ => Err(refused("keys", &first)),
            },
            Function::Matches | Function::Min | Function::Max => Ok(Value::Null),
        }
    }

    /// The text of a text, borrowed for as long as the exchange where that is possible.
    fn take_text(&mut self, value: Value<'a>) -> Result<Option<Cow<'a, str>>> {
        self.text(&value)?;
        Ok(match value {
            Value::Str(text) => Some(text),
            Value::Json(Json::Ref(json)) => json.as_str(),
            other => other.as_str().map(|text| Cow::Owned(text.into_owned())),
        })
    }

    fn string(&mut self, value: Value<'a>) -> Result<Value<'a>> {
        match &value {
            Value::Str(_) => return Ok(value),
            Value::Bytes(bytes) => {
                self.made(bytes.len())?;
                return String::from_utf8(bytes.to_vec()).map(Value::from).map_err(|_| conversion("bytes", "text"));
            }
            Value::Json(Json::Ref(json)) if json.as_number().is_some() => return Ok(json.raw_str().into()),
            Value::List(_) | Value::Map(_) => return Err(type_error(format!("string() does not take {}", value.kind()))),
            _ if value.len().is_some() => return Err(type_error(format!("string() does not take {}", value.kind()))),
            _ => {}
        }
        match value {
            Value::Json(_) => Ok(self.text(&value)?.map(Cow::into_owned).or_else(|| render::text(&value).map(Cow::into_owned)).into()),
            other => Ok(render::text(&other).map(Cow::into_owned).into()),
        }
    }

    fn int(&mut self, value: &Value<'_>) -> Result<Value<'a>> {
        if let Some(number) = self.number(value)? {
            let whole = match number {
                Number::Float(number) => Number::Float(number.trunc()),
                number => number,
            };
            return whole.as_i64().map(Value::Int).ok_or_else(|| error(EvalErrorKind::Overflow));
        }
        let text = self.text(value)?.ok_or_else(|| type_error(format!("int() does not take {}", value.kind())))?;
        text.parse().map(Value::Int).map_err(|_| conversion("text", "int"))
    }

    fn uint(&mut self, value: &Value<'_>) -> Result<Value<'a>> {
        if let Some(number) = self.number(value)? {
            let whole = match number {
                Number::Float(number) => Number::Float(number.trunc()),
                number => number,
            };
            return whole.as_u64().map(Value::UInt).ok_or_else(|| error(EvalErrorKind::Overflow));
        }
        let text = self.text(value)?.ok_or_else(|| type_error(format!("uint() does not take {}", value.kind())))?;
        text.parse().map(Value::UInt).map_err(|_| conversion("text", "uint"))
    }

    fn shape(&mut self, function: Function, text: Cow<'a, str>, second: &Value<'_>, third: &Value<'_>) -> Result<Value<'a>> {
        let (start, end) = match function {
            Function::LowerAscii | Function::UpperAscii => {
                let changes = text
                    .bytes()
                    .any(|byte| if function == Function::LowerAscii { byte.is_ascii_uppercase() } else { byte.is_ascii_lowercase() });
                if !changes {
                    return Ok(text.into());
                }
                self.made(text.len())?;
                let mut text = text.into_owned();
                if function == Function::LowerAscii {
                    text.make_ascii_lowercase()
                } else {
                    text.make_ascii_uppercase()
                }
                return Ok(text.into());
            }
            Function::Trim => {
                let start = text.len() - text.trim_start().len();
                (start, start + text.trim().len())
            }
            Function::CharAt => {
                let start = self.byte_at(&text, second)?;
                (start, start + text[start..].chars().next().map_or(0, char::len_utf8))
            }
            _ => {
                let start = self.byte_at(&text, second)?;
                let end = if third.is_null() { text.len() } else { self.byte_at(&text, third)? };
                if end < start {
                    return Err(EvalError::new(EvalErrorKind::Conversion, Some("substring() ends before it begins".to_owned())));
                }
                (start, end)
            }
        };
        Ok(Value::Str(match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[start..end]),
            Cow::Owned(text) => Cow::Owned(text[start..end].to_owned()),
        }))
    }

    /// The byte where the character of this number begins; the end counts as one.
    fn byte_at(&mut self, text: &str, number: &Value<'_>) -> Result<usize> {
        let out = || EvalError::new(EvalErrorKind::Conversion, Some("a position lies outside the text".to_owned()));
        let number = number.as_i64().ok_or_else(|| type_error(format!("a position cannot be {}", number.kind())))?;
        let number = usize::try_from(number).map_err(|_| out())?;
        text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(number).ok_or_else(out)
    }

    fn replace(&mut self, text: &Value<'_>, from: &Value<'_>, to: &Value<'_>, limit: &Value<'_>) -> Result<Value<'a>> {
        let (Some(text), Some(from), Some(to)) = (self.text(text)?, self.text(from)?, self.text(to)?) else {
            return Err(type_error("replace() takes text".to_owned()));
        };
        let limit = self.limit(limit)?;
        let found = if from.is_empty() { text.chars().count() + 1 } else { text.matches(from.as_ref()).count() };
        let length = text.len().saturating_add(found.min(limit).saturating_mul(to.len()));
        self.made(length)?;
        Ok(text.replacen(from.as_ref(), &to, limit).into())
    }

    fn split(&mut self, text: &Value<'_>, separator: &Value<'_>, limit: &Value<'_>) -> Result<Value<'a>> {
        let (Some(text), Some(separator)) = (self.text(text)?, self.text(separator)?) else {
            return Err(type_error("split() takes text".to_owned()));
        };
        let limit = self.limit(limit)?;
        let mut parts = Vec::new();
        let mut rest = text.as_ref();
        while parts.len() + 1 < limit {
            let at = match separator.is_empty() {
                true => rest.chars().next().map(char::len_utf8).filter(|length| *length < rest.len()),
                false => rest.find(separator.as_ref()),
            };
            let Some(at) = at else { break };
            self.charge(1 + at / 64)?;
            parts.push(rest[..at].to_owned().into());
            rest = &rest[at + separator.len()..];
        }
        if limit > 0 && !(separator.is_empty() && rest.is_empty()) {
            self.charge(1 + rest.len() / 64)?;
            parts.push(rest.to_owned().into());
        }
        Ok(Value::list(parts))
    }

    fn join(&mut self, list: &Value<'a>, separator: &Value<'_>) -> Result<Value<'a>> {
        let each = Each::of(list).filter(|_| list.is_list()).ok_or_else(|| type_error(format!("join() does not take {}", list.kind())))?;
        let separator = match separator {
            Value::Null => Cow::Borrowed(""),
            other => self.text(other)?.ok_or_else(|| type_error(format!("join() does not take {} between", other.kind())))?,
        };
        let mut joined = String::new();
        for (at, item) in each.enumerate() {
            if at > 0 {
                joined.push_str(&separator);
            }
            if item.len().is_some() {
                return Err(type_error(format!("join() does not take a list with {}", item.kind())));
            }
            let before = joined.len();
            if let Some(text) = render::text(&item) {
                if before + text.len() > super::MAX_TEXT {
                    return Err(error(EvalErrorKind::TooLong));
                }
                joined.push_str(&text);
            }
            self.charge(1 + (joined.len() - before + separator.len()) / 64)?;
        }
        self.made(joined.len())?;
        Ok(joined.into())
    }

    /// How often, from an optional argument; left out or negative means without limit.
    fn limit(&mut self, value: &Value<'_>) -> Result<usize> {
        match value {
            Value::Null => Ok(usize::MAX),
            value => {
                let limit = value.as_i64().ok_or_else(|| type_error(format!("a limit cannot be {}", value.kind())))?;
                Ok(usize::try_from(limit).unwrap_or(usize::MAX))
            }
        }
    }

    fn extreme(&mut self, function: Function, arguments: &'a [Node]) -> Result<Value<'a>> {
        let mut best: Option<Value<'a>> = None;
        let mut null = false;
        let each: Each<'a> = match arguments {
            [list] => {
                let list = self.eval(list)?;
                match Each::of(&list) {
                    Some(each) if list.is_list() => each,
                    _ => Each::Owned(vec![list].into_iter()),
                }
            }
            _ => {
                let values = arguments.iter().map(|argument| self.eval(argument)).collect::<Result<Vec<_>>>()?;
                Each::Owned(values.into_iter())
            }
        };
        let wanted = if function == Function::Min { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
        for value in each {
            self.charge(1)?;
            if value.is_null() {
                null = true;
                continue;
            }
            best = match best {
                Some(best) if self.order(&value, &best, if function == Function::Min { "min" } else { "max" })? != Some(wanted) => {
                    Some(best)
                }
                _ => Some(value),
            };
        }
        Ok(if null { Value::Null } else { best.into() })
    }
}

fn conversion(from: &str, to: &str) -> EvalError {
    EvalError::new(EvalErrorKind::Conversion, Some(format!("this {from} is no {to}")))
}

fn type_of(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "null_type",
        Value::Bool(_) => "bool",
        Value::Spelt(text) => match Number::parse(text) {
            Number::Int(_) => "int",
            Number::UInt(_) => "uint",
            _ => "double",
        },
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::Str(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Type(_) => "type",
        Value::Json(json) => match (value.as_number(), json.as_ref().kind()) {
            (Some(Number::Int(_)), _) => "int",
            (Some(Number::UInt(_)), _) => "uint",
            (Some(_), _) => "double",
            (None, crate::json::Kind::String) => "string",
            (None, crate::json::Kind::Array) => "list",
            (None, _) => "map",
        },
    }
}
