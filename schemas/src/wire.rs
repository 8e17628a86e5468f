//! The protobuf wire format, as far as the format of definitions uses it.

/// A wire type, RFC-less but fixed by protobuf's encoding.
pub(crate) const VARINT: u32 = 0;
pub(crate) const FIXED64: u32 = 1;
pub(crate) const BYTES: u32 = 2;

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_key(out: &mut Vec<u8>, number: u32, wire: u32) {
    put_varint(out, u64::from(number << 3 | wire));
}

pub(crate) fn put_whole(out: &mut Vec<u8>, number: u32, value: u64) {
    put_key(out, number, VARINT);
    put_varint(out, value);
}

pub(crate) fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_key(out, number, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_key(out, number, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a message whose length is known only afterwards.
pub(crate) fn put_message<T>(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    put_key(out, number, BYTES);
    let start = out.len();
    out.push(0);
    let result = write(out);
    let len = out.len() - start - 1;
    if len < 0x80 {
        out[start] = len as u8;
    } else {
        let mut prefix = Vec::with_capacity(5);
        put_varint(&mut prefix, len as u64);
        out.splice(start..=start, prefix);
    }
    result
}

/// One field of a message as it was read.
pub(crate) enum Piece<'b> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'b [u8]),
}

/// The fields of a message in the order of its bytes; ends early where the bytes are no message.
pub(crate) fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = (u32, Piece<'_>)> {
    std::iter::from_fn(move || {
        let key = take_varint(&mut bytes)?;
        let number = u32::try_from(key >> 3).ok()?;
        let piece = match key as u32 & 7 {
            VARINT => Piece::Varint(take_varint(&mut bytes)?),
            FIXED64 => Piece::Fixed64(take(&mut bytes, 8)?.try_into().ok()?),
            BYTES => {
                let len = usize::try_from(take_varint(&mut bytes)?).ok()?;
                Piece::Bytes(take(&mut bytes, len)?)
            }
            _ => return None,
        };
        Some((number, piece))
    })
}

fn take<'b>(bytes: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}
