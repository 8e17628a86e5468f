//! Text with `${…}` in it, compiled for the place where the text goes.
//!
//! `${` ends at the first `}` outside CEL quotes and braces; `$${` is a literal `${`. Constant templates are encoded when they are compiled.

mod escape;
mod json;
mod octets;
mod scan;
mod target;

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use http::HeaderValue;

use super::{CompileError, EvalError, Expression, Names, Reads, Root, Scope, Value};
pub use json::{JsonTemplate, JsonTemplateFault};
use octets::Octets;
pub(crate) use octets::lone_surrogate;
use scan::Piece;
pub use target::{has_dot_segment, redirect_host};

/// Where a template's text goes, which decides how values in it are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// A path, perhaps with a query. `request.path` and `path.*` stand as they are, any other value is one encoded segment.
    /// Null is a fault of the call and so is an empty segment; behind a literal `?` null is empty.
    Path,
    /// The value of one query parameter, the author's own text encoded too.
    Query,
    /// The inside of a JSON string.
    JsonText,
    /// A header's value. CR, LF, NUL and other control characters refuse the request.
    Header,
    /// A cookie's value: cookie octets (RFC 6265), else percent-encoded.
    Cookie,
    /// The value of one field of an urlencoded form.
    Form,
    /// Anything else: values stand as they are.
    Plain,
    /// The target of a redirect; see [`Template::chooses_host`].
    RedirectTarget,
}

/// Text with `${…}`, ready to be rendered; shared by all threads.
#[derive(Debug)]
pub struct Template {
    source: Box<str>,
    context: Context,
    content: Content,
    reads: Reads,
    chooses_host: bool,
}

#[derive(Debug)]
enum Content {
    /// No expression: escaped already.
    Constant(Bytes),
    /// Exactly one `${…}`.
    Whole(Expression),
    /// Escaped text and expressions.
    Mixed(Box<[Part]>),
}

#[derive(Debug)]
enum Part {
    Text(Box<str>),
    Value(Expression, Style),
}

/// How a value within longer text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Raw,
    Segment,
    Encoded,
    Form,
    Cookie,
    Json,
}

/// Why a template cannot be rendered for this exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderError {
    /// An expression failed.
    Eval(EvalError),
    /// A value in a path is null.
    NullInPath,
    /// A segment of the path would be empty.
    EmptyInPath,
    /// The path would have a dot segment: 400.
    DotSegment,
    /// The path would have a NUL: 400.
    NulInPath,
    /// A header's value would hold CR, LF, NUL or another control character: 400.
    ControlInHeader,
    /// A redirect would lead to a place that its definition does not name.
    Redirect,
    /// What the client sent is no text, and the place takes nothing else: 400.
    NotText,
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eval(cause) => cause.fmt(f),
            Self::NullInPath => f.write_str("a value in the path is null"),
            Self::EmptyInPath => f.write_str("a segment of the path is empty"),
            Self::DotSegment => f.write_str("the path has a dot segment"),
            Self::NulInPath => f.write_str("a value in the path has a NUL"),
            Self::ControlInHeader => f.write_str("a header's value has a control character"),
            Self::Redirect => f.write_str("the redirect leads elsewhere than its definition says"),
            Self::NotText => f.write_str("a value is no text in UTF-8"),
        }
    }
}

impl std::error::Error for RenderError {}

impl From<EvalError> for RenderError {
    fn from(error: EvalError) -> Self {
        Self::Eval(error)
    }
}

