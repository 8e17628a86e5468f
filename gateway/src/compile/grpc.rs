//! `proxy.grpc` becomes a call: the method, its codec, and where its messages are described.
use std::sync::Arc;

use contract::expression::Names;
use schemas::{Definition, v1};

use super::{calls, told::Told, world::Compiler};
use crate::{
    proxy::grpc::method::{Codec, Described, Method},
    target::{
        call::{Call, Protocol},
        grpc::Shape,
    },
};

/// One gRPC call, written at `place`.
pub fn call(world: &Compiler<'_>, told: &Told<'_>, place: &str, it: &v1::Call, grpc: &v1::Grpc, names: &Names<'_>) -> Option<Call> {
    let at = |key: &str| format!("{place}/grpc{key}");
    if grpc.http_rules() {
        told.not_built(&at("/http_rules"), "serving every `google.api.http` rule");
        return None;
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
    let http = v1::Http { upstream: grpc.upstream.clone(), method: Some("POST".to_owned()), ..v1::Http::default() };
    let mut call = calls::call(world, told, place, "grpc", it, &http, names)?;
    let alone = place == calls::PROXY;
    if it.send.as_ref().is_none_or(|it| it.body.is_none()) && alone {
        // The message is made of the request's body.
        told.reads.set(told.reads.get().and_body());
    }
    call.protocol = Protocol::Grpc(Box::new(Shape { method, fields: if alone { fields(told) } else { Box::default() } }));
    Some(call)
}

/// The parameters that become fields: those of headers and cookies do not.
fn fields(told: &Told<'_>) -> Box<[Box<str>]> {
    let Definition::Api(api) = &told.document.message else { return Box::default() };
    let params = api.inbound.iter().flat_map(|it| &it.params);
    params.filter(|it| matches!(it.r#in.as_str(), "path" | "query" | "form")).map(|it| it.name.as_str().into()).collect()
}

fn method(world: &Compiler<'_>, told: &Told<'_>, place: &str, grpc: &v1::Grpc) -> Option<Arc<Method>> {
    use v1::descriptors::Written;
    let at = |key: &str| format!("{place}/grpc{key}");
    let name = grpc.method.as_deref().unwrap_or_default().trim_start_matches('/');
    let valid = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"._".contains(&it));
    let Some((service, own)) = name.split_once('/').filter(|(service, own)| valid(service) && valid(own)) else {
        told.error_help(&at("/method"), "bad-method", format!("'{name}' is no method of a service"), "write it like crm.v1.Profile/Get");
        return None;
    };
    let path: Box<str> = format!("/{service}/{own}").into();
    let wants = grpc.codec.as_deref() == Some("proto");
    let written = grpc.descriptors.as_ref().and_then(|it| it.written.as_ref());
    let (key, loaded) = match (wants, written) {
        (false, None) => return Some(Arc::new(Method { path, codec: Codec::Json })),
        (false, Some(_)) => {
            told.error_help(
                &at("/descriptors"),
                "no-meaning",
                "the codec `json` needs no descriptors",
                "write `codec: proto`, or take them away",
            );
            return None;
        }
        (true, None) => {
            let help = "write `descriptors: {file: crm.binpb}` or `{proto: crm.proto}`";
            told.error_help(&at("/codec"), "missing-key", "the codec `proto` needs `descriptors`", help);
            return None;
        }
        (true, Some(Written::Reflection(_))) => {
            told.not_built(&at("/descriptors/reflection"), "server reflection");
            return None;
        }
        (true, Some(Written::File(file))) => ("/descriptors/file", world.descriptors(file, false)),
        (true, Some(Written::Proto(file))) => ("/descriptors/proto", world.descriptors(file, true)),
    };
    let pool = loaded.map_err(|why| told.error(&at(key), "bad-descriptors", why)).ok()?;
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
        Ok(it) => Some(Arc::new(Method { path, codec: Codec::Proto(Box::new(it)) })),
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
