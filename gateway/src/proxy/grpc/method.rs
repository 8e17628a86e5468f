//! A method and its codec: JSON into a framed message, and a message into JSON (JSON mapping of proto3).
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use contract::{Kind, Problem};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions};

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
    streams: bool,
}

impl Described {
    /// Errors: the client would have to send a stream, which JSON over HTTP has no way to say.
    pub fn new(method: &MethodDescriptor) -> Result<Self, String> {
        match method.is_client_streaming() {
            true => Err(format!("`{}` takes a stream of messages, which one request cannot be", method.full_name())),
            false => Ok(Self { input: method.input(), output: method.output(), streams: method.is_server_streaming() }),
        }
    }

    pub fn input(&self) -> &MessageDescriptor {
        &self.input
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
        let mut out = BytesMut::with_capacity(json.len() + 5);
        out.put_bytes(0, 5);
        match &self.codec {
            Codec::Json => out.extend_from_slice(json),
            Codec::Proto(it) => {
                let misfit = |why: String| {
                    Problem::new(Kind::Invalid, format!("the request is no {}: {why}", it.input.name())).reason("grpc_message")
                };
                let mut reader = serde_json::Deserializer::from_slice(json);
                let options = DeserializeOptions::new().deny_unknown_fields(true);
                let message = DynamicMessage::deserialize_with_options(it.input.clone(), &mut reader, &options)
                    .and_then(|it| reader.end().map(|()| it))
                    .map_err(|error| misfit(plain(&error)))?;
                prost_reflect::prost::Message::encode(&message, &mut out).map_err(|error| misfit(error.to_string()))?;
            }
        }
        let length = u32::try_from(out.len() - 5).map_err(|_| Problem::new(Kind::TooLarge, "the message is too large"))?;
        out[1..5].copy_from_slice(&length.to_be_bytes());
        Ok(out.freeze())
    }

    /// A message of the backend as JSON.
    pub(super) fn decode(&self, message: Bytes) -> Result<Bytes, String> {
        match &self.codec {
            Codec::Json => Ok(message),
            Codec::Proto(it) => {
                let message = DynamicMessage::decode(it.output.clone(), message).map_err(|error| error.to_string())?;
                json_of(&message).map(Bytes::from)
            }
        }
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
