//! Frames of tRPC: a fixed head of sixteen bytes, a protobuf head, the body, and what is attached
//! (trpc-group/trpc: docs, trpc.proto; the recorded frames in the tests).
use std::{fmt, io::Read};

use bytes::{BufMut, Bytes, BytesMut};

const MAGIC: u16 = 0x0930;
const FIXED: usize = 16;
/// The largest frame that is taken, as servers take it.
pub const MAX_FRAME: usize = 10 << 20;

/// `content_type`: JSON.
pub const JSON: u32 = 2;

/// A call, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call<'a> {
    pub request_id: u32,
    /// 1: nobody answers.
    pub call_type: u32,
    /// What is left of the whole call, in milliseconds; 0 for no limit.
    pub timeout_ms: u32,
    pub caller: &'a str,
    pub callee: &'a str,
    pub func: &'a str,
    pub message_type: u32,
    /// What goes beside the message; names are texts, values are bytes.
    pub trans_info: Vec<(&'a str, &'a [u8])>,
    pub content_type: u32,
    pub content_encoding: u32,
    pub attachment: &'a [u8],
    pub body: &'a [u8],
}

/// An answer, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub request_id: u32,
    /// What the framework says; 0 is good.
    pub ret: i32,
    /// What the service says; 0 is good.
    pub func_ret: i32,
    pub error_msg: Bytes,
    pub trans_info: Vec<(String, Bytes)>,
    pub content_type: u32,
    pub content_encoding: u32,
    pub body: Bytes,
    pub attachment: Bytes,
}

/// What breaks a connection, or only one answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed tRPC frame: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl Call<'_> {
    /// Appends the frame. Errors: the head or the whole is larger than the protocol can say.
    pub fn write(&self, out: &mut BytesMut) -> Result<(), Malformed> {
        let mut head = Vec::with_capacity(96 + self.caller.len() + self.callee.len() + self.func.len());
        let whole = |head: &mut Vec<u8>, number: u32, value: u32| {
            if value != 0 {
                put_varint(head, u64::from(number << 3));
                put_varint(head, u64::from(value));
            }
        };
        let bytes = |head: &mut Vec<u8>, number: u32, value: &[u8]| {
            if !value.is_empty() {
                put_varint(head, u64::from(number << 3 | 2));
                put_varint(head, value.len() as u64);
                head.extend_from_slice(value);
            }
        };
        whole(&mut head, 2, self.call_type);
        whole(&mut head, 3, self.request_id);
        whole(&mut head, 4, self.timeout_ms);
        bytes(&mut head, 5, self.caller.as_bytes());
        bytes(&mut head, 6, self.callee.as_bytes());
        bytes(&mut head, 7, self.func.as_bytes());
        whole(&mut head, 8, self.message_type);
        for (name, value) in &self.trans_info {
            let mut entry = Vec::with_capacity(name.len() + value.len() + 4);
            bytes(&mut entry, 1, name.as_bytes());
            // An empty value is written too, as other writers of maps do.
            put_varint(&mut entry, 2 << 3 | 2);
            put_varint(&mut entry, value.len() as u64);
            entry.extend_from_slice(value);
            bytes(&mut head, 9, &entry);
        }
        whole(&mut head, 10, self.content_type);
        whole(&mut head, 11, self.content_encoding);
        whole(&mut head, 12, u32::try_from(self.attachment.len()).map_err(|_| Malformed("the attachment is too large"))?);
        let length = u16::try_from(head.len()).map_err(|_| Malformed("the head is larger than 64 KiB"))?;
        let total = FIXED + head.len() + self.body.len() + self.attachment.len();
        if total > MAX_FRAME {
            return Err(Malformed("the message is larger than 10 MiB"));
        }
        out.reserve(total);
        out.put_u16(MAGIC);
        out.put_u8(0);
        out.put_u8(0);
        out.put_u32(total as u32);
        out.put_u16(length);
        out.put_u32(self.request_id);
        out.put_u8(1);
        out.put_u8(0);
        out.put_slice(&head);
        out.put_slice(self.body);
        out.put_slice(self.attachment);
        Ok(())
    }
}

/// How long the frame at the start of a buffer is; `None` where too little is there to know.
pub fn length(buffer: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(fixed) = buffer.first_chunk::<FIXED>() else { return Ok(None) };
    if u16::from_be_bytes([fixed[0], fixed[1]]) != MAGIC {
        return Err(Malformed("it does not begin with 0x0930"));
    }
    match u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]) as usize {
        it if it < FIXED => Err(Malformed("its length is less than its head")),
        it if it > MAX_FRAME => Err(Malformed("it is larger than 10 MiB")),
        it => Ok(Some(it)),
    }
}

