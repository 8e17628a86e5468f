//! One definition that was read: its message, its digest and the way back to where it was written.

use std::{fmt, hash::Hasher, sync::Arc};

use prost::Message;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::{
    fault::Fault,
    form::TextFault,
    source::{Source, Span},
    tree::Node,
    v1,
};

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An API.
    Api,
    /// A backend.
    Upstream,
    /// A client.
    App,
    /// What Apps are granted.
    Plan,
    /// A list of rings under a name.
    Preset,
}

impl Kind {
    /// All of them, in the order of the manual.
    pub const ALL: [Kind; 5] = [Kind::Api, Kind::Upstream, Kind::App, Kind::Plan, Kind::Preset];

    /// The word that `kind` holds, which is the message's name too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "Api",
            Self::Upstream => "Upstream",
            Self::App => "App",
            Self::Plan => "Plan",
            Self::Preset => "Preset",
        }
    }

    /// The kind that a word names.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The pointer to a document's name.
    pub fn name_pointer(self) -> &'static str {
        if self == Self::Api { "/info/name" } else { "/name" }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What was written, as messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Definition {
    /// An API.
    Api(Box<v1::Api>),
    /// A backend.
    Upstream(Box<v1::Upstream>),
    /// A client.
    App(Box<v1::App>),
    /// What Apps are granted.
    Plan(Box<v1::Plan>),
    /// A list of rings under a name.
    Preset(Box<v1::Preset>),
}

impl Definition {
    pub(crate) fn decode(kind: Kind, bytes: &[u8]) -> Result<Self, prost::DecodeError> {
        Ok(match kind {
            Kind::Api => Self::Api(Box::new(v1::Api::decode(bytes)?)),
            Kind::Upstream => Self::Upstream(Box::new(v1::Upstream::decode(bytes)?)),
            Kind::App => Self::App(Box::new(v1::App::decode(bytes)?)),
            Kind::Plan => Self::Plan(Box::new(v1::Plan::decode(bytes)?)),
            Kind::Preset => Self::Preset(Box::new(v1::Preset::decode(bytes)?)),
        })
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Api(_) => Kind::Api,
            Self::Upstream(_) => Kind::Upstream,
            Self::App(_) => Kind::App,
            Self::Plan(_) => Kind::Plan,
            Self::Preset(_) => Kind::Preset,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Api(api) => api.info.as_ref().map_or("", |info| info.name.as_str()),
            Self::Upstream(upstream) => &upstream.name,
            Self::App(app) => &app.name,
            Self::Plan(plan) => &plan.name,
            Self::Preset(preset) => &preset.name,
        }
    }

    /// The version, which only an Api has.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Api(api) => api.info.as_ref().and_then(|info| info.version.as_deref()),
            _ => None,
        }
    }

    /// The bytes of the message, in the order of its fields.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Api(message) => message.encode_to_vec(),
            Self::Upstream(message) => message.encode_to_vec(),
            Self::App(message) => message.encode_to_vec(),
            Self::Plan(message) => message.encode_to_vec(),
            Self::Preset(message) => message.encode_to_vec(),
        }
    }

    /// A stable hash of kind and message: equal definitions have equal digests, whatever file, order of keys or comments.
    pub fn digest(&self) -> u128 {
        let mut hasher = SipHasher13::new_with_keys(0x616c_6c69_756d, 1);
        hasher.write_u8(self.kind() as u8);
        hasher.write(&self.bytes());
        hasher.finish128().as_u128()
    }
}

/// Which definition: kind, name and, of an Api, version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        self.version.as_ref().map_or(Ok(()), |version| write!(f, "@{version}"))
    }
}

/// One definition without a fault.
#[derive(Clone, Debug)]
pub struct Document {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// Which of the file's documents it is, from 0.
    pub index: usize,
    /// Which definition it is.
    pub id: Id,
    /// What was written.
    pub message: Definition,
    /// A stable hash of what was written; see [`Definition::digest`].
    pub digest: u128,
    /// The files that it names, as written; a plugin's own are those under a key `file`.
    pub files: Vec<String>,
    /// The way back to where it was written.
    pub places: Places,
}

/// A document that cannot be used; as much of its identity as could be read.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// Which of the file's documents it is, from 0.
    pub index: usize,
    /// What it says it is.
    pub kind: Option<Kind>,
    /// The name it says it has.
    pub name: Option<String>,
    /// The version it says it has.
    pub version: Option<String>,
    /// As much of it as could be read, where its faults left a message.
    pub partial: Option<Arc<Partial>>,
}

