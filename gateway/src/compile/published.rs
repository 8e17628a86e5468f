//! What the OpenAPI document is made of: the Apis of a set of definitions, with their patterns parsed and their Presets expanded.
use std::sync::Arc;

use schemas::{Definition, Document};

use super::{rings, world::Workshop};
use crate::{
    openapi::{Published, RingView, Route, Segment},
    route::pattern::{self, Host, Pattern},
};

/// Every Api, by name and version.
pub fn published<'a>(shop: &'a Workshop, documents: &'a [Arc<Document>]) -> Vec<Published<'a>> {
    let apis = documents.iter().filter_map(|it| if let Definition::Api(api) = &it.message { Some((it, &**api)) } else { None });
    let mut all: Vec<Published<'a>> = apis
        .map(|(document, api)| {
            let patterns = api.inbound.iter().flat_map(|it| &it.r#match).filter_map(|it| Pattern::parse(it).ok());
            let rings = rings::expanded(shop, documents, document).into_iter().map(|it| {
                let entry = shop.plugins.iter().find(|entry| entry.name == it.ring.name);
                let config = it.ring.config.as_ref().and_then(|it| serde_json::from_str(&it.text).ok());
                RingView {
                    name: it.ring.name.as_str().into(),
                    config: config.unwrap_or_default(),
                    sometimes: it.ring.when.is_some(),
                    answers: entry.map_or("", |it| it.notes.answers),
                    authenticates: entry.is_some_and(|it| it.notes.authenticates),
                }
            });
            Published {
                name: document.message.name(),
                version: document.message.version(),
                api,
                routes: patterns.map(route).collect(),
                rings: rings.collect(),
            }
        })
        .collect();
    all.sort_by(|a, b| (a.name, a.version).cmp(&(b.name, b.version)));
    all
}

fn route(it: Pattern) -> Route {
    Route {
        methods: it.methods().iter().map(|it| it.as_str().into()).collect(),
        host: match it.host() {
            Host::Any => None,
            Host::Exact(it) => Some(it.clone()),
            Host::Below(it) => Some(format!("*.{it}").into()),
        },
        segments: it
            .segments()
            .iter()
            .map(|it| match it {
                pattern::Segment::Literal(it) => Segment::Literal(String::from_utf8_lossy(it).into()),
                pattern::Segment::Capture(it) => Segment::Capture(it.clone()),
                pattern::Segment::Rest(it) => Segment::Rest(it.clone()),
            })
            .collect(),
    }
}
