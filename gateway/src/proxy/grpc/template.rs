//! Path templates of `google.api.http` (google/api/http.proto): parsed at load, matched on a request.
use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// One piece between slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    // In this order, so that what says more comes first.
    Literal(Box<str>),
    /// `*`: one segment.
    One,
    /// `**`: all that is left, nothing too; stands last.
    Rest,
}

/// `{name=shelves/*}`: the pieces that a field takes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    field: Box<str>,
    from: usize,
    to: usize,
}

/// A template such as `/v1/{name=shelves/*/books/*}:publish`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Box<[Piece]>,
    variables: Box<[Variable]>,
    verb: Option<Box<str>>,
}

impl Template {
    /// Errors: what is wrong with the text, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else { return Err("a path begins with a slash".to_owned()) };
        // A colon inside of braces is none of a verb.
        let end = rest.rfind('}').map_or(0, |at| at + 1).max(rest.rfind('/').map_or(0, |at| at + 1));
        let (path, verb) = match rest[end..].rfind(':') {
            Some(at) if end + at + 1 < rest.len() => (&rest[..end + at], Some(rest[end + at + 1..].into())),
            Some(_) => return Err("the verb is empty".to_owned()),
            None => (rest, None),
        };
        let (mut pieces, mut variables) = (Vec::new(), Vec::new());
        let mut left = path;
        while !left.is_empty() {
            let after;
            if let Some(inner) = left.strip_prefix('{') {
                let Some((inside, behind)) = inner.split_once('}') else { return Err("a brace is not closed".to_owned()) };
                let (field, segments) = inside.split_once('=').unwrap_or((inside, "*"));
                let from = pieces.len();
                for it in segments.split('/') {
                    pieces.push(piece(it)?);
                }
                if field.is_empty() || !field.bytes().all(|it| it.is_ascii_alphanumeric() || b"_.".contains(&it)) {
                    return Err(format!("`{field}` is no field"));
                }
                variables.push(Variable { field: field.into(), from, to: pieces.len() });
                after = behind;
            } else {
                let (one, behind) = left.split_at(left.find('/').unwrap_or(left.len()));
                pieces.push(piece(one)?);
                after = behind;
            }
            left = match after.strip_prefix('/') {
                Some("") => return Err("the path ends with a slash".to_owned()),
                Some(it) => it,
                None if after.is_empty() => after,
                None => return Err("a slash must follow a brace".to_owned()),
            };
        }
        if pieces.iter().rev().skip(1).any(|it| *it == Piece::Rest) {
            return Err("`**` stands last".to_owned());
        }
        Ok(Self { pieces: pieces.into(), variables: variables.into(), verb })
    }

    /// The fields that it takes from a path.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|it| &*it.field)
    }

    /// What says more comes first: longer verbs and literals before stars.
    pub fn precedence(&self, other: &Self) -> std::cmp::Ordering {
        other.verb.is_some().cmp(&self.verb.is_some()).then_with(|| self.pieces.cmp(&other.pieces))
    }

    /// The values of its fields in a path that is still encoded; `None` where it does not match.
    pub fn values<'p>(&self, path: &'p str) -> Option<Vec<Cow<'p, str>>> {
        let path = path.strip_prefix('/')?;
        let path = match &self.verb {
            Some(verb) => path.strip_suffix(&**verb)?.strip_suffix(':')?,
            None => path,
        };
        let segments: Vec<&str> = if path.is_empty() { Vec::new() } else { path.split('/').collect() };
        let open = self.pieces.last() == Some(&Piece::Rest);
        let fixed = self.pieces.len() - usize::from(open);
        if segments.len() < fixed || (!open && segments.len() > fixed) {
            return None;
        }
        for (piece, segment) in self.pieces.iter().zip(&segments) {
            match piece {
                Piece::Literal(it) if percent_decode_str(segment).decode_utf8().ok()? != **it => return None,
                Piece::One if segment.is_empty() => return None,
                _ => (),
            }
        }
        let value = |it: &Variable| {
            let rest = self.pieces.get(it.to - 1) == Some(&Piece::Rest);
            let end = if rest { segments.len() } else { it.to };
            let several = it.to - it.from > 1 || rest;
            let start = segments.get(it.from).map_or(path.len(), |first| first.as_ptr() as usize - path.as_ptr() as usize);
            let stop = match end.checked_sub(1).and_then(|last| segments.get(last)) {
                Some(last) if end > it.from => last.as_ptr() as usize - path.as_ptr() as usize + last.len(),
                _ => start,
            };
            let text = path.get(start..stop)?;
            match several {
                // A slash inside of a segment stays one that was written otherwise.
                true => kept_slashes(text),
                false => percent_decode_str(text).decode_utf8().ok(),
            }
        };
        self.variables.iter().map(value).collect()
    }
}