impl Template {
    /// Compiles `text`, telling every fault at once. Offsets are bytes of `text`.
    pub fn compile(text: &str, names: &Names<'_>, context: Context) -> Result<Self, Vec<CompileError>> {
        let mut faults = Vec::new();
        let mut expressions = Vec::new();
        let pieces = scan::split(text).map_err(|fault| vec![fault])?;
        for piece in &pieces {
            if let Piece::Expression { source, start } = piece {
                match Expression::compile(source, names) {
                    Ok(expression) => expressions.push(expression),
                    Err(errors) => faults.extend(errors.into_iter().map(|error| error.shifted(*start))),
                }
            }
        }
        for piece in &pieces {
            if let Piece::Text { text, start } = piece {
                faults.extend(escape::check_literal(text, context).map(|fault| fault.shifted(*start)));
            }
        }
        if !faults.is_empty() {
            faults.sort_by_key(|fault| fault.offset);
            return Err(faults);
        }
        let reads = expressions.iter().fold(Reads::default(), |reads, expression| reads.and(expression.reads()));
        let chooses_host = context == Context::RedirectTarget && target::chooses_host(&pieces, &expressions);
        let content = content(pieces, expressions, context);
        if let (Content::Constant(path), Context::Path) = (&content, context)
            && has_dot_segment(path)
        {
            return Err(vec![CompileError::new(0, text.len(), "the path has a dot segment")]);
        }
        Ok(Self { source: text.into(), context, content, reads, chooses_host })
    }

