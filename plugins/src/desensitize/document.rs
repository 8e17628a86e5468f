//! Masks one document: all rules in one walk, and every byte that no rule names as it was.
use bytes::Bytes;
use contract::json::{JsonError, JsonOptions, JsonRef, JsonView, Kind, pattern::Patterns, push_string};
use ring::{digest, hmac};

use super::mask::Mask;

/// What a ring's rules are, ready to be shared with the background pool.
pub struct Rules {
    pub patterns: Patterns,
    pub masks: Box<[Mask]>,
}

/// What holds for one answer.
#[derive(Clone)]
pub struct Case {
    /// Of each rule, whether it is to be applied.
    pub active: Box<[bool]>,
    /// With what values are hashed; empty for none.
    pub salt: Box<[u8]>,
    /// How deep a document may be nested.
    pub depth: usize,
}

/// A value that becomes another, or goes.
enum Change<'a> {
    Replace(JsonRef<'a>, (usize, usize)),
    Remove(JsonRef<'a>),
}

/// The masked document, and how many values were masked; the very same bytes where none was.
pub fn mask(rules: &Rules, case: &Case, bytes: Bytes) -> Result<(Bytes, u64), JsonError> {
    let options = JsonOptions { max_depth: case.depth, ..JsonOptions::default() };
    let view = JsonView::parse_with(bytes, &options)?;
    let mut work = Work { rules, case, changes: Vec::new(), texts: Vec::new(), text: String::new() };
    rules.patterns.walk(view.root(), |rule| case.active[rule], &mut |rule, value| work.named(rule, value));
    let Work { changes, texts, .. } = work;
    let count = changes.len() as u64;
    // Of repeated keys, only the last has been looked at; the others may hold what must not go out.
    if view.has_repeats() || changes.iter().any(|it| matches!(it, Change::Remove(_))) {
        let mut edits = view.edits();
        edits.drop_repeats();
        for it in &changes {
            let done = match it {
                Change::Replace(value, (from, to)) => edits.replace(*value, Bytes::copy_from_slice(&texts[*from..*to])),
                Change::Remove(value) => edits.remove_value(*value),
            };
            debug_assert!(done.is_ok());
        }
        return Ok((edits.to_bytes(), count));
    }
    if changes.is_empty() {
        return Ok((view.to_bytes(), 0));
    }
    // Values come in the order of the text, none within another.
    let bytes = view.bytes();
    let mut out = Vec::with_capacity(bytes.len() + texts.len());
    let mut at = 0;
    for it in &changes {
        if let Change::Replace(value, (from, to)) = it {
            out.extend_from_slice(&bytes[at..value.offset()]);
            out.extend_from_slice(&texts[*from..*to]);
            at = value.offset() + value.raw().len();
        }
    }
    out.extend_from_slice(&bytes[at..]);
    Ok((out.into(), count))
}

struct Work<'r, 'a> {
    rules: &'r Rules,
    case: &'r Case,
    changes: Vec<Change<'a>>,
    /// The new values, one after the other.
    texts: Vec<u8>,
    text: String,
}

impl<'a> Work<'_, 'a> {
    fn named(&mut self, rule: usize, value: JsonRef<'a>) {
        match &self.rules.masks[rule] {
            Mask::Remove => self.changes.push(Change::Remove(value)),
            Mask::Fixed(text) => {
                let from = self.texts.len();
                push_string(text, &mut self.texts);
                self.changes.push(Change::Replace(value, (from, self.texts.len())));
            }
            mask => self.scalars(mask, value),
        }
    }

    /// Every single value at the place and within it; a list of numbers is masked number by number. Null says nothing and stays.
    fn scalars(&mut self, mask: &Mask, value: JsonRef<'a>) {
        match value.kind() {
            Kind::Null => (),
            Kind::Array => value.items().for_each(|it| self.scalars(mask, it)),
            Kind::Object => value.members().for_each(|(_, it)| self.scalars(mask, it)),
            kind => {
                let decoded = value.as_str();
                let text = match kind {
                    Kind::String => decoded.as_deref().unwrap_or_default(),
                    _ => value.raw_str(),
                };
                self.text.clear();
                match mask {
                    Mask::Hash => hash(&self.case.salt, text, &mut self.text),
                    mask => mask.text(text, &mut self.text),
                }
                let from = self.texts.len();
                push_string(&self.text, &mut self.texts);
                self.changes.push(Change::Replace(value, (from, self.texts.len())));
            }
        }
    }
}

