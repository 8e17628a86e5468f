//! Content codings of an answer: taken off before it is masked, put on again after.
use std::io::{Read, Write};

use flate2::{
    Compression,
    read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder},
    write::{GzEncoder, ZlibEncoder},
};
use http::{HeaderMap, header};

/// What a ring can take off and put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    Deflate,
}

/// What is asked of the backend.
pub const UNDERSTOOD: &str = "gzip, deflate";

/// Why a body could not be decoded.
#[derive(Debug)]
pub enum Undecodable {
    Broken,
    TooLarge,
}

/// The codings of an answer, innermost first. Errors: one that is not understood.
pub fn of(headers: &HeaderMap) -> Result<Vec<Coding>, ()> {
    let mut all = Vec::new();
    for line in headers.get_all(header::CONTENT_ENCODING) {
        for it in line.to_str().map_err(|_| ())?.split(',').map(str::trim) {
            match it.to_ascii_lowercase().as_str() {
                "" | "identity" => (),
                "gzip" | "x-gzip" => all.push(Coding::Gzip),
                "deflate" => all.push(Coding::Deflate),
                _ => return Err(()),
            }
        }
    }
    // More than one says nothing but that somebody wants work to be done.
    if all.len() > 1 { Err(()) } else { Ok(all) }
}

/// The decoded bytes, at most `most`.
pub fn decode(coding: Coding, bytes: &[u8], most: usize) -> Result<Vec<u8>, Undecodable> {
    match coding {
        Coding::Gzip => read(MultiGzDecoder::new(bytes), most),
        // RFC 9110 says zlib; some send the stream alone.
        Coding::Deflate => match read(ZlibDecoder::new(bytes), most) {
            Err(Undecodable::Broken) => read(DeflateDecoder::new(bytes), most),
            it => it,
        },
    }
}

fn read(mut from: impl Read, most: usize) -> Result<Vec<u8>, Undecodable> {
    let mut out = Vec::new();
    match from.by_ref().take(most as u64 + 1).read_to_end(&mut out) {
        Ok(_) if out.len() > most => Err(Undecodable::TooLarge),
        Ok(_) => Ok(out),
        Err(_) => Err(Undecodable::Broken),
    }
}

/// The encoded bytes.
pub fn encode(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let fast = Compression::new(4);
    let out = Vec::with_capacity(bytes.len() / 4 + 64);
    // Writing into memory cannot fail.
    match coding {
        Coding::Gzip => {
            let mut it = GzEncoder::new(out, fast);
            let _ = it.write_all(bytes);
            it.finish().unwrap_or_default()
        }
        Coding::Deflate => {
            let mut it = ZlibEncoder::new(out, fast);
            let _ = it.write_all(bytes);
            it.finish().unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_on_comes_off_and_a_bomb_does_not_go_off() {
        let text = "{\"phone\":\"13812345678\"}".repeat(1000);
        for coding in [Coding::Gzip, Coding::Deflate] {
            let packed = encode(coding, text.as_bytes());
            assert!(packed.len() < text.len() / 4);
            assert_eq!(decode(coding, &packed, text.len()).unwrap(), text.as_bytes());
            assert!(matches!(decode(coding, &packed, text.len() - 1), Err(Undecodable::TooLarge)));
            assert!(matches!(decode(coding, &packed[..packed.len() / 2], text.len()), Err(Undecodable::Broken)));
            assert!(matches!(decode(coding, text.as_bytes(), text.len()), Err(Undecodable::Broken)));
        }
    }
}
