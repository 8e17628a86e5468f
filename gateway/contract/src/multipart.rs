//! A `multipart/form-data` body taken apart (RFC 7578), strictly: what two readers could read in two ways is refused.
use http::{HeaderMap, header};

/// The most bytes of one part's headers.
const MOST_HEAD: usize = 8 * 1024;

/// One part of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    pub name: String,
    /// Given for a file.
    pub filename: Option<String>,
    pub content: &'a [u8],
}

/// The boundary, where the headers announce a form of parts. The inner error is one of a boundary that cannot be.
pub fn boundary(headers: &HeaderMap) -> Option<Result<String, &'static str>> {
    const NONE: &str = "the Content-Type names no boundary";
    let whole = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let (name, mut rest) = whole.split_once(';').unwrap_or((whole, ""));
    if !name.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let mut found: Option<String> = None;
    while let Some((key, value, after)) = parameter(rest) {
        if key.eq_ignore_ascii_case("boundary") && found.replace(value).is_some() {
            return Some(Err("the Content-Type names two boundaries"));
        }
        rest = after;
    }
    // RFC 2046, 5.1.1: 1 to 70 characters, the last no space.
    let fits = |it: &String| (1..=70).contains(&it.len()) && !it.ends_with(' ') && it.bytes().all(|it| (b' '..0x7f).contains(&it));
    Some(found.filter(fits).ok_or(NONE))
}

/// The parts, at most `most`. Errors: what is wrong, in words for the client.
pub fn parts<'a>(body: &'a [u8], boundary: &str, most: usize) -> Result<Vec<Part<'a>>, &'static str> {
    const END: &str = "the form does not end with its boundary";
    let delimiter = format!("\r\n--{boundary}");
    let finder = memchr::memmem::Finder::new(delimiter.as_bytes());
    // What stands before the first boundary is nobody's.
    let mut rest = match body.starts_with(&delimiter.as_bytes()[2..]) {
        true => &body[delimiter.len() - 2..],
        false => &body[finder.find(body).ok_or("the form does not hold its boundary")? + delimiter.len()..],
    };
    let mut parts = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Ok(parts);
        }
        if parts.len() == most {
            return Err("the form has more fields than are allowed here");
        }
        let padding = rest.iter().take_while(|it| matches!(it, b' ' | b'\t')).count();
        rest = rest[padding..].strip_prefix(b"\r\n").ok_or(END)?;
        let (head, content) = match rest.strip_prefix(b"\r\n") {
            Some(content) => (&rest[..0], content),
            None => {
                let end = memchr::memmem::find(&rest[..rest.len().min(MOST_HEAD)], b"\r\n\r\n").ok_or("a part's headers do not end")?;
                (&rest[..end], &rest[end + 4..])
            }
        };
        // An empty content ends where the headers do: the line break belongs to the boundary.
        let (content, after) = match content.strip_prefix(&delimiter.as_bytes()[2..]) {
            Some(after) => (&content[..0], after),
            None => {
                let end = finder.find(content).ok_or(END)?;
                (&content[..end], &content[end + delimiter.len()..])
            }
        };
        let (name, filename) = disposition(head)?;
        parts.push(Part { name, filename, content });
        rest = after;
    }
}

fn disposition(head: &[u8]) -> Result<(String, Option<String>), &'static str> {
    const NOT: &str = "a part has no Content-Disposition that names its field";
    let head = std::str::from_utf8(head).map_err(|_| "a part's headers are not UTF-8")?;
    let mut found = None;
    for line in head.split("\r\n") {
        let (name, value) = line.split_once(':').ok_or("a part has a broken header")?;
        if name.eq_ignore_ascii_case("content-disposition") {
            if found.replace(value).is_some() {
                return Err("a part has two Content-Dispositions");
            }
        } else if name.eq_ignore_ascii_case("content-transfer-encoding")
            && !["7bit", "8bit", "binary"].iter().any(|it| value.trim().eq_ignore_ascii_case(it))
        {
            return Err("a part has a transfer encoding");
        }
    }
    let (kind, mut rest) = found.and_then(|it| it.split_once(';')).ok_or(NOT)?;
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return Err(NOT);
    }
    let (mut name, mut filename) = (None, None);
    while let Some((key, value, after)) = parameter(rest) {
        let place = match key.to_ascii_lowercase().as_str() {
            "name" => &mut name,
            "filename" | "filename*" => &mut filename,
            _ => {
                rest = after;
                continue;
            }
        };
        if place.replace(value).is_some() && !key.ends_with('*') && key.eq_ignore_ascii_case("name") {
            return Err("a part names its field twice");
        }
        rest = after;
    }
    Ok((name.ok_or(NOT)?, filename))
}

