//! The strict reading of a path: what is refused, where its segments lie, what an escape stands for.
use std::fmt;

/// Why a path is refused with 400 and never passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// A `%` that two hexadecimal digits do not follow.
    Escape,
    /// A NUL, written as it is or as `%00`.
    Nul,
    /// `.` or `..` as a segment, in any mix of plain and encoded.
    DotSegment,
}

impl BadPath {
    /// For the client.
    pub fn message(self) -> &'static str {
        match self {
            Self::Escape => "the path holds a % that is not followed by two hexadecimal digits",
            Self::Nul => "the path holds a NUL",
            Self::DotSegment => "the path holds a dot segment",
        }
    }
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

/// Refuses what no backend may see; tells whether the path holds an escape.
///
/// A dot segment is also found where some backends would see one: between encoded slashes or backslashes, and before
/// a semicolon (`/..%2Fetc`, `/..\etc`, `/..;/etc`). None of these is an honest client's path.
pub fn check(path: &str) -> Result<bool, BadPath> {
    let bytes = path.as_bytes();
    if memchr::memchr3(b'%', b'.', 0, bytes).is_none() {
        return Ok(false);
    }
    if memchr::memchr(0, bytes).is_some() {
        return Err(BadPath::Nul);
    }
    if memchr::memchr(b'%', bytes).is_none() {
        return if has_dots(bytes) { Err(BadPath::DotSegment) } else { Ok(false) };
    }
    let mut plain = Vec::with_capacity(bytes.len());
    decode(bytes, &mut plain)?;
    if memchr::memchr(0, &plain).is_some() {
        return Err(BadPath::Nul);
    }
    // An encoded slash counts as one here, and only here.
    if has_dots(&plain) { Err(BadPath::DotSegment) } else { Ok(true) }
}

fn has_dots(plain: &[u8]) -> bool {
    plain.split(|it| matches!(it, b'/' | b'\\')).any(|it| {
        let name = it.split(|it| *it == b';').next().unwrap_or(it);
        name == b"." || name == b".."
    })
}

/// Appends what `text` stands for, escape by escape; `+` is a plus.
pub fn decode(text: &[u8], plain: &mut Vec<u8>) -> Result<(), BadPath> {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'%', rest) {
        plain.extend_from_slice(&rest[..at]);
        let (Some(high), Some(low)) = (rest.get(at + 1).and_then(digit), rest.get(at + 2).and_then(digit)) else {
            return Err(BadPath::Escape);
        };
        plain.push(high << 4 | low);
        rest = &rest[at + 3..];
    }
    plain.extend_from_slice(rest);
    Ok(())
}

fn digit(byte: &u8) -> Option<u8> {
    char::from(*byte).to_digit(16).map(|it| it as u8)
}

/// The spans of the segments behind the leading slash. `/` has one, an empty one; so has whatever ends in a slash.
pub fn segments(path: &str) -> impl Iterator<Item = (u32, u32)> + '_ {
    // Segments are short: a loop is over before a call would have begun.
    let slashes = path.bytes().enumerate().skip(1).filter(|(_, it)| *it == b'/').map(|(at, _)| at);
    let ends = slashes.chain([path.len()]);
    let mut from = 1;
    ends.map(move |end| {
        let start = std::mem::replace(&mut from, end as u32 + 1);
        (start, end as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_bad_escapes_and_nul_are_refused_in_every_spelling() {
        for (path, expected) in [
            ("/", Ok(false)),
            ("/a.b/c..d/...", Ok(false)),
            ("/.well-known/x", Ok(false)),
            ("/a%2Fb", Ok(true)),
            ("/caf%C3%A9", Ok(true)),
            ("/%FF", Ok(true)),
            ("/%252e%252e", Ok(true)),
            ("/..x;y", Ok(false)),
            ("/.", Err(BadPath::DotSegment)),
            ("/..", Err(BadPath::DotSegment)),
            ("/a/../b", Err(BadPath::DotSegment)),
            ("/a/./", Err(BadPath::DotSegment)),
            ("/%2e", Err(BadPath::DotSegment)),
            ("/a/%2E./b", Err(BadPath::DotSegment)),
            ("/a/.%2e", Err(BadPath::DotSegment)),
            ("/a/%2e%2E/b", Err(BadPath::DotSegment)),
            ("/a/..%2Fb", Err(BadPath::DotSegment)),
            ("/a%5C..%5cb", Err(BadPath::DotSegment)),
            ("/a\\..\\b", Err(BadPath::DotSegment)),
            ("/a/..;/b", Err(BadPath::DotSegment)),
            ("/a%00", Err(BadPath::Nul)),
            ("/a\0", Err(BadPath::Nul)),
            ("/%", Err(BadPath::Escape)),
            ("/%2", Err(BadPath::Escape)),
            ("/%2/a", Err(BadPath::Escape)),
            ("/%zz", Err(BadPath::Escape)),
            ("/%+1", Err(BadPath::Escape)),
        ] {
            assert_eq!(check(path), expected, "{path}");
        }
    }

    #[test]
    fn a_trailing_slash_is_an_empty_last_segment() {
        let cut = |path: &str| segments(path).map(|(a, b)| path[a as usize..b as usize].to_owned()).collect::<Vec<_>>();
        assert_eq!(cut("/"), [""]);
        assert_eq!(cut("/a/b"), ["a", "b"]);
        assert_eq!(cut("/a/"), ["a", ""]);
        assert_eq!(cut("//"), ["", ""]);
    }
}
