//! The protocols that backends speak; one file each. A closed set, so an enum: no box on the way to the adapter.
pub mod http;
pub mod message;

use std::sync::Arc;

use ::http::HeaderMap;
use contract::{Body, discovery::Node, exchange::Early, local::Local};

use self::{
    http::Time,
    message::{Failed, Request},
};

/// How a call reaches a node.
pub enum Proxy {
    Http(http::Http),
}

impl Proxy {
    /// Sends the request to the node; `received` are the headers of a request that brings none of its own.
    /// `early` hears of informational answers.
    pub async fn send(
        &self,
        local: &Local,
        node: &Arc<Node>,
        request: Request,
        received: &HeaderMap,
        early: Option<&dyn Early>,
        time: Time,
    ) -> Result<::http::Response<Body>, Box<Failed>> {
        match self {
            Self::Http(it) => it.send(local, node, request, received, early, time).await,
        }
    }
}
