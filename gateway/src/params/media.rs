//! Which kind of form a body is, by its media type.
use http::{HeaderMap, header};

/// A body whose fields parameters may name with `in: form`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormMedia {
    /// `application/x-www-form-urlencoded`.
    Urlencoded,
    /// `multipart/form-data`, with its boundary. Its fields are not taken apart here.
    Multipart { boundary: String },
}

/// The kind of form that the headers announce, if any.
pub fn form(headers: &HeaderMap) -> Option<FormMedia> {
    let whole = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let (name, parameters) = whole.split_once(';').unwrap_or((whole, ""));
    let name = name.trim();
    if name.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Some(FormMedia::Urlencoded);
    }
    if !name.eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameters.split(';').find_map(|it| {
        let (key, value) = it.split_once('=')?;
        key.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })?;
    // RFC 2046, 5.1.1: 1 to 70 characters.
    (1..=70).contains(&boundary.len()).then(|| FormMedia::Multipart { boundary: boundary.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_known_by_its_media_type() {
        let multipart = |it: &str| Some(FormMedia::Multipart { boundary: it.into() });
        for (text, expected) in [
            ("application/x-www-form-urlencoded", Some(FormMedia::Urlencoded)),
            ("Application/X-WWW-Form-Urlencoded; charset=UTF-8", Some(FormMedia::Urlencoded)),
            ("multipart/form-data; boundary=abc", multipart("abc")),
            ("multipart/form-data; charset=x; Boundary=\"a b\"", multipart("a b")),
            ("multipart/form-data", None),
            ("application/json", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, text.parse().unwrap());
            assert_eq!(form(&headers), expected, "{text}");
        }
        assert_eq!(form(&HeaderMap::new()), None);
    }
}
