//! Expressions: CEL compiled when a definition is loaded, evaluated against what an exchange offers.
//!
//! The grammar is CEL's, without messages. Four things differ, so that conditions over absent things need no guards:
//! - An absent key, an index out of range, and anything of null is null. `==`, `!=`, `in`, `!`, `&&`, `||` and `?:` are defined on null
//!   (`null == null` is true, `1 != null` is true, `x in null` is false; as a condition null is false); every other operator and function gives null.
//! - A member of a value that has none (`'text'.name`) is null too: what shape a body has is the client's choice.
//! - Signed, unsigned and double mix in arithmetic: how a document spells a number must not decide whether a sum is an error.
//! - Work is bounded: an expression that goes on for too long, or makes too much, is an error.
//!
//! An error of evaluation is an [`EvalError`]. As a condition it does not pass; whoever asked decides how it is told.

mod evaluate;
mod functions;
mod iterate;
mod names;
mod node;
mod number;
mod render;
mod resolve;
mod scope;
mod syntax;
mod template;

mod token;
mod value;

use std::fmt;

pub use names::{Names, Place, Reads, Root, is_reserved};
pub use number::Number;
pub use scope::{MapScope, Scope};

pub(crate) use template::lone_surrogate;
pub use template::{Context, JsonTemplate, JsonTemplateFault, RenderError, Template, has_dot_segment, redirect_host};
pub use value::{Json, Value};

use node::{Node, Op};

/// An expression, ready to be evaluated; shared by all threads.
#[derive(Debug)]
pub struct Expression {
    source: Box<str>,
    node: Node,
    reads: Reads,
    tasks: Box<[u16]>,
    secrets: Box<[Box<str>]>,
}

impl Expression {
    /// Compiles an expression, telling every fault at once. Offsets are bytes of `source`.
    pub fn compile(source: &str, names: &Names<'_>) -> Result<Self, Vec<CompileError>> {
        Self::build(source, names, false)
    }

    /// Compiles a condition: an expression that is not surely something else than true, false or null.
    pub fn condition(source: &str, names: &Names<'_>) -> Result<Self, Vec<CompileError>> {
        Self::build(source, names, true)
    }

    fn build(source: &str, names: &Names<'_>, condition: bool) -> Result<Self, Vec<CompileError>> {
        let ast = syntax::parse(source).map_err(|fault| vec![fault])?;
        let resolved = resolve::resolve(&ast, names, condition)?;
        Ok(Self {
            source: source.into(),
            node: resolved.node,
            reads: resolved.reads,
            tasks: resolved.tasks.into(),
            secrets: resolved.secrets.into(),
        })
    }

    /// The expression as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Which names it reads.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Which tasks it reads, by their numbers in [`Names::tasks`].
    pub fn tasks(&self) -> &[u16] {
        &self.tasks
    }

    /// Which secrets it reads.
    pub fn secrets(&self) -> &[Box<str>] {
        &self.secrets
    }

    /// The value, if it is a constant.
    pub fn constant(&self) -> Option<&Value<'static>> {
        match &self.node.op {
            Op::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// True if it is only a path, such as `body.order.id`: what it finds keeps its very bytes.
    pub fn is_path(&self) -> bool {
        matches!(self.node.op, Op::Root(_) | Op::Field(..) | Op::Path(..))
    }

    /// The name of the root and of the field, if it is exactly those two: `path.id`.
    fn root_field(&self) -> Option<(Root, &str)> {
        match &self.node.op {
            Op::Field(root, name) => Some((*root, name)),
            _ => None,
        }
    }

    /// Evaluates. Never waits: what it reads must be there ([`Expression::reads`]).
    pub fn eval<'a>(&'a self, scope: &'a dyn Scope) -> Result<Value<'a>, EvalError> {
        evaluate::evaluate(&self.node, scope)
    }

    /// Evaluates a condition: it passes only on true.
    pub fn passes(&self, scope: &dyn Scope) -> Result<bool, EvalError> {
        Ok(self.eval(scope)?.is_true())
    }
}

/// A fault in an expression, where it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// Byte of the source where the fault begins, from zero.
    pub offset: usize,
    /// Bytes that it spans; zero at the end of the source.
    pub len: usize,
    /// What is wrong.
    pub message: String,
    /// What may have been meant.
    pub help: Option<String>,
}

impl CompileError {
    pub(crate) fn new(offset: usize, len: usize, message: impl Into<String>) -> Self {
        Self { offset, len, message: message.into(), help: None }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    fn shifted(self, by: usize) -> Self {
        Self { offset: self.offset + by, ..self }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

impl std::error::Error for CompileError {}

/// Why an expression has no value. Tells kinds, never what a request held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError {
    /// What went wrong.
    pub kind: EvalErrorKind,
    /// Byte of the source where the part that failed begins.
    pub offset: u32,
    /// Bytes that it spans.
    pub len: u32,
    detail: Option<Box<str>>,
}

/// What went wrong in an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// An operator or function met a kind that it does not take.
    Type,
    /// An integer left its 64 bits.
    Overflow,
    /// An integer was divided by zero.
    DivisionByZero,
    /// Text could not be read as what it should become.
    Conversion,
    /// A map was written with a key twice.
    RepeatedKey,
    /// The work was more than an expression may do.
    Budget,
    /// A text became longer than an expression may make.
    TooLong,
}

impl EvalError {
    pub(crate) fn new(kind: EvalErrorKind, detail: Option<String>) -> Self {
        Self { kind, offset: 0, len: 0, detail: detail.map(Into::into) }
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(detail) = &self.detail {
            return f.write_str(detail);
        }
        f.write_str(match self.kind {
            EvalErrorKind::Type => "an operator met a kind of value that it does not take",
            EvalErrorKind::Overflow => "an integer left its 64 bits",
            EvalErrorKind::DivisionByZero => "an integer was divided by zero",
            EvalErrorKind::Conversion => "a text could not be converted",
            EvalErrorKind::RepeatedKey => "a map has a key twice",
            EvalErrorKind::Budget => "the expression takes too much work",
            EvalErrorKind::TooLong => "a text became too long",
        })
    }
}

impl std::error::Error for EvalError {}

/// The known name that `name` is most likely a slip of.
fn closest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let lower = name.to_ascii_lowercase();
    known
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(name.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
