//! The faults of one document on its way to a route, each at its place.
use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
};

use contract::{
    catalog,
    expression::{CompileError, Context, Expression, JsonTemplate, Names, Reads, Template},
};
use http::{HeaderName, HeaderValue};
use schemas::{Document, Fault, TextFault, units, v1};

use super::origin::Origin;

/// Collects the faults of one document.
pub struct Told<'a> {
    pub document: &'a Document,
    /// What the templates and conditions compiled so far read.
    pub reads: Cell<Reads>,
    faults: RefCell<Vec<Fault>>,
    /// Names of others that it uses; see [`super::Kept`].
    used: RefCell<HashSet<Box<str>>>,
}

impl<'a> Told<'a> {
    pub fn new(document: &'a Document) -> Self {
        Self { document, reads: Cell::default(), faults: RefCell::default(), used: RefCell::default() }
    }

    pub fn into_faults(self) -> Vec<Fault> {
        self.faults.into_inner()
    }

    /// The faults, and the names that were used.
    pub fn into_all(self) -> (Vec<Fault>, HashSet<Box<str>>) {
        (self.faults.into_inner(), self.used.into_inner())
    }

    /// Notes that an upstream is used, by its name.
    pub fn used(&self, upstream: &str) {
        self.used.borrow_mut().insert(upstream.into());
    }

    pub fn used_preset(&self, name: &str) {
        self.used.borrow_mut().insert(format!("preset:{name}").into());
    }

    /// Notes that the upstream of a URL is used.
    pub fn used_url(&self, origin: &Origin) {
        self.used.borrow_mut().insert(format!("url:{origin}").into());
    }

    pub fn has_errors(&self) -> bool {
        self.faults.borrow().iter().any(Fault::is_error)
    }

    pub fn push(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
    }

    pub fn error(&self, pointer: &str, code: &'static str, message: impl Into<String>) {
        self.push(self.document.places.fault(pointer, code, message));
    }

    pub fn error_help(&self, pointer: &str, code: &'static str, message: impl Into<String>, help: impl Into<String>) {
        self.push(self.document.places.fault(pointer, code, message).help(help));
    }

    pub fn warning(&self, pointer: &str, code: &'static str, message: impl Into<String>, help: impl Into<String>) {
        self.push(self.document.places.fault(pointer, code, message).help(help).warning());
    }

    /// The format knows it; this build does not have it.
    pub fn not_built(&self, pointer: &str, what: &str) {
        let fault = self.document.places.key_fault(pointer, "not-built", format!("{what} is known, but not built into this gateway"));
        self.push(fault.help("it is part of the format; take it out until a version of the gateway has it"));
    }

    pub fn expressions(&self, pointer: &str, errors: Vec<CompileError>) {
        for it in errors {
            self.push(self.document.places.text_fault(pointer, text_fault(it)));
        }
    }

    pub fn template(&self, pointer: &str, text: &str, names: &Names<'_>, context: Context) -> Option<Template> {
        let it = Template::compile(text, names, context).map_err(|it| self.expressions(pointer, it)).ok()?;
        self.reads.set(self.reads.get().and(it.reads()));
        Some(it)
    }

    pub fn condition(&self, pointer: &str, text: &str, names: &Names<'_>) -> Option<Expression> {
        Expression::condition(text, names).map_err(|it| self.expressions(pointer, it)).ok()
    }

    /// JSON whose strings may hold `${…}`.
    pub fn json(&self, pointer: &str, json: &v1::Json, names: &Names<'_>) -> Option<JsonTemplate> {
        match JsonTemplate::parse(json.text.clone(), names) {
            Ok(Ok(it)) => {
                self.reads.set(self.reads.get().and(it.reads()));
                Some(it)
            }
            Ok(Err(faults)) => {
                faults.into_iter().for_each(|it| self.expressions(&format!("{pointer}{}", it.pointer), vec![it.error]));
                None
            }
            Err(it) => {
                self.error(pointer, "bad-json", it.to_string());
                None
            }
        }
    }

    pub fn duration(&self, pointer: &str, text: Option<&str>) -> Option<std::time::Duration> {
        let text = text?;
        match text.parse::<units::Duration>() {
            Ok(it) => Some(it.get()),
            Err(it) => {
                self.error(pointer, "bad-unit", it.message);
                None
            }
        }
    }

    pub fn size(&self, pointer: &str, text: Option<&str>) -> Option<u64> {
        let text = text?;
        match text.parse::<units::Size>() {
            Ok(it) => Some(it.get()),
            Err(it) => {
                self.error(pointer, "bad-unit", it.message);
                None
            }
        }
    }

    /// A header's name that an author may set.
    pub fn header(&self, pointer: &str, text: &str) -> Option<HeaderName> {
        const FRAMING: &[&str] =
            &["connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];
        match HeaderName::from_bytes(text.as_bytes()) {
            Ok(it) if FRAMING.contains(&it.as_str()) => {
                let help = if it == http::header::HOST { "use `host` of `proxy.http`" } else { "the gateway frames messages itself" };
                self.error_help(pointer, "bad-header", format!("'{it}' cannot be set"), help);
                None
            }
            Ok(it) => Some(it),
            Err(_) => {
                self.error_help(pointer, "bad-header", format!("'{text}' is no header name"), "letters, digits and hyphens");
                None
            }
        }
    }

    pub fn header_value(&self, pointer: &str, text: &str) -> Option<HeaderValue> {
        HeaderValue::from_str(text).map_err(|_| self.error(pointer, "bad-header", "a header's value has no control characters")).ok()
    }

    /// Named templates that go into headers.
    pub fn headers(&self, pointer: &str, list: &[v1::NamedTemplate], names: &Names<'_>) -> Vec<(HeaderName, Template)> {
        let one = |it: &v1::NamedTemplate| {
            let pointer = format!("{pointer}/{}", schemas::tree::escape(&it.name));
            self.header(&pointer, &it.name).zip(self.template(&pointer, &it.value, names, Context::Header))
        };
        list.iter().filter_map(one).collect()
    }

    /// A plugin's own fault, below `pointer`.
    pub fn plugin(&self, pointer: &str, it: &catalog::Fault, warning: bool) {
        let at = format!("{pointer}{}", it.pointer);
        let mut fault = match it.within {
            Some((offset, len)) => self
                .document
                .places
                .text_fault(&at, TextFault { offset, len, code: "bad-expression", message: it.message.clone(), help: None }),
            None => self.document.places.fault(&at, "bad-config", it.message.clone()),
        };
        if let Some(help) = &it.help {
            fault = fault.help(help.clone());
        }
        self.push(if warning { fault.warning() } else { fault });
    }
}

/// An expression's fault, as files tell it.
pub fn text_fault(it: CompileError) -> TextFault {
    TextFault { offset: it.offset, len: it.len, code: "bad-expression", message: it.message, help: it.help }
}
