//! A written tree against the messages: every fault with its place, and the bytes of the message.

use crate::{
    form::{Form, TextFault},
    near,
    plugin::{Check, Plugins},
    shape::{Field, SHAPES, Shape, ShapeId, Special, Type, Way},
    source::Span,
    tree::{Entry, Node, Path, Value},
    wire,
};

mod scalar;

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It holds, but is most likely not what was meant.
    Warning,
    /// The document cannot be used.
    Error,
}

/// A text that a compiler of expressions is asked about: what it is and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct TextAt<'a> {
    /// What the text is.
    pub form: Form,
    /// The way to it in the document; written out by `to_string`.
    pub path: &'a Path<'a>,
}

/// Asked about every text whose form is an expression, condition, template or pattern.
pub type Judge<'a> = dyn Fn(TextAt<'_>, &str) -> Result<(), TextFault> + Sync + 'a;

/// A fault inside one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The bytes it is about.
    pub span: Span,
    /// The way to the value, as a JSON pointer.
    pub pointer: String,
    /// A stable kebab-case code.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

/// Checks one document and writes its message.
pub(crate) struct Checker<'c> {
    /// The text that the spans are of; empty where there is none.
    pub text: &'c str,
    pub judge: Option<&'c Judge<'c>>,
    pub plugins: Option<&'c Plugins>,
    pub findings: Vec<Finding>,
    /// The files that the document names.
    pub files: Vec<String>,
}

impl<'c> Checker<'c> {
    pub(crate) fn new(text: &'c str, judge: Option<&'c Judge<'c>>, plugins: Option<&'c Plugins>) -> Self {
        Self { text, judge, plugins, findings: Vec::new(), files: Vec::new() }
    }

    pub(crate) fn fault(&mut self, span: Span, path: &Path<'_>, code: &'static str, message: impl Into<String>, help: Option<String>) {
        let message = message.into();
        self.findings.push(Finding { span, pointer: path.to_string(), code, severity: Severity::Error, message, help });
    }

    /// A fault inside a text.
    pub(crate) fn text_fault(&mut self, node: &Node<'_>, decoded: &str, path: &Path<'_>, fault: TextFault) {
        let span = crate::inside::span(self.text, node.span, decoded, fault.offset, fault.len);
        self.fault(span, path, fault.code, fault.message, fault.help);
    }

    /// Checks a message and writes its fields. `owner` is where a missing key is told: the key that holds the map.
    pub(crate) fn message(&mut self, node: &Node<'_>, owner: Span, id: ShapeId, path: &Path<'_>, out: &mut Vec<u8>) {
        let shape = SHAPES.get(id);
        match shape.special {
            Special::Json => return self.json(node, Form::Plain, path, out),
            Special::Ring => return self.ring(node, owner, shape, path, out),
            Special::None => {}
        }
        match &node.value {
            Value::Map(entries) if by_keys(shape, node) => self.keys(entries, owner, shape, path, None, out),
            _ => self.bare(node, owner, shape, path, out),
        }
    }

    /// A value that is not a map of keys goes to the bare field that takes its type.
    fn bare(&mut self, node: &Node<'_>, owner: Span, shape: &Shape, path: &Path<'_>, out: &mut Vec<u8>) {
        let fits = |at: &&usize| {
            let field = &shape.fields[**at];
            match (&node.value, field.kind) {
                _ if field.keyed => matches!(node.value, Value::Map(_)),
                (_, Type::Message(id)) if SHAPES.get(id).special == Special::Json => true,
                (Value::Map(_), Type::Message(_)) => true,
                (Value::List(_), _) => field.repeated,
                (Value::Text(_), Type::Text) | (Value::Bool(_), Type::Bool) => true,
                (Value::Number(_), Type::Text) => field.number_too || field.form.unit().is_some(),
                (Value::Number(_), Type::Whole { .. } | Type::Number) => true,
                _ => false,
            }
        };
        if let Some(at) = shape.bare.iter().find(fits) {
            return self.field(&shape.fields[*at], node, owner, path, out);
        }
        let expected = expected(shape);
        let help = match &node.value {
            Value::Number(text) if shape.bare.iter().any(|at| shape.fields[*at].kind == Type::Text) => {
                Some(format!("write \"{text}\", in quotes"))
            }
            Value::Null => Some("take the key away, or give it a value".to_owned()),
            _ => None,
        };
        self.fault(place(node, owner), path, "wrong-type", format!("expected {expected}, found {}", node.kind()), help);
    }

