//! The answer of a pipeline: all tasks by label, and what it says where some are missing.
use contract::{
    Body,
    collector::{Partial, Tasks},
    json::{JsonView, Step},
};
use http::{HeaderName, HeaderValue, Response, header};

/// How an incomplete answer says so.
pub struct Says {
    /// The header that lists the labels of failed tasks.
    pub header: HeaderName,
    /// An object body gets `"partial": [labels]`.
    pub list: bool,
}

/// Every task by its label, in the order of the definition; those that failed and were left out are not there.
pub fn object<'l>(labels: impl Iterator<Item = &'l str>, tasks: &Tasks) -> Vec<u8> {
    let values = || tasks.0.iter().map(|it| it.as_ref().and_then(|it| it.value.as_ref()));
    let size = values().map(|it| it.map_or(4, |it| it.bytes().len()) + 32).sum::<usize>();
    let mut text = Vec::with_capacity(size);
    text.push(b'{');
    for ((label, task), value) in labels.zip(&tasks.0).zip(values()) {
        if task.as_ref().is_some_and(|it| it.omitted) {
            continue;
        }
        if text.len() > 1 {
            text.push(b',');
        }
        text.push(b'"');
        // A label is an identifier: nothing in it needs an escape.
        text.extend_from_slice(label.as_bytes());
        text.extend_from_slice(b"\":");
        text.extend_from_slice(value.map_or(b"null", |it| it.root().raw()));
    }
    text.push(b'}');
    text
}

/// Says on an answer that these tasks are missing. Such an answer is never cached.
pub fn mark(says: &Says, answer: &mut Response<Body>, labels: &[&str]) {
    let headers = answer.headers_mut();
    if let Ok(it) = HeaderValue::from_str(&labels.join(", ")) {
        headers.insert(says.header.clone(), it);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for name in [header::ETAG, header::LAST_MODIFIED, header::EXPIRES, header::AGE] {
        headers.remove(name);
    }
    answer.extensions_mut().insert(Partial);
    if !says.list {
        return;
    }
    let bytes = match answer.body() {
        Body::Full(it) => it.clone(),
        Body::Json(it) => it.to_bytes(),
        Body::Empty | Body::Stream(_) => return,
    };
    let Ok(mut view) = JsonView::parse(bytes) else { return };
    let list = format!("[\"{}\"]", labels.join("\",\""));
    // A body that is no object, and not even a list, has no room for it; the header tells.
    if view.root().kind() == contract::json::Kind::Object && view.set(&[Step::Key("partial")], list).is_ok() {
        answer.headers_mut().remove(header::CONTENT_LENGTH);
        *answer.body_mut() = Body::Full(view.to_bytes());
    }
}
