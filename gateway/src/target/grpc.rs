//! What a gRPC call is made of: one message, of what the definition sends or of the request.
use std::sync::Arc;

use bytes::Bytes;
use contract::{
    Body, Exchange, Kind, Problem,
    json::{self, push_string},
    scope::{Form, is_json, media_type},
};
use http::header;

use crate::proxy::grpc::method::{Ask, Method, Several};

/// How a request becomes a message of one method.
pub struct Shape {
    pub method: Arc<Method>,
    /// Declared parameters of path, query and form: each is a field of the message, and wins over the body's.
    pub fields: Box<[Box<str>]>,
}

impl Shape {
    /// The message: `content` where the definition writes one, else the request's body and parameters.
    pub fn message(&self, ex: &Exchange, content: Option<Body>) -> Result<Bytes, Box<Problem>> {
        match content {
            Some(Body::Full(it)) => self.method.encode(&it),
            Some(Body::Json(it)) => self.method.encode(&it.to_bytes()),
            _ => self.method.encode(&self.gather(ex)?),
        }
    }

    pub fn ask(&self, ex: &Exchange) -> Ask {
        let accept = ex.head.headers.get_all(header::ACCEPT);
        let wants = |media: &str| {
            accept
                .iter()
                .filter_map(|it| it.to_str().ok())
                .flat_map(|it| it.split(','))
                .any(|it| it.split(';').next().unwrap_or(it).trim().eq_ignore_ascii_case(media))
        };
        let several = match () {
            () if wants("text/event-stream") => Some(Several::Events),
            () if wants("application/x-ndjson") => Some(Several::Lines),
            () => None,
        };
        Ask { method: self.method.clone(), several }
    }

    fn gather(&self, ex: &Exchange) -> Result<Vec<u8>, Box<Problem>> {
        let mut out = vec![b'{'];
        let mut add = |name: &str, write: &mut dyn FnMut(&mut Vec<u8>)| {
            if out.len() > 1 {
                out.push(b',');
            }
            push_string(name, &mut out);
            out.push(b':');
            write(&mut out);
        };
        let mut given: Vec<&str> = Vec::new();
        for name in &self.fields {
            let Some(value) = ex.param(name).filter(|it| !it.is_null()) else { continue };
            add(name, &mut |out| value.view().push_json(out));
            given.push(name);
        }
        match &ex.body {
            Body::Json(view) => {
                let root = view.root();
                if root.kind() != json::Kind::Object {
                    return Err(Problem::new(Kind::Invalid, "the body must be a JSON object"));
                }
                for (key, value) in root.members() {
                    let name = key.as_str().unwrap_or_default();
                    if !given.contains(&&*name) {
                        add(&name, &mut |out| out.extend_from_slice(value.raw()));
                    }
                }
            }
            // Its fields are parameters, as far as they are declared.
            _ if ex.notes.get::<Form>().is_some() => (),
            Body::Full(it) if !it.is_empty() && !is_json(&media_type(&ex.head.headers)) => {
                return Err(Problem::new(Kind::UnsupportedMedia, "the body must be JSON"));
            }
            _ => (),
        }
        out.push(b'}');
        Ok(out)
    }
}
