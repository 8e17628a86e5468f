//! What a client sent that is no text: written octet by octet where a place takes octets, refused where it does not, never U+FFFD in silence.
use std::borrow::Cow;

use crate::{
    expression::{Expression, Root, Scope, Value},
    json::Kind,
};

/// What a value that reads as text was before.
pub(super) enum Octets<'s> {
    /// The same: nothing was lost.
    Text,
    /// These octets.
    Raw(Cow<'s, [u8]>),
    /// Something that cannot be said here.
    Lost,
}

/// The roots whose values may be octets that are no UTF-8.
const ROOTS: [Root; 5] = [Root::Query, Root::Headers, Root::Cookies, Root::ResponseHeaders, Root::Body];

/// Whether a text may stand for something else: only then is it worth a look.
pub(super) fn doubtful(text: &str) -> bool {
    memchr::memchr(0xef, text.as_bytes()).is_some() && text.contains(char::REPLACEMENT_CHARACTER)
}

/// What a doubtful value of this expression was.
#[cold]
pub(super) fn of<'s>(value: &Value<'_>, expression: &Expression, scope: &'s dyn Scope) -> Octets<'s> {
    if let Value::Json(json) = value
        && json.as_ref().kind() == Kind::String
    {
        return if lone_surrogate(json.as_ref().raw()) { Octets::Lost } else { Octets::Text };
    }
    if let Some((root @ (Root::Query | Root::Headers | Root::Cookies | Root::ResponseHeaders), name)) = expression.root_field() {
        return scope.octets(root, name).map_or(Octets::Text, Octets::Raw);
    }
    match ROOTS.into_iter().any(|root| expression.reads().reads(root) && scope.is_lossy(root)) {
        true => Octets::Lost,
        false => Octets::Text,
    }
}

/// True if a JSON text escapes half of a surrogate pair.
pub(crate) fn lone_surrogate(json: &[u8]) -> bool {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6).filter(|it| it.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &json[at..]) {
        at += found;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => return true,
            (Some(_), _) => 6,
            (None, _) => 2,
        }
        .min(json.len() - at);
    }
    false
}

#[cfg(test)]
mod tests {
    #[test]
    fn half_a_pair_is_told_from_a_whole_one_and_from_an_escaped_backslash() {
        for (json, lone) in [
            (r#""\ud83d\ude00""#, false),
            (r#""\ud83d""#, true),
            (r#""\ude00\ud83d""#, true),
            (r#""\\ud83d""#, false),
            (r#""\\\ud83dx""#, true),
            (r#""\ufffd\n""#, false),
            (r#""\"#, false),
        ] {
            assert_eq!(super::lone_surrogate(json.as_bytes()), lone, "{json}");
        }
    }
}
