//! The names in a certificate, as text: distinguished names (RFC 4514) out of DER.
use std::fmt::Write;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;

/// Attributes that have a short name, by the bytes of their object identifier (RFC 4514 §3, RFC 4519).
const SHORT: [(&[u8], &str); 11] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

/// `CN=alice,OU=billing,O=Acme`, the most specific first, of a name's content. None where the DER is malformed.
///
/// What a value holds cannot pass for another attribute: separators in it are escaped.
pub fn distinguished_name(mut rest: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let mut set = take(&mut rest, SET)?;
        let mut text = String::new();
        while !set.is_empty() {
            let mut pair = take(&mut set, SEQUENCE)?;
            let id = take(&mut pair, OBJECT)?;
            let whole = pair;
            let (tag, value) = next(&mut pair)?;
            if !pair.is_empty() {
                return None;
            }
            if !text.is_empty() {
                text.push('+');
            }
            attribute(&mut text, id, tag, value, whole)?;
        }
        if text.is_empty() {
            return None;
        }
        parts.push(text);
    }
    parts.reverse();
    Some(parts.join(","))
}

fn attribute(to: &mut String, id: &[u8], tag: u8, value: &[u8], whole: &[u8]) -> Option<()> {
    let known = SHORT.iter().find(|it| it.0 == id);
    match known {
        Some((_, name)) => to.push_str(name),
        None => dotted(to, id)?,
    }
    to.push('=');
    let text = match tag {
        UTF8 | PRINTABLE | IA5 => std::str::from_utf8(value).ok(),
        _ => None,
    };
    match text {
        Some(it) => escape(to, it),
        None => {
            to.push('#');
            for byte in whole {
                let _ = write!(to, "{byte:02x}");
            }
        }
    }
    Some(())
}

/// RFC 4514 §2.4; control characters as well.
fn escape(to: &mut String, text: &str) {
    let last = text.len().saturating_sub(1);
    for (at, it) in text.char_indices() {
        match it {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=' => to.extend(['\\', it]),
            ' ' if at == 0 || at == last => to.push_str("\\ "),
            '#' if at == 0 => to.push_str("\\#"),
            it if it.is_control() => {
                let mut bytes = [0; 4];
                for byte in it.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(to, "\\{byte:02X}");
                }
            }
            it => to.push(it),
        }
    }
}

/// `2.5.4.3` of an object identifier.
fn dotted(to: &mut String, id: &[u8]) -> Option<()> {
    let (mut arc, mut first) = (0u64, true);
    for (at, byte) in id.iter().enumerate() {
        arc = arc.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
        if byte & 0x80 != 0 {
            if at + 1 == id.len() {
                return None;
            }
            continue;
        }
        if first {
            let top = (arc / 40).min(2);
            let _ = write!(to, "{top}.{}", arc - top * 40);
            first = false;
        } else {
            let _ = write!(to, ".{arc}");
        }
        arc = 0;
    }
    (!first).then_some(())
}

/// The content of the next element, which must have this tag.
fn take<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    next(rest).filter(|it| it.0 == tag).map(|it| it.1)
}

/// The next element: its tag and its content.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, after) = rest.split_first()?;
    let (first, mut after) = after.split_first()?;
    let length = match *first {
        it if it < 0x80 => usize::from(it),
        it @ 0x81..=0x83 => {
            let count = usize::from(it & 0x7f);
            let (bytes, other) = after.split_at_checked(count)?;
            after = other;
            bytes.iter().fold(0, |sum, it| sum << 8 | usize::from(*it))
        }
        _ => return None,
    };
    let (content, after) = after.split_at_checked(length)?;
    *rest = after;
    Some((*tag, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut it = vec![tag];
        match content.len() {
            0..128 => it.push(content.len() as u8),
            size => it.extend([0x82, (size >> 8) as u8, size as u8]),
        }
        it.extend_from_slice(content);
        it
    }

    fn pair(id: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        element(SEQUENCE, &[element(OBJECT, id), element(tag, value)].concat())
    }

    #[test]
    fn a_name_is_written_the_most_specific_first_and_cannot_forge_another_attribute() {
        let (cn, o) = (SHORT[0].0, SHORT[7].0);
        let long = "x".repeat(300);
        let cases: &[(Vec<u8>, &str)] = &[
            (vec![], ""),
            ([element(SET, &pair(o, PRINTABLE, b"Acme")), element(SET, &pair(cn, UTF8, b"alice"))].concat(), "CN=alice,O=Acme"),
            (element(SET, &pair(cn, UTF8, b"a,O=Root")), "CN=a\\,O\\=Root"),
            (element(SET, &pair(cn, UTF8, b" #a+\"\\;<> ")), "CN=\\ #a\\+\\\"\\\\\\;\\<\\>\\ "),
            (element(SET, &pair(cn, UTF8, b"#a\r\n\0")), "CN=\\#a\\0D\\0A\\00"),
            (element(SET, &[pair(cn, UTF8, b"a"), pair(o, IA5, b"b")].concat()), "CN=a+O=b"),
            (element(SET, &pair(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], IA5, b"a@b")), "1.2.840.113549.1.9.1=a@b"),
            (element(SET, &pair(cn, 0x1e, &[0, 65])), "CN=#1e020041"),
            (element(SET, &pair(cn, UTF8, &[0xff])), "CN=#0c01ff"),
            (element(SET, &pair(cn, UTF8, long.as_bytes())), &format!("CN={long}")),
        ];
        for (der, expect) in cases {
            assert_eq!(distinguished_name(der).as_deref(), Some(*expect));
        }
    }

    #[test]
    fn a_name_that_is_cut_anywhere_or_turned_is_refused_or_read_and_never_more() {
        let whole = [element(SET, &pair(SHORT[7].0, PRINTABLE, b"Acme")), element(SET, &pair(&[0x2a, 0x81, 1], UTF8, b"alice"))].concat();
        for end in 1..whole.len() {
            let read = distinguished_name(&whole[..end]);
            assert!(read.is_none() || read.as_deref() == Some("O=Acme"), "{end}: {read:?}");
        }
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut turned = whole.clone();
                turned[at] = byte;
                let _ = distinguished_name(&turned);
            }
        }
    }
}
