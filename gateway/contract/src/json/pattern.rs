//! Paths with wildcards into a document: which values they name, all of them found in one walk.
//!
//! `a.b` are members, `a[0]` is an item, `[*]` every item or member, `*` every member or item, `**` any number of steps, none included;
//! `['a.b']` is a member whose name holds what parts steps.

use super::{JsonRef, Kind};

/// One path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    steps: Box<[Want]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Want {
    Key(Box<str>),
    Index(usize),
    Any,
    Deep,
}

/// Where a path as written is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// The byte where it was noticed.
    pub offset: usize,
    /// What is wrong.
    pub message: &'static str,
}

/// One step of a place in a schema or a document, to ask whether a pattern names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// A member.
    Key(String),
    /// Some item of a list.
    Item,
}

impl Pattern {
    /// Reads a path. A leading `$` stands for the document.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let fault = |offset: usize, message: &'static str| Err(PatternError { offset, message });
        let mut steps = Vec::new();
        let mut at = usize::from(text == "$" || text.starts_with("$.") || text.starts_with("$["));
        let bytes = text.as_bytes();
        if at == text.len() {
            return fault(0, "the path names no value");
        }
        while at < bytes.len() {
            if bytes[at] == b'[' {
                let quote = bytes.get(at + 1).copied().filter(|it| matches!(it, b'\'' | b'"'));
                let end = match quote {
                    Some(quote) => memchr::memmem::find(&bytes[at + 2..], &[quote, b']']).map(|it| at + 2 + it + 1),
                    None => memchr::memchr(b']', &bytes[at..]).map(|it| at + it),
                };
                let Some(end) = end else { return fault(at, "the bracket does not end") };
                let inner = &text[at + 1..end];
                steps.push(match (quote, inner) {
                    (Some(_), it) => Want::Key(it[1..it.len() - 1].into()),
                    (None, "*") => Want::Any,
                    (None, it) => match it.parse() {
                        Ok(index) => Want::Index(index),
                        Err(_) => return fault(at + 1, "a number, * or a name in quotes stands in brackets"),
                    },
                });
                at = end + 1;
            } else {
                if bytes[at] == b'.' {
                    if at == 0 {
                        return fault(0, "a path begins with a name");
                    }
                    at += 1;
                }
                let end = bytes[at..].iter().position(|it| matches!(it, b'.' | b'[')).map_or(bytes.len(), |it| at + it);
                match &text[at..end] {
                    "" => return fault(at.min(text.len().saturating_sub(1)), "a name is missing"),
                    "*" => steps.push(Want::Any),
                    "**" => steps.push(Want::Deep),
                    it if it.contains('*') => return fault(at, "a name has no * within it: * and ** stand alone"),
                    it => steps.push(Want::Key(it.into())),
                }
                at = end;
            }
        }
        match steps.last() {
            Some(Want::Deep) => fault(text.len() - 1, "a path ends with what is named, not with **"),
            _ => Ok(Self { steps: steps.into() }),
        }
    }

    /// Whether the pattern names this place, or something that it lies in.
    pub fn covers(&self, place: &[At]) -> bool {
        fn fits(steps: &[Want], place: &[At]) -> bool {
            match (steps, place) {
                ([], _) => true,
                ([Want::Deep, rest @ ..], place) => fits(rest, place) || (!place.is_empty() && fits(steps, &place[1..])),
                ([_, ..], []) => false,
                ([Want::Key(name), rest @ ..], [At::Key(key), more @ ..]) => **name == **key && fits(rest, more),
                ([Want::Any, rest @ ..], [_, more @ ..]) => fits(rest, more),
                _ => false,
            }
        }
        fits(&self.steps, place)
    }
}

/// How many steps all patterns of one walk may have together.
pub const MOST_STEPS: usize = 256;

/// Several patterns, asked together.
#[derive(Debug, Default)]
pub struct Patterns {
    /// The steps of all, each pattern's followed by its end.
    states: Vec<State>,
    starts: Vec<usize>,
}

#[derive(Debug)]
enum State {
    Want(Want),
    /// The end of the pattern of this number.
    End(usize),
}

type Set = [u64; MOST_STEPS / 64];