/// What could be read of a document that cannot be used: enough to find faults that lie deeper than the first ones, never to serve.
#[derive(Clone, Debug)]
pub struct Partial {
    /// The document without what is wrong in it.
    pub document: Document,
    /// What was wrong in it.
    pub faults: Vec<Fault>,
}

/// The way from a message back to where it was written.
///
/// Only the file's text is kept, shared by its documents: places are found by reading the document again, which takes some
/// ten microseconds and is needed only for faults. Dropping the documents gives the texts back.
#[derive(Clone, Debug)]
pub struct Places(pub(crate) Origin);

#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Text {
        source: Arc<Source>,
        span: Span,
        json: bool,
    },
    /// `f.binpb#Api/customer-overview`.
    Binary(Arc<str>),
}

/// Where a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The key, where the value has one.
    pub key: Option<Span>,
    /// The value.
    pub value: Span,
    /// Whether this is the value asked for; otherwise its nearest ancestor.
    pub whole: bool,
}

impl Places {
    /// The text that the document was read from; none of a binary file.
    pub fn source(&self) -> Option<&Arc<Source>> {
        if let Origin::Text { source, .. } = &self.0 { Some(source) } else { None }
    }

    /// The document as it was written, to look up many places at once.
    pub fn tree(&self) -> Option<Node<'_>> {
        let Origin::Text { source, span, json } = &self.0 else { return None };
        let read = if *json { crate::json::read(source.text(), *span) } else { crate::yaml::read(source.text(), *span) };
        read.root
    }

    /// Where the value of a JSON pointer stands; the nearest ancestor where there is none. None in a binary file.
    pub fn find(&self, pointer: &str) -> Option<Place> {
        let tree = self.tree()?;
        let found = tree.find(pointer);
        Some(Place { key: found.key, value: found.node.span, whole: found.whole })
    }

    /// Whether a fault lies in this document.
    pub fn holds(&self, fault: &Fault) -> bool {
        match &self.0 {
            Origin::Binary(prefix) => fault.file.starts_with(prefix.as_ref()),
            Origin::Text { source, span, .. } => {
                let (first, last) = (source.position(span.start as usize), source.position(span.end as usize));
                *source.name() == fault.file
                    && (first.line, first.column) <= (fault.line, fault.column)
                    && (fault.line, fault.column) <= (last.line, last.column)
            }
        }
    }

    /// A fault of the value that a JSON pointer leads to. A map or list is told at its key.
    pub fn fault(&self, pointer: &str, code: &'static str, message: impl Into<String>) -> Fault {
        self.fault_where(pointer, code, message, |node, key| match (&node.value, key) {
            (crate::tree::Value::Map(_) | crate::tree::Value::List(_) | crate::tree::Value::Null, Some(key)) => key,
            _ => node.span,
        })
    }

    /// A fault of the key that a JSON pointer leads to.
    pub fn key_fault(&self, pointer: &str, code: &'static str, message: impl Into<String>) -> Fault {
        self.fault_where(pointer, code, message, |node, key| key.unwrap_or(node.span))
    }

    /// A fault inside the text that a JSON pointer leads to.
    pub fn text_fault(&self, pointer: &str, fault: TextFault) -> Fault {
        let text = self.source().map(|source| source.text()).unwrap_or_default();
        let told = self.fault_where(pointer, fault.code, fault.message, |node, _| match node.text() {
            Some(decoded) => crate::inside::span(text, node.span, decoded, fault.offset, fault.len),
            None => node.span,
        });
        Fault { help: fault.help, ..told }
    }

    fn fault_where(
        &self,
        pointer: &str,
        code: &'static str,
        message: impl Into<String>,
        place: impl Fn(&Node<'_>, Option<Span>) -> Span,
    ) -> Fault {
        let fault = match &self.0 {
            Origin::Binary(prefix) => Fault::of_file(format!("{prefix}{pointer}"), code, message),
            Origin::Text { source, span, .. } => {
                let tree = self.tree();
                let span = tree.as_ref().map_or(*span, |tree| {
                    let found = tree.find(pointer);
                    place(found.node, found.key)
                });
                Fault::at(source, span, code, message)
            }
        };
        Fault { pointer: pointer.to_owned(), ..fault }
    }
}
