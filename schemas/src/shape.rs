//! How every message is written, read once from the descriptors and their options.

use std::{collections::HashMap, sync::LazyLock};

use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind as FieldType, MessageDescriptor, ReflectMessage, Value};

use crate::form::Form;

/// Where a shape stands in [`SHAPES`].
pub(crate) type ShapeId = usize;

/// All messages of the format.
pub(crate) static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::read);

static DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.binpb"));

/// The descriptors of the format, with comments: for whoever wants to read definitions without this crate's types.
pub fn descriptor_set() -> &'static [u8] {
    DESCRIPTORS
}

pub(crate) struct Shapes {
    all: Vec<Shape>,
    by_name: HashMap<String, ShapeId>,
}

/// How one message is written.
pub(crate) struct Shape {
    /// The message's short name.
    pub name: String,
    /// The message's comment.
    pub about: String,
    pub fields: Vec<Field>,
    pub unions: Vec<Union>,
    pub special: Special,
    /// A map is read by keys only if it holds this key.
    pub told_by: Option<String>,
    /// At least one of these keys must be written.
    pub some_of: Vec<String>,
    /// Every key an author may write, with the way to its field.
    pub keys: Vec<(String, Way)>,
    /// The field that takes the keys that nothing names.
    pub rest: Option<usize>,
    /// Fields that take a value that is not a map of keys.
    pub bare: Vec<usize>,
}

/// The way from a key to its field.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// A field of the message itself.
    Own(usize),
    /// A field of the message in the flattened field.
    Flat { outer: usize, inner: usize },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    None,
    Json,
    Ring,
}

pub(crate) struct Union {
    /// The variants that are written as keys.
    pub fields: Vec<usize>,
    pub none_too: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    Bool,
    Whole { signed: bool },
    Number,
    Message(ShapeId),
}

pub(crate) struct Field {
    pub name: String,
    pub number: u32,
    pub about: String,
    pub kind: Type,
    pub repeated: bool,
    pub keyed: bool,
    pub one: bool,
    pub bare: bool,
    pub rest: bool,
    pub flatten: bool,
    pub required: bool,
    pub filled: bool,
    pub number_too: bool,
    pub secret: bool,
    pub form: Form,
    pub preset: Option<String>,
    pub words: Vec<String>,
    pub examples: Vec<String>,
    pub beside: Vec<String>,
    pub variants: Vec<String>,
    pub least: Option<i64>,
    pub most: Option<i64>,
    pub union: Option<usize>,
}

impl Shapes {
    fn read() -> Self {
        // Invariant: the descriptors were written by our own build, so they decode; a test loads them.
        let pool = DescriptorPool::decode(DESCRIPTORS).expect("the embedded descriptors decode");
        let messages: Vec<MessageDescriptor> = pool.all_messages().filter(|m| m.package_name() == "allium.v1").collect();
        let by_name: HashMap<String, ShapeId> = messages.iter().enumerate().map(|(id, m)| (m.name().to_owned(), id)).collect();
        let mut all: Vec<Shape> = messages.iter().map(|m| Shape::read(m, &by_name)).collect();
        let flat: Vec<Vec<(usize, ShapeId)>> = all.iter().map(Shape::flattened).collect();
        for (id, outers) in flat.into_iter().enumerate() {
            let mut keys: Vec<(String, Way)> = all[id].own_keys().map(|at| (all[id].fields[at].name.clone(), Way::Own(at))).collect();
            for (outer, inner_shape) in outers {
                let variants = &all[id].fields[outer].variants;
                let inner = &all[inner_shape];
                keys.extend(
                    inner
                        .own_keys()
                        .filter(|at| variants.is_empty() || inner.fields[*at].union.is_none() || variants.contains(&inner.fields[*at].name))
                        .map(|at| (inner.fields[at].name.clone(), Way::Flat { outer, inner: at })),
                );
            }
            all[id].keys = keys;
        }
        Self { all, by_name }
    }

    pub(crate) fn get(&self, id: ShapeId) -> &Shape {
        &self.all[id]
    }

    /// The shape of a message by its short name. Invariant: asked only for names that the proto files hold.
    pub(crate) fn named(&self, name: &str) -> ShapeId {
        self.by_name[name]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Shape> {
        self.all.iter()
    }
}

impl Shape {
    fn read(message: &MessageDescriptor, by_name: &HashMap<String, ShapeId>) -> Self {
        let options = Options(message.options());
        let mut unions = Vec::new();
        let mut union_of = HashMap::new();
        for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
            union_of.insert(oneof.name().to_owned(), unions.len());
            unions.push(Union { fields: Vec::new(), none_too: Options(oneof.options()).flag("none_too") });
        }
        let mut described: Vec<FieldDescriptor> = message.fields().collect();
        described.sort_by_key(declared_at);
        let fields: Vec<Field> = described.iter().map(|field| Field::read(field, by_name, &union_of)).collect();
        for (at, field) in fields.iter().enumerate() {
            if let (Some(union), false) = (field.union, field.bare) {
                unions[union].fields.push(at);
            }
        }
        let special = match (message.name(), options.flag("ring")) {
            ("Json", _) => Special::Json,
            (_, true) => Special::Ring,
            _ => Special::None,
        };
        Self {
            name: message.name().to_owned(),
            about: comment(&message.parent_file().file_descriptor_proto().source_code_info, message.path()),
            rest: fields.iter().position(|f| f.rest),
            bare: (0..fields.len()).filter(|at| fields[*at].bare).collect(),
            fields,
            unions,
            special,
            told_by: options.text("told_by"),
            some_of: options.texts("some_of"),
            keys: Vec::new(),
        }
    }

