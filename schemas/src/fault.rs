//! A fault as it is told: where, what, how bad, what to do.

use std::{borrow::Cow, sync::Arc};

use crate::{
    check::{Finding, Severity},
    source::{Excerpt, Position, Source, Span},
};

/// What is wrong with a definition, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The file as it was named; of a binary file with the place inside: `f.binpb#Api/customer-overview/proxy/timeout`.
    pub file: Arc<str>,
    /// The line, from 1; 0 where the file has no lines or cannot be read at all.
    pub line: u32,
    /// The column in characters, from 1; 0 where there is no line.
    pub column: u32,
    /// One past the last character.
    pub end: Position,
    /// A stable kebab-case code.
    pub code: Cow<'static, str>,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The way to the value inside its document, as a JSON pointer; empty for the document itself.
    pub pointer: String,
    /// The part of the line that is shown.
    pub excerpt: Option<Excerpt>,
}

impl Fault {
    /// A fault of a whole file.
    pub fn of_file(file: impl Into<Arc<str>>, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: 0,
            column: 0,
            end: Position::default(),
            code: Cow::Borrowed(code),
            severity: Severity::Error,
            message: message.into(),
            help: None,
            pointer: String::new(),
            excerpt: None,
        }
    }

    /// A fault of some bytes of a text.
    pub fn at(source: &Source, span: Span, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let start = source.position(span.start as usize);
        Self {
            file: source.name().clone(),
            line: start.line,
            column: start.column,
            end: source.position(span.end as usize),
            code: code.into(),
            severity: Severity::Error,
            message: message.into(),
            help: None,
            pointer: String::new(),
            excerpt: Some(source.excerpt(span.start as usize)),
        }
    }

    /// The same with what to do.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same as a warning.
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// Whether the document cannot be used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    pub(crate) fn found(source: &Source, finding: Finding) -> Self {
        Self {
            severity: finding.severity,
            help: finding.help,
            pointer: finding.pointer,
            ..Self::at(source, finding.span, finding.code, finding.message)
        }
    }

    pub(crate) fn found_in_binary(prefix: &str, finding: Finding) -> Self {
        let file = format!("{prefix}{}", finding.pointer);
        Self {
            severity: finding.severity,
            help: finding.help,
            pointer: finding.pointer,
            ..Self::of_file(file, finding.code, finding.message)
        }
    }
}