/// HMAC-SHA-256 (RFC 2104) of the text, in hexadecimal digits; without a salt, SHA-256 alone.
fn hash(salt: &[u8], text: &str, out: &mut String) {
    let push = |bytes: &[u8], out: &mut String| {
        for digit in bytes.iter().flat_map(|it| [it >> 4, it & 15]) {
            out.extend(char::from_digit(digit.into(), 16));
        }
    };
    match salt {
        [] => push(digest::digest(&digest::SHA256, text.as_bytes()).as_ref(), out),
        salt => push(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), text.as_bytes()).as_ref(), out),
    }
}

#[cfg(test)]
mod tests {
    use contract::json::pattern::Pattern;

    use super::*;

    fn masked(rules: &[(&str, Mask)], salt: &str, document: &str) -> String {
        let patterns: Vec<_> = rules.iter().map(|(at, _)| Pattern::parse(at).unwrap()).collect();
        let rules = Rules { patterns: Patterns::new(&patterns).unwrap(), masks: rules.iter().map(|(_, it)| it.clone()).collect() };
        let case = Case { active: rules.masks.iter().map(|_| true).collect(), salt: salt.as_bytes().into(), depth: 64 };
        let (bytes, _) = mask(&rules, &case, Bytes::copy_from_slice(document.as_bytes())).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn what_no_rule_names_keeps_its_bytes() {
        let document = "{ \"n\" : 1234567890123456789012345678901234567890.50e+1, \"s\":\"\\u738b\\/\\ud800\", \"phone\" :\t\"13812345678\" ,\"e\":[ ] }\n";
        assert_eq!(masked(&[("phone", Mask::Phone)], "", document), document.replace("13812345678", "138****5678"));
        assert_eq!(masked(&[("nothing", Mask::Phone)], "", document), document);
    }

    #[test]
    fn values_of_every_kind_are_masked() {
        let rules = [("phones", Mask::Phone), ("**.id", Mask::Keep(1, 0)), ("x", Mask::Remove), ("f", Mask::Fixed("-".into()))];
        assert_eq!(
            masked(
                &rules,
                "",
                r#"{"phones":[13812345678,"\u0031380000\u0031111",null,{"a":true}],"p":{"id":"王伟"},"x":1,"f":{"a":[1]},"z":2}"#
            ),
            r#"{"phones":["138****5678","138****1111",null,{"a":"****"}],"p":{"id":"王*"},"f":"-","z":2}"#
        );
    }

    #[test]
    fn a_key_that_stands_twice_hides_nothing() {
        let rules = [("phone", Mask::Phone)];
        assert_eq!(masked(&rules, "", r#"{"phone":"13812345678","phone":"13900000000"}"#), r#"{"phone":"139****0000"}"#);
        let hidden = masked(&[("a.phone", Mask::Phone)], "", r#"{"a":{"phone":"13812345678"},"a":1}"#);
        assert!(!hidden.contains("13812345678"), "{hidden}");
    }

    #[test]
    fn a_hash_is_the_one_that_everybody_computes() {
        // RFC 4231, test case 2, and the digest of "abc" (FIPS 180-4).
        let rules = [("v", Mask::Hash)];
        assert_eq!(
            masked(&rules, "Jefe", r#"{"v":"what do ya want for nothing?"}"#),
            r#"{"v":"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"}"#
        );
        assert_eq!(masked(&rules, "", r#"{"v":"abc"}"#), r#"{"v":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}"#);
    }
}