    fn own_keys(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.fields.len()).filter(|at| !(self.fields[*at].bare || self.fields[*at].rest || self.fields[*at].flatten))
    }

    fn flattened(&self) -> Vec<(usize, ShapeId)> {
        let inner = |f: &Field| if let Type::Message(id) = f.kind { Some(id) } else { None };
        self.fields.iter().enumerate().filter(|(_, f)| f.flatten).filter_map(|(at, f)| Some((at, inner(f)?))).collect()
    }

    pub(crate) fn find(&self, key: &str) -> Option<Way> {
        self.keys.iter().find(|(name, _)| name == key).map(|(_, way)| *way)
    }

    /// The field that a way leads to.
    pub(crate) fn field(&self, way: Way) -> &Field {
        match way {
            Way::Own(at) => &self.fields[at],
            Way::Flat { outer, inner } => match self.fields[outer].kind {
                Type::Message(id) => &SHAPES.get(id).fields[inner],
                // Invariant: only messages are flattened.
                _ => &self.fields[outer],
            },
        }
    }
}

impl Field {
    fn read(field: &FieldDescriptor, by_name: &HashMap<String, ShapeId>, unions: &HashMap<String, usize>) -> Self {
        let options = Options(field.options());
        let kind = match field.kind() {
            FieldType::String => Type::Text,
            FieldType::Bool => Type::Bool,
            FieldType::Double => Type::Number,
            FieldType::Int32 | FieldType::Int64 => Type::Whole { signed: true },
            FieldType::Uint32 | FieldType::Uint64 => Type::Whole { signed: false },
            FieldType::Message(message) => Type::Message(by_name[message.name()]),
            // Invariant: the format uses no other type; the test that loads every example would fail first.
            other => panic!("{} has a type that the format does not use: {other:?}", field.full_name()),
        };
        let narrow = matches!(field.kind(), FieldType::Int32 | FieldType::Uint32);
        let form = options.text("form").map_or(Form::Plain, |name| Form::named(&name).unwrap_or_else(|| panic!("unknown form {name}")));
        Self {
            name: field.name().to_owned(),
            number: field.number(),
            about: comment(&field.parent_file().file_descriptor_proto().source_code_info, field.path()),
            kind,
            repeated: field.is_list(),
            keyed: options.flag("keyed"),
            one: options.flag("one"),
            bare: options.flag("bare"),
            rest: options.flag("rest"),
            flatten: options.flag("flatten"),
            required: options.flag("required"),
            filled: options.flag("filled"),
            number_too: options.flag("number_too"),
            secret: options.flag("secret"),
            form,
            preset: options.text("preset"),
            words: options.texts("words"),
            examples: options.texts("example"),
            beside: options.texts("beside"),
            variants: options.texts("variants"),
            least: options.whole("least"),
            most: options.whole("most").or(narrow.then_some(i64::from(u32::MAX))),
            union: field.containing_oneof().filter(|o| !o.is_synthetic()).map(|o| unions[o.name()]),
        }
    }
}

/// Our own options among those of a descriptor.
struct Options(DynamicMessage);

impl Options {
    fn get(&self, name: &str) -> Option<Value> {
        let pool = self.0.descriptor().parent_pool().clone();
        let extension = pool.get_extension_by_name(&format!("allium.v1.{name}"))?;
        self.0.has_extension(&extension).then(|| self.0.get_extension(&extension).into_owned())
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(|v| v.as_bool()).unwrap_or(false)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.as_str().map(str::to_owned)
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let value = self.get(name);
        let list = value.as_ref().and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
    }

    fn whole(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64()
    }
}

fn declared_at(field: &FieldDescriptor) -> i32 {
    field.path().last().copied().unwrap_or_default()
}

/// The comment above a message or field: one paragraph a line.
fn comment(info: &Option<prost_reflect::prost_types::SourceCodeInfo>, path: &[i32]) -> String {
    let place = info.iter().flat_map(|info| &info.location).find(|place| place.path == path);
    let text = place.and_then(|place| place.leading_comments.as_deref()).unwrap_or_default();
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}