    /// A map of keys. `skip` is a key that was read before.
    pub(crate) fn keys(
        &mut self,
        entries: &[Entry<'_>],
        owner: Span,
        shape: &Shape,
        path: &Path<'_>,
        skip: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let mut present = vec![None::<Span>; shape.keys.len()];
        let mut rest: Vec<&Entry<'_>> = Vec::new();
        let mut flat: Vec<(usize, Vec<u8>)> = Vec::new();
        for entry in entries.iter().filter(|entry| Some(entry.key.as_ref()) != skip) {
            let Some(at) = shape.keys.iter().position(|(name, _)| *name == entry.key) else {
                match shape.rest {
                    Some(_) => rest.push(entry),
                    None => self.unknown(entry, shape, path, skip),
                }
                continue;
            };
            present[at] = Some(entry.span);
            let way = shape.keys[at].1;
            let inner = path.key(&entry.key);
            match way {
                Way::Own(_) => self.field(shape.field(way), &entry.node, entry.span, &inner, out),
                Way::Flat { outer, .. } => {
                    let at = flat.iter().position(|(field, _)| *field == outer).unwrap_or_else(|| {
                        flat.push((outer, Vec::new()));
                        flat.len() - 1
                    });
                    let mut bytes = std::mem::take(&mut flat[at].1);
                    self.field(shape.field(way), &entry.node, entry.span, &inner, &mut bytes);
                    flat[at].1 = bytes;
                }
            }
        }
        for (outer, bytes) in flat {
            wire::put_bytes(out, shape.fields[outer].number, &bytes);
        }
        if let (Some(at), false) = (shape.rest, rest.is_empty()) {
            let entries = rest.into_iter().cloned().collect();
            let node = Node { span: owner, value: Value::Map(entries) };
            let field = &shape.fields[at];
            wire::put_message(out, field.number, |out| self.json(&node, field.form, path, out));
        }
        self.missing(&present, owner, shape, path);
        self.unions(&present, owner, shape, path);
        self.beside(&present, shape, path);
    }

    fn unknown(&mut self, entry: &Entry<'_>, shape: &Shape, path: &Path<'_>, skip: Option<&str>) {
        // `kind` stands beside the keys of the message; the name of a keyed element is none of them.
        let beside = skip.filter(|skip| shape.find(skip).is_none());
        let keys = shape.keys.iter().map(|(name, _)| name.as_str()).filter(|name| Some(*name) != skip);
        let known: Vec<&str> = beside.into_iter().chain(keys).collect();
        let near = near::nearest(&entry.key, known.iter().copied());
        let outside = if near.is_none() { outside(shape, &entry.key) } else { None };
        let help = match near {
            _ if Some(entry.key.as_ref()) == skip => "the name is the key above".to_owned(),
            Some(near) => format!("did you mean `{near}`?"),
            None if outside.is_some() => outside.unwrap_or_default(),
            None if known.len() <= 16 => format!("the keys here are {}", near::list(&known)),
            None => format!("the keys here are {}, …", near::list(&known[..16])),
        };
        let message = format!("the key `{}` is not known here", entry.key);
        self.fault(entry.span, &path.key(&entry.key), "unknown-key", message, Some(help));
    }

    /// Whether a key of this map is told already to be most likely this one.
    fn misspelt(&self, name: &str, path: &Path<'_>) -> bool {
        let (here, help) = (path.to_string(), format!("did you mean `{name}`?"));
        self.findings.iter().rev().any(|it| {
            it.code == "unknown-key"
                && it.help.as_deref() == Some(&help)
                && it.pointer.rsplit_once('/').is_some_and(|(parent, _)| parent == here)
        })
    }

    fn missing(&mut self, present: &[Option<Span>], owner: Span, shape: &Shape, path: &Path<'_>) {
        for (at, (name, way)) in shape.keys.iter().enumerate() {
            let field = shape.field(*way);
            if field.required && present[at].is_none() && !self.misspelt(name, path) {
                let help = (!field.about.is_empty()).then(|| format!("`{name}`: {}", field.about));
                self.fault(owner, path, "missing-key", format!("the key `{name}` is missing"), help);
            }
        }
        if shape.some_of.is_empty() {
            return;
        }
        let written: Vec<(&str, Span)> = named(shape, present).filter(|(name, _)| shape.some_of.iter().any(|some| some == name)).collect();
        let list = near::list(&shape.some_of);
        match written.as_slice() {
            [] => self.fault(owner, path, "missing-key", format!("one of {list} is missing"), None),
            [_] => {}
            [.., (name, span)] => self.fault(*span, &path.key(name), "too-many-keys", format!("only one of {list} may be written"), None),
        }
    }

    /// Exactly one variant of every union is written.
    fn unions(&mut self, present: &[Option<Span>], owner: Span, shape: &Shape, path: &Path<'_>) {
        let mut check = |outer: Option<usize>, of: &Shape| {
            for (number, union) in of.unions.iter().enumerate() {
                let members: Vec<usize> = (0..shape.keys.len())
                    .filter(|at| match (outer, shape.keys[*at].1) {
                        (None, Way::Own(at)) => of.fields[at].union == Some(number),
                        (Some(outer), Way::Flat { outer: o, inner }) => o == outer && of.fields[inner].union == Some(number),
                        _ => false,
                    })
                    .collect();
                if members.is_empty() {
                    continue;
                }
                let mut written: Vec<(&str, Span)> =
                    members.iter().filter_map(|at| Some((shape.keys[*at].0.as_str(), present[*at]?))).collect();
                written.sort_by_key(|(_, span)| span.start);
                let names: Vec<&str> = members.iter().map(|at| shape.keys[*at].0.as_str()).collect();
                match written.as_slice() {
                    [] if union.none_too => {}
                    [] => {
                        self.fault(owner, path, "missing-variant", format!("exactly one of {} must be written", near::list(&names)), None)
                    }
                    [_] => {}
                    [(first, _), rest @ ..] => {
                        for (name, span) in rest {
                            let message =
                                format!("`{name}` and `{first}` exclude each other: exactly one of {} must be written", near::list(&names));
                            self.fault(
                                *span,
                                &path.key(name),
                                "too-many-variants",
                                message,
                                Some(format!("take `{name}` or `{first}` away")),
                            );
                        }
                    }
                }
            }
        };
        check(None, shape);
        for (at, field) in shape.fields.iter().enumerate().filter(|(_, field)| field.flatten) {
            if let Type::Message(id) = field.kind {
                check(Some(at), SHAPES.get(id));
            }
        }
    }

    /// Keys that mean something only beside another.
    fn beside(&mut self, present: &[Option<Span>], shape: &Shape, path: &Path<'_>) {
        for (at, (name, way)) in shape.keys.iter().enumerate() {
            let (Some(span), field) = (present[at], shape.field(*way)) else { continue };
            if field.beside.is_empty() || named(shape, present).any(|(other, _)| field.beside.iter().any(|key| key == other)) {
                continue;
            }
            // Where no variant of a union is written that is told already.
            let variants = |name: &str| shape.find(name).is_some_and(|way| shape.field(way).union.is_some());
            let any_variant = named(shape, present).any(|(other, _)| variants(other));
            if field.beside.iter().any(|key| variants(key)) && !any_variant {
                continue;
            }
            let known: Vec<&String> = field.beside.iter().filter(|key| shape.find(key).is_some()).collect();
            self.fault(span, &path.key(name), "misplaced-key", format!("`{name}` has a meaning only beside {}", near::list(&known)), None);
        }
    }

    /// One entry of `plugins`.
    fn ring(&mut self, node: &Node<'_>, owner: Span, shape: &Shape, path: &Path<'_>, out: &mut Vec<u8>) {
        let Value::Map(entries) = &node.value else {
            let help = match &node.value {
                Value::Text(name) => format!("write `{name}: {{}}`"),
                _ => "write `NAME: {…}`, or `use: PRESET`".to_owned(),
            };
            return self.fault(place(node, owner), path, "ring-shape", format!("expected one plugin, found {}", node.kind()), Some(help));
        };
        let named: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.key != "when").collect();
        if let Some(when) = node.entry("when") {
            self.field(&shape.fields[2], &when.node, when.span, &path.key("when"), out);
        }
        let entry = match named.as_slice() {
            [] => {
                let help = Some("write `NAME: {…}`, or `use: PRESET`, beside it".to_owned());
                return self.fault(place(node, owner), path, "ring-shape", "this entry names no plugin", help);
            }
            [entry] => entry,
            [first, second, ..] => {
                let help = match first.node.value {
                    Value::Null => format!("indent the config below `{}:`", first.key),
                    _ => format!("begin a new entry: `- {}: …`", second.key),
                };
                let message = format!("an entry is one plugin, and `when`: `{}` and `{}` stand in one", first.key, second.key);
                return self.fault(second.span, &path.key(&second.key), "ring-shape", message, Some(help));
            }
        };
        let inner = path.key(&entry.key);
        if entry.key == "use" {
            return self.field(&shape.fields[3], &entry.node, entry.span, &inner, out);
        }
        wire::put_bytes(out, shape.fields[0].number, entry.key.as_bytes());
        if entry.node.value != Value::Null {
            let number = shape.fields[1].number;
            wire::put_message(out, number, |out| wire::put_bytes(out, 1, entry.node.to_json().as_bytes()));
        }
        crate::plugin::files(&entry.node, &mut self.files);
        let Some(plugins) = self.plugins else { return };
        match plugins.check(&entry.key) {
            Check::Schema(schema) => {
                let empty = Node { span: entry.span, value: Value::Map(Vec::new()) };
                let config = if entry.node.value == Value::Null { &empty } else { &entry.node };
                schema.check(config, entry.span, &inner, self);
            }
            Check::Any => {}
            Check::NotBuilt => {
                let message = format!("the plugin `{}` is known, but not built into this gateway", entry.key);
                self.fault(entry.span, &inner, "not-built", message, None);
            }
            Check::Unknown(names) => {
                let help = match near::nearest(&entry.key, names.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the plugins are {}", near::list(&names)),
                };
                self.fault(entry.span, &inner, "unknown-plugin", format!("there is no plugin `{}`", entry.key), Some(help));
            }
        }
    }

