//! A method and its codec: JSON into a framed message, and a message into JSON (JSON mapping of proto3).
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use contract::{Kind, Problem, json::JsonView};
use http::HeaderValue;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, FieldDescriptor, MessageDescriptor, MethodDescriptor, ReflectMessage,
    SerializeOptions, prost::Message as _,
};

/// A message that is a body of any kind, with its media type.
pub(super) const HTTP_BODY: &str = "google.api.HttpBody";

/// One method of a service, as a definition names it.
pub struct Method {
    /// `/crm.v1.Profile/Get`.
    pub path: Box<str>,
    pub codec: Codec,
}

/// What stands inside a message. A closed set.
pub enum Codec {
    /// The backend reads and writes JSON itself.
    Json,
    /// The binary form, by the method's description.
    Proto(Box<Described>),
}

/// What a message must be.
pub struct Described {
    input: MessageDescriptor,
    output: MessageDescriptor,
    /// The field that is the whole answer, where a rule says so.
    answer: Option<FieldDescriptor>,
    streams: bool,
}

impl Described {
    /// Errors: the client would have to send a stream, which JSON over HTTP has no way to say.
    pub fn new(method: &MethodDescriptor) -> Result<Self, String> {
        match method.is_client_streaming() {
            true => Err(format!("`{}` takes a stream of messages, which one request cannot be", method.full_name())),
            false => Ok(Self { input: method.input(), output: method.output(), answer: None, streams: method.is_server_streaming() }),
        }
    }

    /// Only this field of the answer is told.
    pub fn answering(self, field: FieldDescriptor) -> Self {
        Self { answer: Some(field), ..self }
    }
}

/// How an answer of several messages is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Several {
    /// A line each: `application/x-ndjson`.
    Lines,
    /// An event each (WHATWG HTML, server-sent events).
    Events,
}

/// A method, and what the client wants of its answer.
#[derive(Clone)]
pub struct Ask {
    pub method: Arc<Method>,
    /// As the client asks for it; where it does not say, one message is one document.
    pub several: Option<Several>,
}

impl Method {
    /// A message of this method with its prefix. Errors are the client's: the document is not such a message.
    pub fn encode(&self, json: &[u8]) -> Result<Bytes, Box<Problem>> {
        match &self.codec {
            Codec::Json => {
                let mut out = BytesMut::with_capacity(json.len() + 5);
                out.put_bytes(0, 5);
                out.extend_from_slice(json);
                framed(out)
            }
            Codec::Proto(it) => Self::frame(&from_json(&it.input, json)?),
        }
    }

    /// A message in its binary form, with its prefix.
    pub fn frame(message: &DynamicMessage) -> Result<Bytes, Box<Problem>> {
        let mut out = BytesMut::with_capacity(message.encoded_len() + 5);
        out.put_bytes(0, 5);
        message.encode(&mut out).map_err(|error| Problem::new(Kind::Internal, "the message could not be written").because(error))?;
        framed(out)
    }

    /// A message of the backend as JSON; of one that holds a body of any kind, that body and its media type.
    pub(super) fn decode(&self, message: Bytes) -> Result<(Bytes, Option<HeaderValue>), String> {
        let Codec::Proto(it) = &self.codec else { return Ok((message, None)) };
        let message = DynamicMessage::decode(it.output.clone(), message).map_err(|error| error.to_string())?;
        if let Some((body, media)) = bytes_of(&message) {
            return Ok((body, Some(media)));
        }
        let Some(field) = &it.answer else { return Ok((json_of(&message)?.into(), None)) };
        if let Some((body, media)) = message.get_field(field).as_message().and_then(bytes_of) {
            return Ok((body, Some(media)));
        }
        let whole = JsonView::parse(json_of(&message)?).map_err(|error| error.to_string())?;
        Ok((whole.root().get(field.json_name()).map_or(Bytes::from_static(b"null"), |it| it.raw_bytes()), None))
    }

    pub(super) fn streams(&self) -> bool {
        matches!(&self.codec, Codec::Proto(it) if it.streams)
    }

    pub(super) fn pool(&self) -> Option<&DescriptorPool> {
        match &self.codec {
            Codec::Json => None,
            Codec::Proto(it) => Some(it.output.parent_pool()),
        }
    }
}

/// The length in front of a message; `out` begins with the five bytes that are to hold it.
fn framed(mut out: BytesMut) -> Result<Bytes, Box<Problem>> {
    let length = u32::try_from(out.len().saturating_sub(5)).map_err(|_| Problem::new(Kind::TooLarge, "the message is too large"))?;
    out[1..5].copy_from_slice(&length.to_be_bytes());
    Ok(out.freeze())
}

/// A document as a message. Errors are the client's.
pub(super) fn from_json(described: &MessageDescriptor, json: &[u8]) -> Result<DynamicMessage, Box<Problem>> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(described.clone(), &mut reader, &options).and_then(|it| reader.end().map(|()| it)).map_err(
        |error| Problem::new(Kind::Invalid, format!("the request is no {}: {}", described.name(), plain(&error))).reason("grpc_message"),
    )
}

/// Proto3's JSON: names in camelCase, 64-bit integers as texts, every field that has no presence of its own.
pub(super) fn json_of(message: &DynamicMessage) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(256);
    let options = SerializeOptions::new().skip_default_fields(false);
    let mut writer = serde_json::Serializer::new(&mut out);
    message.serialize_with_options(&mut writer, &options).map_err(|error| error.to_string())?;
    Ok(out)
}

/// What is wrong, without the place in a text that the client may never have written.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
}

/// A message that holds a body of any kind: its bytes and its media type.
fn bytes_of(message: &DynamicMessage) -> Option<(Bytes, HeaderValue)> {
    if message.descriptor().full_name() != HTTP_BODY {
        return None;
    }
    let media = message.get_field_by_name("content_type")?;
    let data = message.get_field_by_name("data")?;
    let media = media.as_str().filter(|it| !it.is_empty()).and_then(|it| HeaderValue::from_str(it).ok());
    Some((data.as_bytes()?.clone(), media.unwrap_or(HeaderValue::from_static("application/octet-stream"))))
}
