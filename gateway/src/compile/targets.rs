//! `proxy` becomes the heart of a route, and each task of a pipeline its step: by the protocol that is written.
use contract::expression::Names;
use http::Method;
use schemas::v1;

use super::{
    calls::{PROXY, call, redirect, respond},
    grpc,
    told::Told,
    trpc,
    world::Compiler,
};
use crate::target::{
    Action,
    call::{Headers, Keeps},
    step::Step,
};

/// Compiles `proxy`; `None` after faults.
pub fn action(world: &Compiler<'_>, told: &Told<'_>, it: &v1::Call, names: &Names<'_>) -> Option<Action> {
    use v1::call::Target;
    beside(told, PROXY, it);
    match it.target.as_ref()? {
        Target::Http(http) => call(world, told, PROXY, "http", it, http, names).map(|it| Action::Call(Box::new(it))),
        Target::Grpc(grpc) => grpc::call(world, told, PROXY, it, grpc, names).map(|it| Action::Call(Box::new(it))),
        Target::Respond(it) => respond(told, PROXY, it, names).map(|it| Action::Respond(Box::new(it))),
        Target::Redirect(it) => redirect(told, it, names).map(|it| Action::Redirect(Box::new(it))),
        Target::Trpc(trpc) => trpc::call(world, told, PROXY, it, trpc, names).map(|it| Action::Call(Box::new(it))),
        other => {
            let name = match other {
                Target::Custom(_) => "custom",
                _ => "push",
            };
            told.not_built(&format!("/proxy/{name}"), &format!("`{name}`"));
            None
        }
    }
}

/// The call of a pipeline's task, written at `place`: it sends what is named, and of the request only what is asked for.
pub fn step(world: &Compiler<'_>, told: &Told<'_>, place: &str, it: &v1::Call, names: &Names<'_>) -> Option<Step> {
    use v1::call::Target;
    beside(told, place, it);
    let target = it.target.as_ref()?;
    match target {
        Target::Http(_) | Target::Grpc(_) | Target::Trpc(_) => {
            let mut call = match target {
                Target::Trpc(trpc) => trpc::call(world, told, place, it, trpc, names)?,
                Target::Grpc(grpc) => grpc::call(world, told, place, it, grpc, names)?,
                Target::Http(http) => call(world, told, place, "http", it, http, names)?,
                _ => return None,
            };
            let inherits = |what: &str| it.send.as_ref().is_some_and(|it| it.inherit.iter().any(|it| it == what));
            let headers = if inherits("headers") { Headers::Readable } else { Headers::Traced };
            let keeps = Keeps { headers, query: inherits("query"), body: inherits("body") };
            if keeps.body {
                told.reads.set(told.reads.get().and_body());
            }
            call.method.get_or_insert(Method::GET);
            call.send.get_or_insert_default().keeps = keeps;
            call.rules.tells_time = true;
            Some(Step::Call(Box::new(call)))
        }
        Target::Respond(it) => respond(told, place, it, names).map(|it| Step::Respond(Box::new(it))),
        _ => {
            told.not_built(&format!("{place}/custom"), "`custom`");
            None
        }
    }
}

/// What may stand beside a call and is not built.
fn beside(told: &Told<'_>, place: &str, it: &v1::Call) {
    for (given, key, what) in
        [(it.before.is_some(), "before", "a script before a call"), (it.after.is_some(), "after", "a script after a call")]
    {
        if given {
            told.not_built(&format!("{place}/{key}"), what);
        }
    }
}
