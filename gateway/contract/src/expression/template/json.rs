//! JSON with `${…}` in its strings, compiled to what writes the text.

use bytes::Bytes;

use super::{Content, Context, RenderError, Template};
use crate::{
    expression::{CompileError, Expression, Names, Reads, Scope},
    json::{JsonError, JsonRef, JsonView, Kind},
};

/// A JSON document whose strings may hold `${…}`; a string that is exactly one `${…}` becomes its value, with its very bytes.
#[derive(Debug)]
pub struct JsonTemplate {
    parts: Box<[Part]>,
    reads: Reads,
    /// Bytes of the constant parts.
    size: usize,
}

#[derive(Debug)]
enum Part {
    Text(Bytes),
    /// A string that is exactly one `${…}`.
    Value(Template),
    /// A string with `${…}` within; the quotes are in the text around.
    Within(Template),
}

/// A fault in one string of a JSON template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonTemplateFault {
    /// JSON pointer to the string.
    pub pointer: String,
    /// The fault; its offset counts bytes of the string's decoded text.
    pub error: CompileError,
}

impl JsonTemplate {
    /// Compiles JSON text. Errors: the text is no JSON.
    pub fn parse(text: impl Into<Bytes>, names: &Names<'_>) -> Result<Result<Self, Vec<JsonTemplateFault>>, JsonError> {
        Ok(Self::compile(JsonView::parse(text)?.root(), names))
    }

    /// Compiles a value as `serde_json` holds it.
    pub fn of(value: &serde_json::Value, names: &Names<'_>) -> Result<Self, Vec<JsonTemplateFault>> {
        match JsonView::parse(value.to_string()) {
            Ok(view) => Self::compile(view.root(), names),
            Err(error) => Err(vec![JsonTemplateFault { pointer: String::new(), error: CompileError::new(0, 0, error.to_string()) }]),
        }
    }

    /// Compiles a value of a document, telling every fault at once.
    pub fn compile(json: JsonRef<'_>, names: &Names<'_>) -> Result<Self, Vec<JsonTemplateFault>> {
        let mut compiler = Compiler { names, text: Vec::new(), parts: Vec::new(), faults: Vec::new(), pointer: String::new() };
        compiler.value(json);
        compiler.flush();
        if !compiler.faults.is_empty() {
            return Err(compiler.faults);
        }
        let expressions = || compiler.parts.iter().filter_map(Part::template);
        let reads = expressions().fold(Reads::default(), |reads, template| reads.and(template.reads()));
        let size = compiler.parts.iter().map(|part| if let Part::Text(text) = part { text.len() } else { 0 }).sum();
        Ok(Self { parts: compiler.parts.into(), reads, size })
    }

    /// Which names it reads.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// The rendered document, if there is no expression in it.
    pub fn constant(&self) -> Option<&Bytes> {
        match self.parts.as_ref() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The expressions in it.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(Part::template).flat_map(Template::expressions)
    }

    /// The document. Null is `null`, within longer text empty. One that is a single `${…}` over a document shares its bytes.
    pub fn render(&self, scope: &dyn Scope) -> Result<Bytes, RenderError> {
        match self.parts.as_ref() {
            [Part::Text(text)] => return Ok(text.clone()),
            [Part::Value(template)] => return Ok(template.json_value(scope)?.to_json()),
            _ => {}
        }
        let mut out = Vec::with_capacity(self.size + 64 * self.parts.len());
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Value(template) => template.json_value(scope)?.push_json(&mut out),
                Part::Within(template) => drop(template.render_into(scope, &mut out)?),
            }
        }
        Ok(out.into())
    }
}

impl Part {
    fn template(&self) -> Option<&Template> {
        match self {
            Self::Text(_) => None,
            Self::Value(template) | Self::Within(template) => Some(template),
        }
    }
}

struct Compiler<'n> {
    names: &'n Names<'n>,
    /// Constant text since the last expression.
    text: Vec<u8>,
    parts: Vec<Part>,
    faults: Vec<JsonTemplateFault>,
    pointer: String,
}

impl Compiler<'_> {
    fn value(&mut self, json: JsonRef<'_>) {
        match json.kind() {
            Kind::Object => {
                self.text.push(b'{');
                for (number, (key, value)) in json.members().enumerate() {
                    if number > 0 {
                        self.text.push(b',');
                    }
                    let name = key.as_str().unwrap_or_default();
                    self.text.extend_from_slice(key.raw());
                    self.text.push(b':');
                    self.within(&name.replace('~', "~0").replace('/', "~1"), |compiler| {
                        if let Some(at) = name.find("${") {
                            compiler.fault(CompileError::new(at, 2, "a key takes no expression"));
                        }
                        compiler.value(value);
                    });
                }
                self.text.push(b'}');
            }
            Kind::Array => {
                self.text.push(b'[');
                for (number, item) in json.items().enumerate() {
                    if number > 0 {
                        self.text.push(b',');
                    }
                    self.within(&number.to_string(), |compiler| compiler.value(item));
                }
                self.text.push(b']');
            }
            Kind::String => self.string(json),
            _ => self.text.extend_from_slice(json.raw()),
        }
    }

    fn string(&mut self, json: JsonRef<'_>) {
        let text = json.as_str().unwrap_or_default();
        if !text.contains("${") {
            self.text.extend_from_slice(json.raw());
            return;
        }
        match Template::compile(&text, self.names, Context::JsonText) {
            Err(faults) => faults.into_iter().for_each(|fault| self.fault(fault)),
            Ok(template) => match &template.content {
                Content::Constant(text) => {
                    self.text.push(b'"');
                    self.text.extend_from_slice(text);
                    self.text.push(b'"');
                }
                Content::Whole(_) => {
                    self.flush();
                    self.parts.push(Part::Value(template));
                }
                Content::Mixed(_) => {
                    self.text.push(b'"');
                    self.flush();
                    self.parts.push(Part::Within(template));
                    self.text.push(b'"');
                }
            },
        }
    }

    fn within(&mut self, step: &str, work: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(step);
        work(self);
        self.pointer.truncate(length);
    }

    fn fault(&mut self, error: CompileError) {
        self.faults.push(JsonTemplateFault { pointer: self.pointer.clone(), error });
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(Part::Text(std::mem::take(&mut self.text).into()));
        }
    }
}