    fn field(&mut self, field: &Field, node: &Node<'_>, owner: Span, path: &Path<'_>, out: &mut Vec<u8>) {
        if !field.repeated {
            return self.single(field, node, owner, path, out);
        }
        match &node.value {
            Value::Map(entries) if field.keyed => {
                self.filled(field, entries.len(), place(node, owner), path);
                for entry in entries {
                    self.keyed(field, entry, path, out);
                }
            }
            Value::List(items) if !field.keyed => {
                self.filled(field, items.len(), place(node, owner), path);
                for (at, item) in items.iter().enumerate() {
                    self.single(field, item, item.span, &path.index(at), out);
                }
            }
            // Every entry of the list stands in a comment.
            Value::Null if !field.required && !field.filled => {}
            Value::Null => self.fault(owner, path, "wrong-type", "the key has no value", Some("give it at least one".to_owned())),
            _ if field.one => self.single(field, node, owner, path, out),
            _ => {
                let (expected, help) = match (&node.value, field.keyed) {
                    (Value::List(_), true) => ("a map", Some("write `NAME: …` in place of `- …`".to_owned())),
                    (_, true) => ("a map", None),
                    (Value::Map(_), false) => ("a list", Some("begin each entry with `- `".to_owned())),
                    (_, false) => ("a list", Some(format!("write [{}]", short(node)))),
                };
                self.fault(place(node, owner), path, "wrong-type", format!("expected {expected}, found {}", node.kind()), help);
            }
        }
    }

