//! Writing JSON text.

use super::text::special;

/// Appends `text` as a JSON string, quotes included.
pub fn push_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    push_string_content(text, out);
    out.push(b'"');
}

/// Appends `text` as the inside of a JSON string. Escapes what must be escaped and nothing else.
pub fn push_string_content(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len());
    let (mut clean, mut at) = (0, 0);
    while at < bytes.len() {
        if let Some(chunk) = bytes[at..].first_chunk::<8>() {
            let hit = special(u64::from_le_bytes(*chunk));
            if hit == 0 {
                at += 8;
                continue;
            }
            at += (hit.trailing_zeros() / 8) as usize;
        }
        let short = match bytes[at] {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0x00..=0x1f => b'u',
            _ => {
                at += 1;
                continue;
            }
        };
        out.extend_from_slice(&bytes[clean..at]);
        out.extend_from_slice(&[b'\\', short]);
        if short == b'u' {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(&[b'0', b'0', HEX[(bytes[at] >> 4) as usize], HEX[(bytes[at] & 15) as usize]]);
        }
        at += 1;
        clean = at;
    }
    out.extend_from_slice(&bytes[clean..]);
}

/// Appends a number in its shortest form (`1.0`, `2.5e300`); JSON has no infinity and no NaN, they become `null`.
pub fn push_f64(number: f64, out: &mut Vec<u8>) {
    match serde_json::Number::from_f64(number) {
        Some(number) => out.extend_from_slice(number.to_string().as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
}
