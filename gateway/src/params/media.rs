//! What a body is, by its media type and the parameters of that.
use contract::{
    multipart,
    scope::{is_json, media_type},
};
use http::{HeaderMap, header};

/// What can be looked into of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json` and every `+json`.
    Json,
    /// `application/x-www-form-urlencoded`.
    Urlencoded,
    /// `multipart/form-data`, with its boundary or why there is none.
    Multipart(Result<String, &'static str>),
    /// Anything else, and text in another encoding than UTF-8.
    Other,
}

/// What the headers announce.
pub fn of(headers: &HeaderMap) -> Media {
    let media = media_type(headers);
    if !is_utf8(headers) {
        return Media::Other;
    }
    if is_json(&media) {
        return Media::Json;
    }
    if media == "application/x-www-form-urlencoded" {
        return Media::Urlencoded;
    }
    multipart::boundary(headers).map_or(Media::Other, Media::Multipart)
}

/// Whether `charset` says UTF-8, or nothing.
fn is_utf8(headers: &HeaderMap) -> bool {
    let Some(text) = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()) else { return true };
    text.split(';').skip(1).filter_map(|it| it.split_once('=')).all(|(key, value)| {
        let value = value.trim().trim_matches('"');
        !key.trim().eq_ignore_ascii_case("charset") || ["utf-8", "utf8", "us-ascii"].iter().any(|it| value.eq_ignore_ascii_case(it))
    })
}

/// Whether the body is encoded as a whole, with gzip for one, so that nobody can look into it.
pub fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_ENCODING).iter().any(|it| !it.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_known_by_its_media_type_and_its_parameters() {
        for (text, expected) in [
            ("application/json", Media::Json),
            ("Application/JSON; Charset=\"UTF-8\"", Media::Json),
            ("application/problem+json", Media::Json),
            ("application/json; charset=gbk", Media::Other),
            ("application/x-www-form-urlencoded", Media::Urlencoded),
            ("Application/X-WWW-Form-Urlencoded; charset=UTF-8", Media::Urlencoded),
            ("multipart/form-data; boundary=abc", Media::Multipart(Ok("abc".into()))),
            ("text/plain", Media::Other),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, text.parse().unwrap());
            assert_eq!(of(&headers), expected, "{text}");
        }
        assert_eq!(of(&HeaderMap::new()), Media::Other);
    }
}