/// The first `key=value` and what follows; quotes are taken off, as browsers write them: `\"` and `\\` are escapes.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let text = text.trim_start_matches([';', ' ', '\t']);
    let (key, rest) = text.split_once('=')?;
    let Some(quoted) = rest.trim_start().strip_prefix('"') else {
        let end = rest.find(';').unwrap_or(rest.len());
        return Some((key.trim(), rest[..end].trim().to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, it)) = characters.next() {
        match it {
            '"' => return Some((key.trim(), value, &quoted[at + 1..])),
            '\\' => match characters.next() {
                Some((_, it @ ('"' | '\\'))) => value.push(it),
                // A path of an old browser on Windows.
                Some((_, it)) => value.extend(['\\', it]),
                None => return None,
            },
            it => value.push(it),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    type Field = (String, Option<String>, String);

    fn read(body: &str) -> Result<Vec<Field>, &'static str> {
        let parts = parts(body.as_bytes(), "b", 3)?;
        Ok(parts.into_iter().map(|it| (it.name, it.filename, String::from_utf8_lossy(it.content).into_owned())).collect())
    }

    #[test]
    fn fields_and_files_are_told_apart() {
        let body = "preamble\r\n--b\r\nContent-Disposition: form-data; name=\"\u{59d3}\u{540d}\"\r\n\r\n\u{738b}\u{4f1f}\r\n--b  \r\ncontent-disposition: form-data; filename=\"a\\\"b.txt\"; name=f\r\nContent-Type: text/plain\r\n\r\nline\r\n--bother\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"e\"\r\n\r\n\r\n--b--\r\nepilogue";
        let field = |name: &str, file: Option<&str>, text: &str| (name.to_owned(), file.map(str::to_owned), text.to_owned());
        // `--bother` begins with the boundary, so that strict readers and lax ones differ: it is refused.
        assert!(read(body).is_err());
        assert_eq!(
            read(&body.replace("--bother", "-- bother")).unwrap(),
            [
                field("\u{59d3}\u{540d}", None, "\u{738b}\u{4f1f}"),
                field("f", Some("a\"b.txt"), "line\r\n-- bother\r\n"),
                field("e", None, "")
            ]
        );
        assert_eq!(read("--b--").unwrap(), []);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let part = |head: &str| format!("--b\r\n{head}\r\n\r\nx\r\n--b--");
        for body in [
            String::new(),
            "--b".into(),
            "--b\r\n".into(),
            part("Content-Disposition: form-data"),
            part("Content-Disposition: attachment; name=a"),
            part("Content-Disposition: form-data; name=a; name=b"),
            part("Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b"),
            part("Content-Disposition: form-data; name=\"a"),
            part("Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64"),
            part("X: y"),
            "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx".into(),
            format!(
                "{}\r\n{}",
                part("Content-Disposition: form-data; name=a").replace("\r\n--b--", ""),
                "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n".repeat(3) + "--b--"
            ),
        ] {
            assert!(read(&body).is_err(), "{body}");
        }
    }

    #[test]
    fn the_boundary_is_read_as_mail_writes_it() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, text.parse().unwrap());
            boundary(&headers)
        };
        assert_eq!(of("multipart/form-data; boundary=abc"), Some(Ok("abc".into())));
        assert_eq!(of("Multipart/Form-Data; charset=x; Boundary=\"a b\""), Some(Ok("a b".into())));
        assert_eq!(of("application/json"), None);
        for broken in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=a; boundary=b"] {
            assert!(matches!(of(broken), Some(Err(_))), "{broken}");
        }
        assert!(matches!(of(&format!("multipart/form-data; boundary={}", "a".repeat(71))), Some(Err(_))));
    }
}
