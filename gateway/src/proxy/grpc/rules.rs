//! `google.api.http` (google/api/http.proto): which request is a call of which method, and where its message comes from.
use std::sync::Arc;

use bytes::Bytes;
use contract::{Kind, Problem, scope::pairs};
use http::HeaderValue;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, MessageDescriptor, MethodDescriptor, Value};

use super::{
    method::{Codec, Described, HTTP_BODY, Method, from_json},
    template::Template,
    text,
};

/// All rules of a set of services, those that say more first.
pub struct Rules(Box<[Rule]>);

/// One rule.
struct Rule {
    /// `None` for any.
    method: Option<http::Method>,
    template: Template,
    /// The way to each field that the path gives.
    fields: Vec<Vec<FieldDescriptor>>,
    body: Takes,
    call: Arc<Method>,
    input: MessageDescriptor,
}

/// What the body of a request is.
enum Takes {
    Nothing,
    /// The message, but for what the path gives.
    Whole,
    Field(FieldDescriptor),
}

/// What of a request makes a message.
pub struct Given<'a> {
    pub method: &'a http::Method,
    /// Encoded, as it was received.
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub body: &'a [u8],
    pub media: Option<&'a HeaderValue>,
}

impl Rules {
    /// Every rule of every method. Errors: what is wrong with each rule that cannot be served.
    pub fn read(pool: &DescriptorPool) -> Result<Self, Vec<String>> {
        let (mut all, mut faults) = (Vec::new(), Vec::new());
        if let Some(extension) = pool.get_extension_by_name("google.api.http") {
            for method in pool.services().flat_map(|it| it.methods().collect::<Vec<_>>()) {
                let options = method.options();
                if !options.has_extension(&extension) {
                    continue;
                }
                if let Value::Message(it) = &*options.get_extension(&extension) {
                    let more = it.get_field_by_name("additional_bindings");
                    let more = more.as_deref().and_then(Value::as_list).into_iter().flatten().filter_map(Value::as_message);
                    for written in std::iter::once(it).chain(more) {
                        match Rule::read(&method, written) {
                            Ok(it) => all.push(it),
                            Err(why) => faults.push(format!("`{}`: {why}", method.full_name())),
                        }
                    }
                }
            }
        }
        if all.is_empty() && faults.is_empty() {
            faults.push("no method has the option `google.api.http`".to_owned());
        }
        all.sort_by(|a: &Rule, b: &Rule| a.template.precedence(&b.template));
        if faults.is_empty() { Ok(Self(all.into())) } else { Err(faults) }
    }

    /// Which methods are called, and by what; for whoever wants to show it.
    pub fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|it| (it.method.as_ref().map_or("any", |it| it.as_str()), &*it.call.path))
    }

    /// The method that a request calls, and its message, framed.
    pub fn message(&self, given: &Given<'_>) -> Result<(Arc<Method>, Bytes), Box<Problem>> {
        let mut others: Vec<&str> = Vec::new();
        for rule in &self.0 {
            let Some(values) = rule.template.values(given.path) else { continue };
            match &rule.method {
                Some(it) if it != given.method => others.push(it.as_str()),
                _ => {
                    let message = rule.message(given, &values)?;
                    return Ok((rule.call.clone(), Method::frame(&message)?));
                }
            }
        }
        if others.is_empty() {
            return Err(Problem::new(Kind::NotFound, "there is no such API"));
        }
        others.sort_unstable();
        others.dedup();
        let allow = HeaderValue::from_str(&others.join(", ")).unwrap_or(HeaderValue::from_static(""));
        Err(Problem::new(Kind::MethodNotAllowed, "the method is not allowed here").header(http::header::ALLOW, allow))
    }
}

