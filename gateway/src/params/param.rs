//! One declared parameter, made ready when its definition is loaded.
use contract::{Value, catalog::Fault};
use http::HeaderName;
use jsonschema::Validator;
use serde_json::Value as Json;

use super::{
    schema::{self, escaped, near},
    text::Kinds,
    wording::{self, short},
};

/// The keys that stand beside the keywords of a parameter's schema.
const OWN: [&str; 4] = ["in", "required", "explode", "default"];

/// Where a parameter stands in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Path,
    Query,
    Header,
    Cookie,
    Form,
}

impl Place {
    const ALL: [Self; 5] = [Self::Path, Self::Query, Self::Header, Self::Cookie, Self::Form];

    /// As it is written after `in`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
            Self::Form => "form",
        }
    }
}

/// What the texts of a parameter become.
#[derive(Debug)]
pub enum Shape {
    One(Kinds),
    List {
        /// Of the first items, where `prefixItems` gives each its own.
        first: Vec<Kinds>,
        items: Kinds,
        /// Each occurrence of the name is an item; otherwise commas part them.
        explode: bool,
    },
}

#[derive(Debug)]
pub struct Param {
    pub name: Box<str>,
    pub place: Place,
    pub header: Option<HeaderName>,
    pub required: bool,
    /// Null where none is declared.
    pub default: Value,
    pub shape: Shape,
    /// What must hold beyond the type; nothing where the type is all.
    pub check: Option<Validator>,
    /// Where its keywords stand: `/params/NAME`.
    pub key: Box<str>,
}

impl Param {
    /// Reads one entry of `params`; `captures` are those of each pattern of the Api. Pointers begin with the name.
    pub fn compile(name: &str, written: &Json, captures: &[&[Box<str>]], faults: &mut Vec<Fault>) -> Option<Self> {
        let pointer = format!("/{}", escaped(name));
        let before = faults.len();
        let Json::Object(map) = written else {
            faults.push(Fault::new(pointer, "a parameter is a map").help("write it like {in: query, type: integer}"));
            return None;
        };
        let place = place(map, &pointer, faults);
        faults.extend(schema::faults(written, &OWN, &pointer));
        let required = flag(map, "required", &pointer, faults);
        let explode = flag(map, "explode", &pointer, faults);
        let shape = shape(written, explode, &pointer, faults);
        if let Some(place) = place {
            named(name, place, captures, &pointer, faults);
            if place == Place::Path {
                if required == Some(false) {
                    let fault = Fault::new(format!("{pointer}/required"), "a path parameter is always required");
                    faults.push(fault.help("leave `required` out"));
                }
                if matches!(shape, Shape::List { explode: true, .. }) {
                    let fault = Fault::new(pointer.clone(), "a list cannot repeat its name in a path");
                    faults.push(fault.help("write explode: false: then commas part its items"));
                }
            }
        }
        if faults.len() > before {
            return None;
        }
        let plain = schema::without(written, &OWN);
        let check = match schema::compile(&plain, true) {
            Ok(it) => it,
            Err(fault) => {
                faults.push(Fault { pointer: format!("{pointer}{}", fault.pointer), ..fault });
                return None;
            }
        };
        let default = map.get("default");
        if let Some(default) = default {
            unfit_default(default, &plain, &shape, &format!("{pointer}/default"), faults);
        }
        let place = place?;
        (faults.len() == before).then(|| Self {
            name: name.into(),
            place,
            header: (place == Place::Header).then(|| HeaderName::from_bytes(name.as_bytes()).ok()).flatten(),
            required: required == Some(true) || place == Place::Path,
            default: default.map_or(Value::Null, Value::from),
            shape,
            check,
            key: format!("/params{pointer}").into(),
        })
    }
}

fn place(map: &serde_json::Map<String, Json>, pointer: &str, faults: &mut Vec<Fault>) -> Option<Place> {
    let words = || Place::ALL.map(Place::word);
    let help = || format!("it is one of {}", words().join(", "));
    match map.get("in") {
        None => faults.push(Fault::new(pointer, "`in` is missing").help(help())),
        Some(Json::String(word)) => {
            if let Some(it) = Place::ALL.into_iter().find(|it| it.word() == word) {
                return Some(it);
            }
            let fault = Fault::new(format!("{pointer}/in"), format!("a parameter cannot stand in '{word}'"));
            faults.push(match (word.as_str(), near(word, words().into_iter())) {
                ("body", _) => fault.help("the body has its own key, `inbound.body`; fields of a form stand in 'form'"),
                (_, Some(near)) => fault.help(format!("did you mean '{near}'?")),
                _ => fault.help(help()),
            });
        }
        Some(_) => faults.push(Fault::new(format!("{pointer}/in"), "`in` is a word").help(help())),
    }
    None
}

fn flag(map: &serde_json::Map<String, Json>, key: &str, pointer: &str, faults: &mut Vec<Fault>) -> Option<bool> {
    let written = map.get(key)?;
    if !written.is_boolean() {
        faults.push(Fault::new(format!("{pointer}/{key}"), format!("`{key}` is true or false")));
    }
    written.as_bool()
}