    /// The template as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Which names it reads.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// The rendered text, if there is no expression in it.
    pub fn constant(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Constant(text) => Some(text),
            _ => None,
        }
    }

    /// The expression, if the template is exactly one `${…}`.
    pub fn whole(&self) -> Option<&Expression> {
        match &self.content {
            Content::Whole(expression) => Some(expression),
            _ => None,
        }
    }

    /// The expressions in it, in the order of the text.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let parts = match &self.content {
            Content::Mixed(parts) => parts.as_ref(),
            _ => &[],
        };
        let inner = parts.iter().filter_map(|part| match part {
            Part::Value(expression, _) => Some(expression),
            Part::Text(_) => None,
        });
        self.whole().into_iter().chain(inner)
    }

    /// True if a redirect's host (or its whole target) comes from an expression, so that the definition must have `allow_hosts`
    /// and the rendered target must be held against it with [`redirect_host`].
    pub fn chooses_host(&self) -> bool {
        self.chooses_host
    }

    /// The value: of exactly one `${…}` with its type and bytes, of anything longer the rendered text.
    pub fn value<'a>(&'a self, scope: &'a dyn Scope) -> Result<Value<'a>, RenderError> {
        match &self.content {
            Content::Constant(text) => Ok(Value::Str(String::from_utf8_lossy(text))),
            Content::Whole(expression) => Ok(expression.eval(scope)?),
            Content::Mixed(parts) => {
                let mut out = Vec::new();
                self.mixed(parts, scope, &mut out)?;
                Ok(Value::from(into_string(out)))
            }
        }
    }

    /// The text for keys and comparisons, of exactly one `${…}` without escaping (nothing for null); meant for [`Context::Plain`].
    pub fn text<'a>(&'a self, scope: &'a dyn Scope) -> Result<Option<Cow<'a, str>>, RenderError> {
        Ok(match self.value(scope)? {
            Value::Str(text) => Some(text),
            value => value.to_text().map(|text| Cow::Owned(text.into_owned())),
        })
    }

    /// The text, escaped for its place; nothing for exactly one `${…}` that is null (in a path that is an error).
    pub fn render(&self, scope: &dyn Scope) -> Result<Option<Bytes>, RenderError> {
        if let Content::Constant(text) = &self.content {
            return Ok(Some(text.clone()));
        }
        let mut out = Vec::new();
        Ok(self.render_into(scope, &mut out)?.then(|| out.into()))
    }

    /// Appends what [`Template::render`] gives; false for nothing. What was appended before an error is to be thrown away.
    pub fn render_into(&self, scope: &dyn Scope, out: &mut Vec<u8>) -> Result<bool, RenderError> {
        match &self.content {
            Content::Constant(text) => out.extend_from_slice(text),
            Content::Whole(expression) => return self.whole_into(&expression.eval(scope)?, expression, scope, out),
            Content::Mixed(parts) => self.mixed(parts, scope, out)?,
        }
        Ok(true)
    }

    /// Calls `each` with the text, escaped for its place; once for every item where exactly one `${…}` is a list; null is left out.
    /// For queries, forms and headers, where a list repeats the name.
    pub fn render_each(&self, scope: &dyn Scope, mut each: impl FnMut(&[u8])) -> Result<(), RenderError> {
        if let Content::Constant(text) = &self.content {
            each(text);
            return Ok(());
        }
        let mut out = Vec::new();
        if let Content::Whole(expression) = &self.content
            && let Some(items) = expression.eval(scope)?.items()
        {
            for item in items {
                out.clear();
                if self.whole_into(&item, expression, scope, &mut out)? {
                    each(&out);
                }
            }
            return Ok(());
        }
        if self.render_into(scope, &mut out)? {
            each(&out);
        }
        Ok(())
    }

    /// The text as a header's value; nothing for exactly one `${…}` that is null. A value that read a secret is marked sensitive.
    pub fn header(&self, scope: &dyn Scope) -> Result<Option<HeaderValue>, RenderError> {
        let Some(text) = self.render(scope)? else { return Ok(None) };
        let mut value = HeaderValue::from_maybe_shared(text).map_err(|_| RenderError::ControlInHeader)?;
        value.set_sensitive(self.reads.secret());
        Ok(Some(value))
    }

    /// A value as it may stand in JSON: half a surrogate pair in a document's own bytes passes, octets that are no text do not.
    fn json_value<'a>(&'a self, scope: &'a dyn Scope) -> Result<Value<'a>, RenderError> {
        let value = self.value(scope)?;
        let doubtful = match &value {
            Value::Str(text) => octets::doubtful(text),
            Value::List(_) | Value::Map(_) => value.to_text().is_some_and(|it| octets::doubtful(&it)),
            _ => false,
        };
        match self.whole() {
            Some(expression) if doubtful && !matches!(octets::of(&value, expression, scope), Octets::Text) => Err(RenderError::NotText),
            _ => Ok(value),
        }
    }

    /// Appends a value, or the octets that it stands for.
    fn push(
        &self,
        style: Style,
        text: &str,
        (value, expression, scope): (&Value<'_>, &Expression, &dyn Scope),
        out: &mut Vec<u8>,
    ) -> Result<(), RenderError> {
        if octets::doubtful(text) {
            match octets::of(value, expression, scope) {
                Octets::Text => (),
                Octets::Raw(octets) if style != Style::Json && self.context != Context::RedirectTarget => {
                    escape::push_octets(style, &octets, out);
                    return Ok(());
                }
                _ => return Err(RenderError::NotText),
            }
        }
        escape::push(style, text, out);
        Ok(())
    }

    fn whole_into(&self, value: &Value<'_>, expression: &Expression, scope: &dyn Scope, out: &mut Vec<u8>) -> Result<bool, RenderError> {
        let Some(text) = value.to_text() else {
            return if self.context == Context::Path { Err(RenderError::NullInPath) } else { Ok(false) };
        };
        let from = out.len();
        match self.context {
            Context::Path => {
                if text.is_empty() {
                    return Err(RenderError::EmptyInPath);
                }
                if text.contains('\0') {
                    return Err(RenderError::NulInPath);
                }
                self.push(style(self.context, expression), &text, (value, expression, scope), out)?;
            }
            // A whole target is a URL of its own; its host is the caller's to allow.
            Context::RedirectTarget => self.push(Style::Raw, &text, (value, expression, scope), out)?,
            context => self.push(style(context, expression), &text, (value, expression, scope), out)?,
        }
        self.finish(&out[from..])?;
        Ok(true)
    }

    fn mixed(&self, parts: &[Part], scope: &dyn Scope, out: &mut Vec<u8>) -> Result<(), RenderError> {
        let from = out.len();
        let mut empty = Vec::new();
        for part in parts {
            let (expression, style) = match part {
                Part::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                Part::Value(expression, style) => (expression, *style),
            };
            let value = expression.eval(scope)?;
            match value.to_text() {
                Some(text) if text.is_empty() => empty.push(out.len()),
                Some(text) if self.context == Context::Path && style != Style::Encoded && text.contains('\0') => {
                    return Err(RenderError::NulInPath);
                }
                Some(text) => {
                    let names_host = self.context == Context::RedirectTarget && target::ends_in_authority(&out[from..]);
                    if names_host && style == Style::Raw && !text.starts_with('/') {
                        return Err(RenderError::Redirect);
                    }
                    self.push(style, &text, (&value, expression, scope), out)?;
                }
                None if self.context == Context::Path && style != Style::Encoded => return Err(RenderError::NullInPath),
                None => {}
            }
        }
        if self.context == Context::Path {
            let query = memchr::memchr(b'?', &out[from..]).map_or(out.len(), |at| from + at);
            let hollow =
                |at: &usize| *at <= query && (*at == from || out[*at - 1] == b'/') && (*at == query || out.get(*at) == Some(&b'/'));
            if empty.iter().any(hollow) {
                return Err(RenderError::EmptyInPath);
            }
        }
        self.finish(&out[from..])
    }

    /// What can be seen only in the whole text.
    fn finish(&self, text: &[u8]) -> Result<(), RenderError> {
        match self.context {
            Context::Path if has_dot_segment(text) => Err(RenderError::DotSegment),
            Context::Header if text.iter().any(|byte| escape::is_control(*byte)) => Err(RenderError::ControlInHeader),
            Context::RedirectTarget if !self.chooses_host && (text.starts_with(b"//") && !self.source.starts_with("//")) => {
                Err(RenderError::Redirect)
            }
            Context::RedirectTarget if text.iter().any(|byte| matches!(byte, 0..=0x20 | 0x7f | b'\\')) => Err(RenderError::Redirect),
            _ => Ok(()),
        }
    }
}

