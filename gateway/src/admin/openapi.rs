//! The OpenAPI document of what is served, for whoever asks the admin listener.
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use crate::{
    compile::{Snapshot, Workshop, published::published},
    openapi,
};

/// Makes the document, and remembers the last one.
pub struct Publisher {
    shop: Arc<Workshop>,
    current: Arc<ArcSwapOption<Snapshot>>,
    /// Where clients reach the gateway, unless they say so themselves.
    address: Option<SocketAddr>,
    last: Mutex<Option<Last>>,
}

struct Last {
    revision: Box<str>,
    query: Box<str>,
    yaml: bool,
    text: Bytes,
}

/// What of the published Apis is wanted.
#[derive(Default)]
struct Ask {
    audience: Option<String>,
    host: Option<String>,
    server: Option<String>,
}

impl Publisher {
    /// `current` is what is served.
    pub fn new(shop: Arc<Workshop>, current: Arc<ArcSwapOption<Snapshot>>, address: Option<SocketAddr>) -> Self {
        Self { shop, current, address, last: Mutex::default() }
    }

    /// The text for a query of `audience`, `host` and `server`. Errors: what is wrong with the query.
    pub fn text(&self, query: &str, yaml: bool) -> Result<Bytes, String> {
        let ask = Ask::of_query(query)?;
        let Some(snapshot) = self.current.load_full() else { return Ok(Bytes::from_static(b"{}")) };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = last.as_ref().filter(|it| it.revision == snapshot.revision && *it.query == *query && it.yaml == yaml) {
            return Ok(it.text.clone());
        }
        let server = ask.server.unwrap_or_else(|| self.address.map_or_else(|| "/".to_owned(), |it| format!("http://{it}")));
        let made = openapi::make(
            &published(&self.shop, &snapshot.documents),
            &openapi::Ask {
                title: "APIs",
                version: &snapshot.revision,
                server: server.trim_end_matches('/'),
                audience: ask.audience.as_deref(),
                host: ask.host.as_deref(),
                read: &|file| std::fs::read_to_string(self.shop.root.join(file)).map_err(|it| it.to_string()),
            },
        );
        let text = Bytes::from(openapi::written(&made.document, yaml));
        *last = Some(Last { revision: snapshot.revision.clone(), query: query.into(), yaml, text: text.clone() });
        Ok(text)
    }
}

impl Ask {
    fn of_query(query: &str) -> Result<Self, String> {
        let mut it = Self::default();
        for pair in query.split('&').filter(|it| !it.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_encoding::percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned();
            let place = match name {
                "audience" => &mut it.audience,
                "host" => &mut it.host,
                "server" => &mut it.server,
                _ => return Err("the document is asked for with audience, host and server, and with nothing else\n".into()),
            };
            *place = Some(value).filter(|it| !it.is_empty());
        }
        Ok(it)
    }
}