/// Whether the name can stand where it is looked for.
fn named(name: &str, place: Place, captures: &[&[Box<str>]], pointer: &str, faults: &mut Vec<Fault>) {
    match place {
        Place::Path => {
            if let Some(all) = captures.iter().find(|all| all.iter().all(|it| **it != *name)) {
                let fault = Fault::new(format!("{pointer}/in"), format!("the pattern captures no {{{name}}}"));
                faults.push(match (near(name, all.iter().map(|it| &**it)), captures.len()) {
                    (Some(near), _) => fault.help(format!("did you mean '{near}'?")),
                    (None, 2..) => fault.help("each pattern of the list must capture it"),
                    _ => fault,
                });
            }
        }
        Place::Header if HeaderName::from_bytes(name.as_bytes()).is_err() => {
            faults.push(Fault::new(pointer, format!("'{name}' cannot be a header's name")));
        }
        Place::Cookie if name.is_empty() || name.bytes().any(|it| it <= b' ' || it >= 127 || b"()<>@,;:\\\"/[]?={}".contains(&it)) => {
            faults.push(Fault::new(pointer, format!("'{name}' cannot be a cookie's name")));
        }
        _ if name.is_empty() => faults.push(Fault::new(pointer, "a parameter needs a name")),
        _ => {}
    }
}

fn shape(written: &Json, explode: Option<bool>, pointer: &str, faults: &mut Vec<Fault>) -> Shape {
    let names: Vec<&str> = match written.get("type") {
        Some(Json::Array(all)) => all.iter().filter_map(Json::as_str).collect(),
        Some(one) => one.as_str().into_iter().collect(),
        None => Vec::new(),
    };
    let place = format!("{pointer}/type");
    if names.contains(&"object") {
        faults.push(Fault::new(&place, "a parameter is a text, a number, a truth value or a list of these, never an object"));
    }
    if !names.contains(&"array") {
        if explode.is_some() {
            let fault = Fault::new(format!("{pointer}/explode"), "`explode` is for lists");
            faults.push(fault.help("write type: array, or leave it out"));
        }
        if names.is_empty() && (written.get("items").is_some() || written.get("prefixItems").is_some()) {
            faults.push(Fault::new(pointer, "`items` says nothing about a string").help("no type is string: write type: array"));
        }
        untyped(written, pointer, faults);
        return Shape::One(Kinds::of(written));
    }
    if names.iter().any(|it| !matches!(*it, "array" | "null" | "object")) {
        faults.push(Fault::new(&place, "a parameter is a list or a single value, not either"));
    }
    let mut item = |it: &Json, place: String| {
        let nested = |name: &str| it.get("type").is_some_and(|it| it == name || it.as_array().is_some_and(|it| it.contains(&name.into())));
        if nested("array") || nested("object") {
            faults.push(Fault::new(format!("{place}/type"), "an item of a parameter is a single value"));
        }
        untyped(it, &place, faults);
        Kinds::of(it)
    };
    let first = written.get("prefixItems").and_then(Json::as_array);
    let first = first.into_iter().flatten().enumerate().map(|(at, it)| item(it, format!("{pointer}/prefixItems/{at}"))).collect();
    let items = written.get("items").map_or(Kinds::STRING, |it| item(it, format!("{pointer}/items")));
    Shape::List { first, items, explode: explode.unwrap_or(true) }
}

/// No type is string, so keywords that only other values can pass, or that only restrict others, are a slip.
fn untyped(written: &Json, pointer: &str, faults: &mut Vec<Fault>) {
    if written.get("type").is_some() {
        return;
    }
    let strings = |it: &Json| it.as_array().is_none_or(|all| all.is_empty() || all.iter().any(Json::is_string));
    let slip = if written.get("enum").is_some_and(|it| !strings(it)) {
        "enum"
    } else if written.get("const").is_some_and(|it| !it.is_string()) {
        "const"
    } else if let Some(it) =
        ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"].into_iter().find(|it| written.get(it).is_some())
    {
        it
    } else {
        return;
    };
    let fault = Fault::new(format!("{pointer}/{slip}"), format!("`{slip}` says nothing about a string that could hold"));
    faults.push(fault.help("no type is string: write the type, such as type: integer"));
}

fn unfit_default(default: &Json, schema: &Json, shape: &Shape, pointer: &str, faults: &mut Vec<Fault>) {
    if matches!(shape, Shape::One(kinds) if schema.get("type").is_none() && *kinds == Kinds::STRING) && !default.is_string() {
        let fault = Fault::new(pointer, format!("must be string but found {}", short(default)));
        return faults.push(fault.help("no type is string: write the type, such as type: integer"));
    }
    match schema::compile(schema, false) {
        Ok(Some(it)) => {
            let told = wording::tell(it.iter_errors(default), 100);
            faults.extend(told.into_iter().map(|it| Fault::new(format!("{pointer}{}", it.pointer), it.message)));
        }
        Ok(None) => {}
        Err(fault) => faults.push(Fault { pointer: pointer.to_owned(), ..fault }),
    }
}