/// An answer from one whole frame; `None` for a frame of a stream, which nobody here has asked for.
pub fn read(frame: Bytes) -> Result<Option<Reply>, Malformed> {
    let Some(fixed) = frame.first_chunk::<FIXED>() else { return Err(Malformed("it is cut off")) };
    if fixed[2] != 0 {
        return Ok(None);
    }
    let end = FIXED + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
    let Some(head) = frame.get(FIXED..end) else { return Err(Malformed("its head is longer than itself")) };
    let id = u32::from_be_bytes([fixed[10], fixed[11], fixed[12], fixed[13]]);
    let mut reply = Reply {
        request_id: id,
        ret: 0,
        func_ret: 0,
        error_msg: Bytes::new(),
        trans_info: Vec::new(),
        content_type: 0,
        content_encoding: 0,
        body: Bytes::new(),
        attachment: Bytes::new(),
    };
    let mut attached = 0usize;
    let mut fields = head;
    while !fields.is_empty() {
        match field(&mut fields).ok_or(Malformed("its head is no protobuf"))? {
            (3, Field::Whole(it)) => reply.request_id = it as u32,
            (4, Field::Whole(it)) => reply.ret = it as i32,
            (5, Field::Whole(it)) => reply.func_ret = it as i32,
            (6, Field::Bytes(it)) => reply.error_msg = frame.slice_ref(it),
            (8, Field::Bytes(mut entry)) => {
                let (mut name, mut value) = (&[][..], &[][..]);
                while !entry.is_empty() {
                    match field(&mut entry).ok_or(Malformed("its head is no protobuf"))? {
                        (1, Field::Bytes(it)) => name = it,
                        (2, Field::Bytes(it)) => value = it,
                        _ => (),
                    }
                }
                reply.trans_info.push((String::from_utf8_lossy(name).into_owned(), frame.slice_ref(value)));
            }
            (9, Field::Whole(it)) => reply.content_type = it as u32,
            (10, Field::Whole(it)) => reply.content_encoding = it as u32,
            (12, Field::Whole(it)) => attached = usize::try_from(it).map_err(|_| Malformed("its attachment is longer than itself"))?,
            _ => (),
        }
    }
    let parted = frame.len().checked_sub(attached).filter(|it| *it >= end).ok_or(Malformed("its attachment is longer than itself"))?;
    reply.body = frame.slice(end..parted);
    reply.attachment = frame.slice(parted..);
    Ok(Some(reply))
}

/// A body as it was before it was compressed; never more than a frame may hold.
pub fn decompress(encoding: u32, body: Bytes) -> Result<Bytes, Malformed> {
    fn all(reader: impl Read) -> Result<Bytes, Malformed> {
        let mut out = Vec::new();
        let most = MAX_FRAME as u64 + 1;
        reader.take(most).read_to_end(&mut out).map_err(|_| Malformed("its body cannot be decompressed"))?;
        if out.len() > MAX_FRAME {
            return Err(Malformed("its body is larger than 10 MiB when it is decompressed"));
        }
        Ok(out.into())
    }
    let block =
        |size: usize| if size > MAX_FRAME { Err(Malformed("its body is larger than 10 MiB when it is decompressed")) } else { Ok(size) };
    match encoding {
        0 => Ok(body),
        // A stream may end without its end being told, as Go's flush leaves it.
        1 => all(flate2::read::MultiGzDecoder::new(&body[..])),
        3 => all(flate2::read::ZlibDecoder::new(&body[..])),
        // Go writes a stream under the number under which C++ writes a block.
        2 if body.starts_with(b"\xff\x06\0\0sNaPpY") => all(snap::read::FrameDecoder::new(&body[..])),
        4 => all(snap::read::FrameDecoder::new(&body[..])),
        2 | 5 => {
            block(snap::raw::decompress_len(&body).map_err(|_| Malformed("its body cannot be decompressed"))?)?;
            snap::raw::Decoder::new().decompress_vec(&body).map(Bytes::from).map_err(|_| Malformed("its body cannot be decompressed"))
        }
        6 => all(lz4_flex::frame::FrameDecoder::new(&body[..])),
        _ => Err(Malformed("its body is compressed in a way that is not known here")),
    }
}

enum Field<'a> {
    Whole(u64),
    Bytes(&'a [u8]),
    Other,
}

fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let tag = varint(bytes)?;
    let field = match tag & 7 {
        0 => Field::Whole(varint(bytes)?),
        1 => bytes.split_off(..8).map(|_| Field::Other)?,
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            Field::Bytes(bytes.split_off(..length)?)
        }
        5 => bytes.split_off(..4).map(|_| Field::Other)?,
        _ => return None,
    };
    Some((tag >> 3, field))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests;