impl Rule {
    fn read(method: &MethodDescriptor, written: &DynamicMessage) -> Result<Self, String> {
        let word = |name: &str| {
            let value = written.get_field_by_name(name)?;
            value.as_str().filter(|it| !it.is_empty()).map(str::to_owned)
        };
        let known = ["get", "put", "post", "delete", "patch"].into_iter().find_map(|name| Some((name.to_ascii_uppercase(), word(name)?)));
        let custom = || {
            let custom = written.get_field_by_name("custom")?;
            let custom = custom.as_message()?;
            let part = |name: &str| custom.get_field_by_name(name)?.as_str().map(str::to_owned);
            Some((part("kind")?, part("path").filter(|it| !it.is_empty())?))
        };
        let (verb, path) = known.or_else(custom).ok_or("a rule names no path")?;
        let verb = match verb.as_str() {
            "*" => None,
            it => Some(http::Method::from_bytes(it.as_bytes()).map_err(|_| format!("`{it}` is no method of HTTP"))?),
        };
        let template = Template::parse(&path).map_err(|why| format!("the path `{path}`: {why}"))?;
        let input = method.input();
        let mut fields = Vec::new();
        for name in template.fields() {
            let way = way(&input, name).ok_or_else(|| format!("`{}` has no field `{name}`", input.full_name()))?;
            if way.last().is_some_and(|it| it.is_list() || it.is_map() || !text::is_one(it)) {
                return Err(format!("the field `{name}` is no single value, which a path can be"));
            }
            fields.push(way);
        }
        let body = match word("body").as_deref() {
            None => Takes::Nothing,
            Some("*") => Takes::Whole,
            Some(name) => Takes::Field(
                input
                    .get_field_by_name(name)
                    .ok_or_else(|| format!("`{}` has no field `{name}`, which `body` names", input.full_name()))?,
            ),
        };
        let mut described = Described::new(method)?;
        if let Some(name) = word("response_body") {
            let output = method.output();
            let field = output.get_field_by_name(&name);
            described = described
                .answering(field.ok_or_else(|| format!("`{}` has no field `{name}`, which `response_body` names", output.full_name()))?);
        }
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name()).into();
        let call = Arc::new(Method { path, codec: Codec::Proto(Box::new(described)) });
        Ok(Self { method: verb, template, fields, body, call, input })
    }

    fn message(&self, given: &Given<'_>, values: &[std::borrow::Cow<'_, str>]) -> Result<DynamicMessage, Box<Problem>> {
        let mut message = match &self.body {
            Takes::Nothing => DynamicMessage::new(self.input.clone()),
            Takes::Whole => body(&self.input, given)?,
            Takes::Field(field) => {
                let mut message = DynamicMessage::new(self.input.clone());
                match field.kind() {
                    prost_reflect::Kind::Message(inner) if !field.is_list() && !field.is_map() => {
                        message.set_field(field, Value::Message(body(&inner, given)?));
                    }
                    _ if given.body.is_empty() => (),
                    // A list or a single value: read as the field of a document that has no other.
                    _ => {
                        let whole = [b"{\"", field.name().as_bytes(), b"\":", given.body, b"}"].concat();
                        message = from_json(&self.input, &whole)?;
                    }
                }
                message
            }
        };
        let by_path = |way: &[FieldDescriptor]| self.fields.iter().any(|it| it.as_slice() == way);
        // A body of the whole message leaves nothing for the query.
        if !matches!(self.body, Takes::Whole) {
            for (name, value) in pairs(given.query.unwrap_or_default().as_bytes()) {
                let of_body = |it: &[FieldDescriptor]| matches!((&self.body, it.first()), (Takes::Field(own), Some(first)) if own == first);
                let Some(way) = way(&self.input, &name).filter(|it| !of_body(it)) else {
                    return Err(Problem::new(Kind::Invalid, format!("there is no parameter `{name}`")).reason("grpc_message"));
                };
                // The path wins.
                if !by_path(&way) {
                    put(&mut message, &way, &name, &value)?;
                }
            }
        }
        for (way, (name, value)) in self.fields.iter().zip(self.template.fields().zip(values)) {
            put(&mut message, way, name, value)?;
        }
        Ok(message)
    }
}

/// The fields that a name such as `item.count` leads through.
fn way(message: &MessageDescriptor, name: &str) -> Option<Vec<FieldDescriptor>> {
    let mut here = Some(message.clone());
    let mut all = Vec::new();
    for part in name.split('.') {
        let message = here?;
        let field = message.get_field_by_name(part).or_else(|| message.get_field_by_json_name(part))?;
        here = match field.kind() {
            prost_reflect::Kind::Message(it) if !field.is_list() && !field.is_map() => Some(it),
            _ => None,
        };
        all.push(field);
    }
    Some(all)
}

fn put(message: &mut DynamicMessage, way: &[FieldDescriptor], name: &str, text: &str) -> Result<(), Box<Problem>> {
    let Some((last, before)) = way.split_last() else { return Ok(()) };
    let mut here = message;
    for field in before {
        here = match here.get_field_mut(field) {
            Value::Message(it) => it,
            _ => return Ok(()),
        };
    }
    let value = text::value(last, text)
        .map_err(|expected| Problem::new(Kind::Invalid, format!("the parameter `{name}` must be {expected}")).reason("grpc_message"))?;
    match (last.is_list(), here.get_field_mut(last)) {
        (true, Value::List(it)) => it.push(value),
        (_, it) => *it = value,
    }
    Ok(())
}

/// The body as a message: JSON, or any bytes where the message is one that holds them.
fn body(described: &MessageDescriptor, given: &Given<'_>) -> Result<DynamicMessage, Box<Problem>> {
    if described.full_name() == HTTP_BODY {
        let mut message = DynamicMessage::new(described.clone());
        let media = given.media.and_then(|it| it.to_str().ok()).unwrap_or("application/octet-stream");
        message.set_field_by_name("content_type", Value::String(media.to_owned()));
        message.set_field_by_name("data", Value::Bytes(Bytes::copy_from_slice(given.body)));
        return Ok(message);
    }
    let is_json =
        given.media.and_then(|it| it.to_str().ok()).is_none_or(|it| contract::scope::is_json(it.split(';').next().unwrap_or(it).trim()));
    match given.body {
        b"" => Ok(DynamicMessage::new(described.clone())),
        _ if !is_json => Err(Problem::new(Kind::UnsupportedMedia, "the body must be JSON")),
        text => from_json(described, text),
    }
}
