//! `proxy.grpc` becomes a call: the method, its codec, and where its messages are described.
use std::sync::Arc;

use contract::expression::Names;
use http::Method;
use prost_reflect::DescriptorPool;
use schemas::v1;

use super::{calls, told::Told, world::Compiler};
use crate::{
    proxy::grpc::{
        method::{self as grpc, Codec, Described},
        rules::Rules,
    },
    target::{
        call::{Call, Protocol},
        grpc::Shape,
    },
};

/// One gRPC call, written at `place`.
pub fn call(world: &Compiler<'_>, told: &Told<'_>, place: &str, it: &v1::Call, grpc: &v1::Grpc, names: &Names<'_>) -> Option<Call> {
    let at = |key: &str| format!("{place}/grpc{key}");
    if grpc.http_rules() {
        return rules(world, told, place, it, grpc, names);
    }
    let method = match &grpc.method {
        Some(_) => Some(method(world, told, place, grpc)?),
        None => None,
    };
    let Some(method) = method else {
        for (given, key) in [(grpc.codec.is_some(), "/codec"), (grpc.descriptors.is_some(), "/descriptors")] {
            if given {
                told.error_help(
                    &at(key),
                    "no-meaning",
                    "without `method`, messages pass through as they are",
                    "name the method: `method: crm.v1.Profile/Get`",
                );
            }
        }
        let http = v1::Http { upstream: grpc.upstream.clone(), ..v1::Http::default() };
        let mut call = calls::call(world, told, place, "grpc", it, &http, names)?;
        call.protocol = Protocol::Http2;
        return Some(call);
    };
    let http = v1::Http { upstream: grpc.upstream.clone(), ..v1::Http::default() };
    let mut call = calls::call(world, told, place, "grpc", it, &http, names)?;
    call.method = Some(Method::POST);
    call.rules.point = Some((*method.path).into());
    let alone = place == calls::PROXY;
    if it.send.as_ref().is_none_or(|it| it.body.is_none()) && alone {
        // The message is made of the request's body.
        told.reads.set(told.reads.get().and_body());
    }
    call.protocol = Protocol::Grpc(Box::new(Shape::Method(method, if alone { calls::fields(told) } else { Box::default() })));
    Some(call)
}

/// A call of whichever method a rule of the descriptors says.
fn rules(world: &Compiler<'_>, told: &Told<'_>, place: &str, it: &v1::Call, grpc: &v1::Grpc, names: &Names<'_>) -> Option<Call> {
    let at = |key: &str| format!("{place}/grpc{key}");
    if place != calls::PROXY {
        told.error_help(&at("/http_rules"), "no-meaning", "a task is one call", "name the method: `method: crm.v1.Profile/Get`");
        return None;
    }
    if grpc.method.is_some() || grpc.codec.as_deref() == Some("json") {
        told.error_help(
            &at("/http_rules"),
            "no-meaning",
            "the rules say which method is called, with binary messages",
            "take `method` and `codec` away",
        );
    }
    if it.send.as_ref().is_some_and(|it| it.body.is_some() || !it.form.is_empty() || !it.query.is_empty()) {
        told.error(&format!("{place}/send"), "no-meaning", "the rules say what is sent; only `headers` and `cookies` may be added");
    }
    let (key, pool) = pool(world, told, place, grpc, "`http_rules` needs `descriptors`")?;
    let rules = match Rules::read(&pool) {
        Ok(it) => it,
        Err(faults) => {
            faults.into_iter().for_each(|why| told.error(&at(key), "bad-rule", why));
            return None;
        }
    };
    let http = v1::Http { upstream: grpc.upstream.clone(), ..v1::Http::default() };
    let mut call = calls::call(world, told, place, "grpc", it, &http, names)?;
    told.reads.set(told.reads.get().and_body());
    call.protocol = Protocol::Grpc(Box::new(Shape::Rules(Arc::new(rules))));
    Some(call)
}

/// The descriptors, and the key that they stand under.
fn pool(world: &Compiler<'_>, told: &Told<'_>, place: &str, written: &v1::Grpc, needs: &str) -> Option<(&'static str, DescriptorPool)> {
    use v1::descriptors::Written;
    let at = |key: &str| format!("{place}/grpc{key}");
    let (key, loaded) = match written.descriptors.as_ref().and_then(|it| it.written.as_ref()) {
        None => {
            let key = if written.http_rules() { "/http_rules" } else { "/codec" };
            told.error_help(&at(key), "missing-key", needs, "write `descriptors: {file: crm.binpb}` or `{proto: crm.proto}`");
            return None;
        }
        Some(Written::Reflection(_)) => {
            told.not_built(&at("/descriptors/reflection"), "server reflection");
            return None;
        }
        Some(Written::File(file)) => ("/descriptors/file", world.descriptors(file, false)),
        Some(Written::Proto(file)) => ("/descriptors/proto", world.descriptors(file, true)),
    };
    loaded.map(|it| (key, it)).map_err(|why| told.error(&at(key), "bad-descriptors", why)).ok()
}

fn method(world: &Compiler<'_>, told: &Told<'_>, place: &str, written: &v1::Grpc) -> Option<Arc<grpc::Method>> {
    let at = |key: &str| format!("{place}/grpc{key}");
    let name = written.method.as_deref().unwrap_or_default().trim_start_matches('/');
    let valid = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"._".contains(&it));
    let Some((service, own)) = name.split_once('/').filter(|(service, own)| valid(service) && valid(own)) else {
        told.error_help(&at("/method"), "bad-method", format!("'{name}' is no method of a service"), "write it like crm.v1.Profile/Get");
        return None;
    };
    let path: Box<str> = format!("/{service}/{own}").into();
    if written.codec.as_deref() != Some("proto") {
        if written.descriptors.is_some() {
            let help = "write `codec: proto`, or take them away";
            told.error_help(&at("/descriptors"), "no-meaning", "the codec `json` needs no descriptors", help);
            return None;
        }
        return Some(Arc::new(grpc::Method { path, codec: Codec::Json }));
    }
    let (_, pool) = pool(world, told, place, written, "the codec `proto` needs `descriptors`")?;
    let Some(found) = pool.get_service_by_name(service) else {
        let known: Vec<String> = pool.services().map(|it| it.full_name().to_owned()).collect();
        unknown(told, &at("/method"), format!("no service `{service}` is described there"), service, &known);
        return None;
    };
    let Some(found) = found.methods().find(|it| it.name() == own) else {
        let known: Vec<String> = found.methods().map(|it| it.name().to_owned()).collect();
        unknown(told, &at("/method"), format!("the service `{service}` has no method `{own}`"), own, &known);
        return None;
    };
    match Described::new(&found) {
        Ok(it) => Some(Arc::new(grpc::Method { path, codec: Codec::Proto(Box::new(it)) })),
        Err(why) => {
            told.error(&at("/method"), "bad-method", why);
            None
        }
    }
}

fn unknown(told: &Told<'_>, at: &str, message: String, name: &str, known: &[String]) {
    match schemas::nearest(name, known.iter().map(String::as_str)) {
        Some(near) => told.error_help(at, "unknown-reference", message, format!("did you mean `{near}`?")),
        None if known.is_empty() => told.error(at, "unknown-reference", message),
        None => told.error_help(at, "unknown-reference", message, format!("there are {}", known.join(", "))),
    }
}
