//! Definitions from one way of writing into another. There and back loses comments and the order of keys, nothing else.

use prost::Message;

use crate::{
    document::Definition,
    emit,
    tree::{Node, Value},
    v1, write,
};

/// A way of writing definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Several documents, parted by `---`.
    Yaml,
    /// One document, or a list of them.
    Json,
    /// A serialized `allium.v1.Definitions`.
    Binary,
}

impl Written {
    /// What the ending of a file's name says.
    pub fn by_name(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            "binpb" => Some(Self::Binary),
            _ => None,
        }
    }
}

impl Definition {
    /// What an author would have written.
    pub fn tree(&self) -> Node<'static> {
        write::document(self.kind(), &self.bytes())
    }

    /// The message of a `Definitions`.
    pub fn to_message(&self) -> v1::Definition {
        use v1::definition::Kind as Variant;
        let kind = match self {
            Self::Api(message) => Variant::Api(message.as_ref().clone()),
            Self::Upstream(message) => Variant::Upstream(message.as_ref().clone()),
            Self::App(message) => Variant::App(message.as_ref().clone()),
            Self::Plan(message) => Variant::Plan(message.as_ref().clone()),
            Self::Preset(message) => Variant::Preset(message.as_ref().clone()),
        };
        v1::Definition { kind: Some(kind) }
    }
}

/// Writes definitions, in their order.
pub fn convert<'d>(definitions: impl IntoIterator<Item = &'d Definition>, target: Written) -> Vec<u8> {
    let definitions = definitions.into_iter();
    match target {
        Written::Yaml => {
            let documents: Vec<String> = definitions.map(|definition| emit::yaml(&definition.tree())).collect();
            documents.join("---\n").into_bytes()
        }
        Written::Json => {
            let mut documents: Vec<Node<'static>> = definitions.map(Definition::tree).collect();
            let root = match documents.len() {
                1 => documents.remove(0),
                _ => Node::unplaced(Value::List(documents)),
            };
            emit::json(&root).into_bytes()
        }
        Written::Binary => v1::Definitions { documents: definitions.map(Definition::to_message).collect() }.encode_to_vec(),
    }
}