    fn filled(&mut self, field: &Field, len: usize, span: Span, path: &Path<'_>) {
        if field.filled && len == 0 {
            self.fault(span, path, "empty", format!("`{}` may not be empty", field.name), None);
        }
    }

    /// One key of a map that is a repeated message: the key is the element's first field.
    fn keyed(&mut self, field: &Field, entry: &Entry<'_>, path: &Path<'_>, out: &mut Vec<u8>) {
        let Type::Message(id) = field.kind else { return };
        let shape = SHAPES.get(id);
        let inner = path.key(&entry.key);
        wire::put_message(out, field.number, |out| {
            wire::put_bytes(out, shape.fields[0].number, entry.key.as_bytes());
            if let Err(fault) = shape.fields[0].form.check(&entry.key) {
                let key = Node { span: entry.span, value: Value::Text(entry.key.clone()) };
                self.text_fault(&key, &entry.key, &inner, fault);
            }
            match &entry.node.value {
                Value::Map(entries) if by_keys(shape, &entry.node) => {
                    // The key is the name: written again inside it would say it twice.
                    let name = shape.fields[0].name.as_str();
                    if let Some(again) = entries.iter().find(|inner| inner.key == name) {
                        self.unknown(again, shape, &inner, Some(name));
                    }
                    self.keys(entries, entry.span, shape, &inner, Some(name), out);
                }
                _ => self.bare(&entry.node, entry.span, shape, &inner, out),
            }
        });
    }

