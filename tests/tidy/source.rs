//! Rust source, read just far enough to know which modules it names.

/// The same text with comments and the insides of strings blanked, byte for byte.
pub fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = at
            + match rest[0] {
                b'/' if rest.starts_with(b"//") => rest.iter().position(|it| *it == b'\n').unwrap_or(rest.len()),
                b'/' if rest.starts_with(b"/*") => block_comment(rest),
                b'"' => string(rest),
                b'r' if !in_word(bytes, at) || bytes[at - 1] == b'b' => raw_string(rest).unwrap_or(0),
                b'\'' => character(rest),
                _ => 0,
            };
        for it in &mut out[at..end] {
            if *it != b'\n' {
                *it = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn block_comment(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

fn raw_string(text: &[u8]) -> Option<usize> {
    let hashes = text[1..].iter().take_while(|it| **it == b'#').count();
    if text.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = &text[2 + hashes..];
    let end = body.windows(close.len()).position(|it| it == close)?;
    Some(2 + hashes + end + close.len())
}

/// A character literal's length; 0 for a lifetime.
fn character(text: &[u8]) -> usize {
    match text {
        [b'\'', b'\\', _, rest @ ..] => rest.iter().position(|it| *it == b'\'').map_or(0, |it| it + 4),
        [b'\'', rest @ ..] => match rest.iter().take(5).position(|it| *it == b'\'') {
            Some(end) if end > 0 && (end == 1 || !rest[0].is_ascii()) => end + 2,
            _ => 0,
        },
        _ => 0,
    }
}

fn word(it: u8) -> bool {
    it.is_ascii_alphanumeric() || it == b'_'
}

fn in_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && word(bytes[at - 1])
}

/// A path that the code names, made absolute in its crate: `["upstream", "pool", "Pool"]`.
pub type Named = Vec<String>;

/// Every path of this crate that a file names, in `use` and elsewhere. `module` is the file's own: `["upstream", "pool"]`.
pub fn named(text: &str, module: &[String]) -> Vec<Named> {
    let code = code(text);
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for (at, head) in heads(bytes) {
        let base: Vec<String> = match head {
            "crate" => Vec::new(),
            _ => {
                // `super` inside an inline module is the file's own module.
                let mut here = module.to_vec();
                here.extend(inline_modules(bytes, at));
                here
            }
        };
        let mut base = base;
        let mut cursor = at;
        while let Some(after) = keyword(bytes, cursor, "super") {
            base.pop();
            cursor = after;
        }
        if head == "crate" {
            cursor = at + "crate::".len();
        }
        tree(bytes, &mut cursor, &base, &mut found);
    }
    found
}

/// Where each `crate::` and each first `super::` of a path stands.
fn heads(bytes: &[u8]) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for at in 0..bytes.len() {
        let before = if at == 0 { b' ' } else { bytes[at - 1] };
        if word(before) || before == b'$' || before == b':' {
            continue;
        }
        for head in ["crate", "super"] {
            if keyword(bytes, at, head).is_some() {
                found.push((at, head));
            }
        }
    }
    found
}

/// What comes after `name::`, if that stands here.
fn keyword(bytes: &[u8], at: usize, name: &str) -> Option<usize> {
    let end = at + name.len();
    (bytes[at..].starts_with(name.as_bytes()) && bytes[end..].starts_with(b"::")).then_some(end + 2)
}

/// The inline modules (`mod tests { … }`) that are open at a place.
fn inline_modules(bytes: &[u8], place: usize) -> Vec<String> {
    let mut open: Vec<Option<String>> = Vec::new();
    for at in 0..place {
        match bytes[at] {
            b'{' => open.push(module_before(&bytes[..at])),
            b'}' => drop(open.pop()),
            _ => {}
        }
    }
    open.into_iter().flatten().collect()
}

fn module_before(before: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(before).ok()?;
    let tail = text.rsplit([';', '{', '}', ']']).next()?;
    let mut words = tail.split_whitespace().rev();
    let name = words.next()?;
    (words.next() == Some("mod")).then(|| name.to_string())
}

/// Reads `a::{b, c::d}` from the cursor on.
fn tree(bytes: &[u8], cursor: &mut usize, base: &[String], found: &mut Vec<Named>) {
    let mut path = base.to_vec();
    loop {
        skip_space(bytes, cursor);
        match bytes.get(*cursor) {
            Some(b'{') => {
                *cursor += 1;
                loop {
                    skip_space(bytes, cursor);
                    match bytes.get(*cursor) {
                        None => return,
                        Some(b'}') => {
                            *cursor += 1;
                            return;
                        }
                        Some(b',') => *cursor += 1,
                        Some(_) => {
                            let from = *cursor;
                            tree(bytes, cursor, &path, found);
                            if *cursor == from {
                                *cursor += 1;
                            }
                        }
                    }
                }
            }
            Some(b'*') => {
                *cursor += 1;
                path.push("*".into());
                break;
            }
            Some(it) if word(*it) => {
                let from = *cursor;
                while bytes.get(*cursor).is_some_and(|it| word(*it)) {
                    *cursor += 1;
                }
                let name = String::from_utf8_lossy(&bytes[from..*cursor]).into_owned();
                match name.as_str() {
                    "self" => {}
                    "as" => {
                        // `x as y`: the new name is no part of the path.
                        skip_space(bytes, cursor);
                        while bytes.get(*cursor).is_some_and(|it| word(*it)) {
                            *cursor += 1;
                        }
                        break;
                    }
                    _ => path.push(name),
                }
                if bytes[*cursor..].starts_with(b"::") {
                    *cursor += 2;
                    if matches!(bytes.get(*cursor), Some(b'<')) {
                        break;
                    }
                    continue;
                }
                // An alias may follow inside braces.
                let mut ahead = *cursor;
                skip_space(bytes, &mut ahead);
                if bytes[ahead..].starts_with(b"as ") {
                    *cursor = ahead;
                    continue;
                }
                break;
            }
            _ => break,
        }
    }
    found.push(path);
}

fn skip_space(bytes: &[u8], cursor: &mut usize) {
    while bytes.get(*cursor).is_some_and(u8::is_ascii_whitespace) {
        *cursor += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, module: &str, expected: &[&str]) {
        let module: Vec<String> = module.split("::").filter(|it| !it.is_empty()).map(String::from).collect();
        let found: Vec<String> = named(text, &module).iter().map(|it| it.join("::")).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        check("// crate::a\n/* crate::b /* crate::c */ */ let x = \"crate::d\"; let y = r#\"crate::e\"#; crate::f();", "", &["f"]);
        check("let x = '\"'; crate::a(); let y = '\\''; crate::b(); fn f<'a>(x: &'a str) { crate::c() }", "", &["a", "b", "c"]);
    }

    #[test]
    fn trees_of_use_are_followed() {
        check("use crate::{a::{b, c as d}, e::*, f};", "", &["a::b", "a::c", "e::*", "f"]);
        check("use crate::{\n    a::{self, X},\n    b::Y,\n};", "", &["a", "a::X", "b::Y"]);
        check("pub(crate) use crate::a::B as C; use other::crate_thing;", "", &["a::B"]);
    }

    #[test]
    fn inline_paths_are_found() {
        check("fn f() -> crate::a::B { crate::c::D::<u8>::new() }", "", &["a::B", "c::D"]);
        check("macro_rules! m { () => { $crate::a::b } }", "", &[]);
    }

    #[test]
    fn super_is_the_folder_or_inside_an_inline_module_the_file() {
        check("use super::pool::Pool;", "upstream::pick", &["upstream::pool::Pool"]);
        check("use super::Pool;", "upstream::pick", &["upstream::Pool"]);
        check("mod tests { use super::*; }", "upstream::pick", &["upstream::pick::*"]);
        check("fn f() { let x = S { a: 1 }; }\nmod tests {\n use super::super::X; }", "upstream::pick", &["upstream::X"]);
    }
}
