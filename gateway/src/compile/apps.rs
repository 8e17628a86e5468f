//! Apps and their Plans become the directory that authenticating rings look callers up in.
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use contract::{
    Value,
    caller::{Directory, Profile},
};
use schemas::{Definition, Document, Fault, Id, Kind, nearest, v1};

use super::{told::Told, world::Compiler};
use crate::settings::secret::{Hidden, Secret};

/// All Apps; faults are told where they were written.
pub fn directory(world: &Compiler<'_>, documents: &[Arc<Document>], faults: &mut Vec<Fault>, bad: &mut HashSet<Id>) -> Directory {
    let plans: HashMap<&str, &v1::Plan> = documents
        .iter()
        .filter_map(|it| match &it.message {
            Definition::Plan(plan) => Some((plan.name.as_str(), &**plan)),
            _ => None,
        })
        .collect();
    let mut all = Directory::default();
    for document in documents {
        let Definition::App(it) = &document.message else { continue };
        let told = Told::new(document);
        app(world, &told, it, &plans, &mut all);
        if told.has_errors() {
            bad.insert(document.id.clone());
        }
        faults.extend(told.into_faults());
    }
    all
}

fn app(world: &Compiler<'_>, told: &Told<'_>, it: &v1::App, plans: &HashMap<&str, &v1::Plan>, all: &mut Directory) {
    let plan = it.plan.as_deref().map(|name| (name, plans.get(name).copied()));
    let plan = match plan {
        None => Value::Null,
        Some((_, Some(it))) => of_plan(it),
        Some((name, None)) if world.is_broken(Kind::Plan, name) => {
            return told.error("/plan", "broken-reference", format!("the Plan '{name}' has faults of its own"));
        }
        Some((name, None)) => {
            let message = format!("there is no Plan named '{name}'");
            return match nearest(name, plans.keys().copied()) {
                Some(near) => told.error_help("/plan", "unknown-reference", message, format!("did you mean '{near}'?")),
                None => told.error("/plan", "unknown-reference", message),
            };
        }
    };
    let words = |list: &[String]| Value::List(list.iter().map(|it| Value::text(it.as_str())).collect());
    let view = Value::Map(vec![
        ("name".into(), Value::text(it.name.as_str())),
        ("scopes".into(), words(&it.scopes)),
        ("tags".into(), words(&it.tags)),
    ]);
    let profile = Profile::new(&it.name, view, plan);
    all.add(&profile);
    for (at, credential) in it.credentials.iter().enumerate() {
        let pointer = format!("/credentials/{at}");
        match &credential.written {
            Some(v1::credential::Written::ApiKey(key)) => {
                let pointer = format!("{pointer}/api_key");
                let Some(key) = secret(world, told, &pointer, key) else { continue };
                if let Err(other) = all.add_key(&profile, key.reveal()) {
                    told.error(&pointer, "repeated-credential", format!("the App '{}' has the same key", other.name));
                }
            }
            Some(v1::credential::Written::Username(name)) => {
                let Some(password) = &credential.password else {
                    told.error(&pointer, "missing-key", "a user needs its `password`");
                    continue;
                };
                let Some(password) = secret(world, told, &format!("{pointer}/password"), password) else { continue };
                if name.is_empty() || name.contains(':') {
                    told.error(&format!("{pointer}/username"), "bad-value", "a user's name is not empty and has no colon");
                } else if let Err(other) = all.add_user(&profile, name, password.reveal()) {
                    told.error(
                        &format!("{pointer}/username"),
                        "repeated-credential",
                        format!("the App '{}' has the same user", other.name),
                    );
                }
            }
            // Signing keys are for `app-signature`.
            Some(v1::credential::Written::AppKey(_)) | None => (),
        }
    }
}

fn of_plan(it: &v1::Plan) -> Value {
    Value::Map(vec![
        ("name".into(), Value::text(it.name.as_str())),
        ("rate".into(), it.rate.as_deref().map_or(Value::Null, Value::text)),
        ("burst".into(), it.burst.map_or(Value::Null, |it| Value::Number(it.to_string().into()))),
    ])
}

/// A secret's content. `None` where it is told, or not looked up.
fn secret(world: &Compiler<'_>, told: &Told<'_>, pointer: &str, it: &v1::Secret) -> Option<Hidden> {
    let wanted = match it.written.as_ref()? {
        v1::secret::Written::Literal(it) if it.is_empty() => {
            told.error(pointer, "bad-secret", "an empty secret would let everybody in");
            return None;
        }
        v1::secret::Written::Literal(it) => return Some(Hidden::new(it.as_bytes())),
        v1::secret::Written::Env(it) => Secret::Env(it.clone()),
        v1::secret::Written::File(it) => Secret::File(it.into()),
    };
    if world.without_secrets {
        return None;
    }
    world.policy.resolve(&wanted).map_err(|it| told.error(pointer, "bad-secret", it)).ok()
}
