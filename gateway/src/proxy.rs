//! The protocols that backends speak; one file each. A closed set, so an enum: no box on the way to the adapter.
pub mod grpc;
pub mod http;
pub mod http2;
pub mod message;
pub mod trpc;

use std::sync::Arc;

use ::http::HeaderMap;
use contract::{Body, discovery::Node, exchange::Early, local::Local};

use self::message::{Failed, Request, Spoken, Time};
use crate::{
    dial::Tls,
    http1::client::{Timeouts, permits::Limits},
};

/// How calls reach the nodes of one upstream.
pub struct Proxy {
    http: http::Http,
    http2: http2::Http2,
    trpc: trpc::Trpc,
    tls: Option<Arc<Tls>>,
    /// Calls of plain HTTP go over HTTP/2.
    prefers_http2: bool,
}

impl Proxy {
    /// `threads` workers share the limits of `limits`.
    pub fn new(limits: Limits, timeouts: Timeouts, threads: usize, prefers_http2: bool) -> Self {
        Self {
            http: http::Http::new(limits, timeouts, threads),
            http2: http2::Http2::new(timeouts),
            trpc: trpc::Trpc::new(timeouts),
            tls: None,
            prefers_http2,
        }
    }

    /// The same over TLS, where there is some.
    pub fn secured(self, tls: Option<Arc<Tls>>) -> Self {
        Self { http: self.http.secured(tls.clone()), http2: self.http2.secured(tls.clone()), tls, ..self }
    }

    /// What its connections are secured by.
    pub fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    /// Sends the request to the node; `received` are the headers of a request that brings none of its own.
    /// `early` hears of informational answers.
    pub async fn send(
        &self,
        local: &Local,
        node: &Arc<Node>,
        mut request: Request,
        received: &HeaderMap,
        early: Option<&dyn Early>,
        time: Time,
    ) -> Result<::http::Response<Body>, Box<Failed>> {
        match request.spoken.take() {
            // On the heap: the usual call goes without what these need.
            Some(Spoken::Grpc(ask)) => Box::pin(grpc::send(&self.http2, local, node, request, received, time, &ask)).await,
            Some(Spoken::Http2) => Box::pin(self.http2.send(local, node, request, received, time)).await,
            Some(Spoken::Trpc(method)) => {
                let failed = self.trpc.send(local, node, request, received, time, &method);
                Box::pin(failed).await.map_err(|mut it| {
                    if let Some(left) = &mut it.request {
                        left.spoken = Some(Spoken::Trpc(method));
                    }
                    it
                })
            }
            // A protocol that a client changes to is one of HTTP/1.1.
            None if self.prefers_http2 && request.upgrade.is_none() => {
                Box::pin(self.http2.send(local, node, request, received, time)).await
            }
            None => self.http.send(local, node, request, received, early, time).await,
        }
    }
}
