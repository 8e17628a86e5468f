//! Where a value was written: a line of the file, or a variable of the environment.
use schemas::{Fault, Finding, Source, Span, tree::Node};

use super::{fault::Found, overrides::Overrides};

/// The tree as it was written and overridden, for telling faults.
pub struct Placed<'a> {
    pub source: &'a Source,
    pub root: Node<'a>,
    pub overrides: Overrides,
}

impl Placed<'_> {
    /// Variables that lead nowhere.
    pub fn told_by_overrides(&self) -> Vec<Fault> {
        let wrong = self.overrides.wrong.iter();
        wrong
            .map(|(name, message)| Fault::of_file(name.as_str(), "bad-variable", format!("this variable changes nothing: {message}")))
            .collect()
    }

    /// A fault of our own checks.
    pub fn fault(&self, it: Found) -> Fault {
        let found = self.root.find(&it.pointer);
        // A key that is not built is shown by its name, a value by itself.
        let span = match found.key {
            Some(key) if it.code == "not-built" => key,
            // Nothing of it was written, so that no line is its place.
            _ if !found.whole && std::ptr::eq(found.node, &self.root) => Span::default(),
            _ => found.node.span,
        };
        self.told(span, it.pointer, it.code, it.warning, it.message, it.help)
    }

    /// A fault of the schema.
    pub fn finding(&self, it: Finding) -> Fault {
        self.told(it.span, it.pointer, it.code, it.severity == schemas::Severity::Warning, it.message, it.help)
    }

    fn told(&self, span: Span, pointer: String, code: &'static str, warning: bool, message: String, help: Option<String>) -> Fault {
        let mut fault = match self.overrides.maker(&pointer) {
            Some(variable) => Fault::of_file(variable, code, message),
            // Nothing was written here: a default does not fit with the rest. The whole file is the place.
            None if span == Span::default() => Fault::of_file(self.source.name().clone(), code, message),
            None => Fault::at(self.source, span, code, message),
        };
        if let Some(help) = help {
            fault = fault.help(help);
        }
        if warning {
            fault = fault.warning();
        }
        Fault { pointer, ..fault }
    }
}
