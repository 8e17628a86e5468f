//! What a plugin's own tests need: a route of one ring and a made-up upstream.
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use http::HeaderValue;

use crate::{Body, Exchange, Peer, RouteInfo, Scheme};

/// An exchange on a route that asks for nothing.
pub fn exchange(request: http::Request<Body>) -> Exchange {
    let (head, body) = request.into_parts();
    let route = RouteInfo { id: "test@v1".into(), name: "test".into(), version: "v1".into(), body_limit: 1 << 20, ..RouteInfo::default() };
    Exchange {
        id: HeaderValue::from_static("test-request"),
        head,
        body,
        route: Arc::new(route),
        captures: Vec::new(),
        params: Vec::new(),
        peer: peer(Ipv4Addr::LOCALHOST.into()),
        deadline: Instant::now() + Duration::from_secs(5),
        target: None,
        entered: 0,
        preflight: false,
        vars: Vec::new(),
        caller: None,
        notes: Default::default(),
        local: Default::default(),
    }
}

/// A client at `ip`, over plain HTTP.
pub fn peer(ip: IpAddr) -> Peer {
    Peer {
        addr: SocketAddr::new(ip, 40000),
        local: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
        client_ip: ip,
        scheme: Scheme::Http,
        trusted: false,
        forwarded_host: None,
    }
}