impl Patterns {
    /// All of them; their numbers are their places in the list. `None` beyond [`MOST_STEPS`].
    pub fn new<'p>(all: impl IntoIterator<Item = &'p Pattern>) -> Option<Self> {
        let mut it = Self::default();
        for (number, pattern) in all.into_iter().enumerate() {
            it.starts.push(it.states.len());
            it.states.extend(pattern.steps.iter().cloned().map(State::Want));
            it.states.push(State::End(number));
        }
        (it.states.len() <= MOST_STEPS).then_some(it)
    }

    /// Calls `found` with each value that one of the `active` patterns names, and the first such pattern's number; not with what lies within it.
    ///
    /// Members of repeated keys but the last are not seen.
    pub fn walk<'a>(&self, root: JsonRef<'a>, active: impl Fn(usize) -> bool, found: &mut dyn FnMut(usize, JsonRef<'a>)) {
        let mut set: Set = [0; MOST_STEPS / 64];
        for (_, start) in self.starts.iter().enumerate().filter(|(number, _)| active(*number)) {
            self.enter(*start, &mut set);
        }
        self.within(root, &set, found);
    }

    /// A state, and those behind it that need no step.
    fn enter(&self, state: usize, set: &mut Set) {
        set[state / 64] |= 1 << (state % 64);
        if let State::Want(Want::Deep) = self.states[state] {
            self.enter(state + 1, set);
        }
    }

    fn within<'a>(&self, value: JsonRef<'a>, set: &Set, found: &mut dyn FnMut(usize, JsonRef<'a>)) {
        let used = self.states.len().div_ceil(64);
        match value.kind() {
            Kind::Object => {
                for (key, child) in value.members() {
                    let name = key.as_str().unwrap_or_default();
                    self.child(child, set, used, |want| matches!(want, Want::Key(it) if **it == *name), found);
                }
            }
            Kind::Array => {
                for (at, child) in value.items().enumerate() {
                    self.child(child, set, used, |want| matches!(want, Want::Index(it) if *it == at), found);
                }
            }
            _ => (),
        }
    }

    fn child<'a>(
        &self,
        child: JsonRef<'a>,
        set: &Set,
        used: usize,
        fits: impl Fn(&Want) -> bool,
        found: &mut dyn FnMut(usize, JsonRef<'a>),
    ) {
        let mut next: Set = [0; MOST_STEPS / 64];
        let mut any = false;
        let mut first: Option<usize> = None;
        for (word, bits) in set[..used].iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let state = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let State::Want(want) = &self.states[state] else { continue };
                let to = match want {
                    Want::Deep => state,
                    Want::Any => state + 1,
                    want if fits(want) => state + 1,
                    _ => continue,
                };
                any = true;
                if let State::End(number) = self.states[to] {
                    first = Some(first.map_or(number, |it| it.min(number)));
                }
                self.enter(to, &mut next);
            }
        }
        match first {
            Some(number) => found(number, child),
            // The parser bounds how deep this goes.
            None if any && matches!(child.kind(), Kind::Array | Kind::Object) => self.within(child, &next, found),
            None => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonView;

    fn found(patterns: &[&str], document: &str) -> Vec<(usize, String)> {
        let all: Vec<Pattern> = patterns.iter().map(|it| Pattern::parse(it).unwrap_or_else(|why| panic!("{it}: {why:?}"))).collect();
        let view = JsonView::parse(document.to_owned()).unwrap();
        let mut list = Vec::new();
        Patterns::new(&all).unwrap().walk(view.root(), |_| true, &mut |number, it| list.push((number, it.raw_str().to_owned())));
        list
    }

    #[test]
    fn a_pattern_names_what_it_says() {
        let document =
            r#"{"phone":1,"items":[{"phone":2,"a.b":3},{"phone":4,"deep":{"phone":5}}],"map":{"x":{"phone":6},"y":{"phone":7}}}"#;
        for (pattern, expected) in [
            ("phone", vec!["1"]),
            ("$.phone", vec!["1"]),
            ("items[*].phone", vec!["2", "4"]),
            ("items[1].phone", vec!["4"]),
            ("items.*.phone", vec!["2", "4"]),
            ("map.*.phone", vec!["6", "7"]),
            ("map[*].phone", vec!["6", "7"]),
            ("**.phone", vec!["1", "2", "4", "5", "6", "7"]),
            ("items.**.phone", vec!["2", "4", "5"]),
            ("items[*]['a.b']", vec!["3"]),
            ("items.phone", vec![]),
            ("nothing.at.all", vec![]),
        ] {
            let values: Vec<String> = found(&[pattern], document).into_iter().map(|(_, it)| it).collect();
            assert_eq!(values, expected, "{pattern}");
        }
    }

    #[test]
    fn the_first_of_several_patterns_holds_and_what_is_named_is_not_gone_into() {
        let document = r#"{"a":{"b":1,"c":2},"ph\u006fne":3}"#;
        let own = |it: &[(usize, &str)]| it.iter().map(|(number, it)| (*number, it.to_string())).collect::<Vec<_>>();
        assert_eq!(found(&["**.b", "a.b", "a.*"], document), own(&[(0, "1"), (2, "2")]));
        assert_eq!(found(&["a", "a.b"], document), own(&[(0, r#"{"b":1,"c":2}"#)]));
        assert_eq!(found(&["phone"], document), own(&[(0, "3")]));
        assert_eq!(found(&["[*].x"], r#"[{"x":1},[],{"x":2}]"#), own(&[(0, "1"), (0, "2")]));
    }

    #[test]
    fn a_path_that_cannot_be_is_told_where() {
        for (text, offset) in [("", 0), ("$", 0), ("a..b", 2), ("a.", 1), (".a", 0), ("a[x]", 2), ("a[0", 1), ("a*", 0), ("a.**", 3)] {
            assert_eq!(Pattern::parse(text).err().map(|it| it.offset), Some(offset), "{text}");
        }
    }

    #[test]
    fn a_place_is_covered_by_a_pattern_of_it_or_of_what_it_lies_in() {
        let place = [At::Key("items".into()), At::Item, At::Key("phone".into())];
        for (text, covers) in
            [("items[*].phone", true), ("**.phone", true), ("items", true), ("*[*].*", true), ("items[0].phone", false), ("phone", false)]
        {
            assert_eq!(Pattern::parse(text).unwrap().covers(&place), covers, "{text}");
        }
    }
}