fn content(pieces: Vec<Piece<'_>>, expressions: Vec<Expression>, context: Context) -> Content {
    let mut expressions = expressions.into_iter();
    if let [Piece::Expression { .. }] = pieces.as_slice()
        && let Some(expression) = expressions.next()
    {
        return Content::Whole(expression);
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut in_query = false;
    for piece in pieces {
        match piece {
            Piece::Text { text, .. } => {
                in_query |= text.contains('?');
                let mut escaped = Vec::new();
                escape::push_literal(context, &text, &mut escaped);
                parts.push(Part::Text(into_string(escaped).into()));
            }
            Piece::Expression { .. } => {
                let Some(expression) = expressions.next() else { continue };
                let style = match context {
                    Context::Path | Context::RedirectTarget if in_query => Style::Encoded,
                    context => style(context, &expression),
                };
                parts.push(Part::Value(expression, style));
            }
        }
    }
    if parts.iter().all(|part| matches!(part, Part::Text(_))) {
        let text: String = parts.iter().map(|part| if let Part::Text(text) = part { text.as_ref() } else { "" }).collect();
        return Content::Constant(text.into());
    }
    Content::Mixed(parts.into())
}

fn style(context: Context, expression: &Expression) -> Style {
    match context {
        Context::Path | Context::RedirectTarget => match expression.root_field() {
            Some((Root::Request, "path") | (Root::Path, _)) => Style::Raw,
            _ => Style::Segment,
        },
        Context::Query => Style::Encoded,
        Context::Form => Style::Form,
        Context::Cookie => Style::Cookie,
        Context::JsonText => Style::Json,
        Context::Header | Context::Plain => Style::Raw,
    }
}

/// Only whole characters are ever appended, so nothing is lost.
fn into_string(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