fn piece(text: &str) -> Result<Piece, String> {
    match text {
        "" => Err("a segment is empty".to_owned()),
        "*" => Ok(Piece::One),
        "**" => Ok(Piece::Rest),
        it if it.contains(['{', '}', '*']) => Err(format!("`{it}` is no segment")),
        it => Ok(Piece::Literal(it.into())),
    }
}

/// Decoded, but for `%2F`.
fn kept_slashes(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(text.into());
    }
    let mut out = String::with_capacity(text.len());
    let mut left = text;
    while let Some(at) = left.find("%2F").or_else(|| left.find("%2f")).map(|_| {
        let (upper, lower) = (left.find("%2F").unwrap_or(usize::MAX), left.find("%2f").unwrap_or(usize::MAX));
        upper.min(lower)
    }) {
        out.push_str(&percent_decode_str(&left[..at]).decode_utf8().ok()?);
        out.push_str(&left[at..at + 3]);
        left = &left[at + 3..];
    }
    out.push_str(&percent_decode_str(left).decode_utf8().ok()?);
    Some(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(template: &str, path: &str) -> Option<Vec<String>> {
        let it = Template::parse(template).unwrap_or_else(|why| panic!("{template}: {why}"));
        Some(it.values(path)?.into_iter().map(Cow::into_owned).collect())
    }

    #[test]
    fn templates_match_as_the_text_says() {
        for (template, path, want) in [
            ("/v1/shelves", "/v1/shelves", Some(vec![])),
            ("/v1/shelves", "/v1/shelves/", None),
            ("/v1/{id}", "/v1/7", Some(vec!["7"])),
            ("/v1/{id}", "/v1/", None),
            ("/v1/{id}", "/v1/a%2Fb%20c", Some(vec!["a/b c"])),
            ("/v1/{name=shelves/*}", "/v1/shelves/7", Some(vec!["shelves/7"])),
            ("/v1/{name=shelves/*}", "/v1/shelfs/7", None),
            ("/v1/{name=shelves/*/books/*}", "/v1/shelves/a%2Fb/books/%41", Some(vec!["shelves/a%2Fb/books/A"])),
            ("/v1/{name=**}", "/v1/a/b%2fc/d", Some(vec!["a/b%2fc/d"])),
            ("/v1/{name=**}", "/v1", Some(vec![""])),
            ("/v1/{name=**}:cancel", "/v1/a/b:cancel", Some(vec!["a/b"])),
            ("/v1/{name=**}:cancel", "/v1/a/b", None),
            ("/v1/{a.b}/c/{d}", "/v1/1/c/2", Some(vec!["1", "2"])),
            ("/v1/*/x", "/v1/anything/x", Some(vec![])),
            ("/v1/{id}:run", "/v1/7:run", Some(vec!["7"])),
            ("/", "/", Some(vec![])),
        ] {
            assert_eq!(values(template, path), want.map(|it| it.into_iter().map(str::to_owned).collect()), "{template} {path}");
        }
    }

    #[test]
    fn templates_that_are_none_are_told() {
        for (template, why) in [
            ("v1", "slash"),
            ("/v1/", "ends with a slash"),
            ("/v1//a", "empty"),
            ("/v1/{a", "closed"),
            ("/v1/{a}b", "slash must follow"),
            ("/v1/{}", "no field"),
            ("/v1/{a=**}/b", "stands last"),
            ("/v1/a*", "no segment"),
            ("/v1/a:", "verb is empty"),
        ] {
            let told = Template::parse(template).expect_err(template);
            assert!(told.contains(why), "{template}: {told}");
        }
    }

    #[test]
    fn what_says_more_comes_first() {
        let mut all: Vec<Template> =
            ["/v1/{name=**}", "/v1/{id}", "/v1/me", "/v1/{id}:run"].iter().map(|it| Template::parse(it).expect(it)).collect();
        all.sort_by(Template::precedence);
        let found = |path: &str| all.iter().position(|it| it.values(path).is_some());
        assert_eq!((found("/v1/7:run"), found("/v1/me"), found("/v1/7"), found("/v1/a/b")), (Some(0), Some(1), Some(2), Some(3)));
    }
}
