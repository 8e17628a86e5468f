//! `proxy.trpc` becomes a call.
use std::sync::Arc;

use contract::expression::Names;
use http::{HeaderName, Method};
use schemas::v1;

use super::{calls, told::Told, world::Compiler};
use crate::{
    proxy::trpc::method as trpc,
    target::call::{Call, Protocol},
};

/// Who calls, as backends see it: `trpc.APP.SERVER.SERVICE`.
const CALLER: &str = "trpc.allium.gateway.http";

/// One tRPC call, written at `place`.
pub fn call(world: &Compiler<'_>, told: &Told<'_>, place: &str, it: &v1::Call, written: &v1::Trpc, names: &Names<'_>) -> Option<Call> {
    let at = |key: &str| format!("{place}/trpc{key}");
    let good = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_graphic());
    if !good(&written.callee) {
        let message = format!("'{}' is no service", written.callee);
        told.error_help(&at("/callee"), "bad-method", message, "write it like trpc.crm.profile.Profile");
    }
    if !good(&written.func) || !written.func.starts_with('/') {
        let message = format!("'{}' is no method of a service", written.func);
        told.error_help(&at("/func"), "bad-method", message, "write it like /trpc.crm.profile.Profile/Get");
    }
    let http = v1::Http { upstream: written.upstream.clone(), ..v1::Http::default() };
    let mut call = calls::call(world, told, place, "trpc", it, &http, names)?;
    if call.upstream.is_secured() {
        // Never in the clear where the definition asks for TLS.
        told.not_built(&at("/upstream"), "tRPC over TLS");
        return None;
    }
    call.method = Some(Method::POST);
    let alone = place == calls::PROXY;
    if it.send.as_ref().is_none_or(|it| it.body.is_none()) && alone {
        // The message is made of the request's body.
        told.reads.set(told.reads.get().and_body());
    }
    let named = it.send.iter().flat_map(|it| &it.headers).filter_map(|it| HeaderName::from_bytes(it.name.as_bytes()).ok());
    let method = trpc::Method {
        caller: CALLER.into(),
        callee: written.callee.as_str().into(),
        func: written.func.as_str().into(),
        beside: named.collect(),
    };
    call.protocol = Protocol::Trpc(Arc::new(method), if alone { calls::fields(told) } else { Box::default() });
    Some(call)
}