    fn single(&mut self, field: &Field, node: &Node<'_>, owner: Span, path: &Path<'_>, out: &mut Vec<u8>) {
        match field.kind {
            Type::Message(id) if SHAPES.get(id).special == Special::Json => {
                wire::put_message(out, field.number, |out| self.json(node, field.form, path, out));
            }
            Type::Message(id) => wire::put_message(out, field.number, |out| self.message(node, owner, id, path, out)),
            _ => self.scalar(field, node, owner, path, out),
        }
    }
}

/// What to do about a key that has its place one level further out.
fn outside(shape: &Shape, key: &str) -> Option<String> {
    let here = |field: &Field| matches!(field.kind, Type::Message(id) if SHAPES.get(id).name == shape.name);
    SHAPES.iter().find_map(|outer| {
        outer.find(key)?;
        let inner = outer.keys.iter().find(|(_, way)| here(outer.field(*way)))?;
        Some(format!("`{key}` stands one level further out, beside `{}`", inner.0))
    })
}

/// Whether the value is read by its keys.
fn by_keys(shape: &Shape, node: &Node<'_>) -> bool {
    let takes_maps = |at: &usize| {
        let field = &shape.fields[*at];
        field.keyed || matches!(field.kind, Type::Message(_))
    };
    match &shape.told_by {
        Some(key) => node.entry(key).is_some(),
        // A list of messages, written as one of them, is told by its own rules.
        None => !shape.bare.iter().any(takes_maps),
    }
}

fn named<'s>(shape: &'s Shape, present: &'s [Option<Span>]) -> impl Iterator<Item = (&'s str, Span)> {
    shape.keys.iter().zip(present).filter_map(|((name, _), span)| Some((name.as_str(), (*span)?)))
}

/// Where a fault of a value is told: nothing has no place of its own.
pub(crate) fn place(node: &Node<'_>, owner: Span) -> Span {
    if node.value == Value::Null && node.span.start == node.span.end { owner } else { node.span }
}

/// What a message that is not written as expected could be.
fn expected(shape: &Shape) -> String {
    let bare = shape.bare.iter().map(|at| match (&shape.fields[*at], shape.fields[*at].kind) {
        (field, _) if field.keyed => "a map",
        (field, _) if field.repeated => "a list",
        (_, Type::Text) => "a text",
        (_, Type::Bool) => "a boolean",
        (_, Type::Whole { .. } | Type::Number) => "a number",
        (_, Type::Message(_)) => "a value",
    });
    let mut all: Vec<&str> = bare.collect();
    if !shape.keys.is_empty() && !all.contains(&"a map") {
        all.push("a map");
    }
    all.join(" or ")
}

fn short(node: &Node<'_>) -> String {
    let json = node.to_json();
    if json.chars().count() > 40 { format!("{}…", json.chars().take(39).collect::<String>()) } else { json }
}
