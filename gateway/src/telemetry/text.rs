//! Writes JSON text, numbers and moments into a buffer, without allocating.
use std::time::{Duration, SystemTime};

/// Appends `bytes` as the inside of a JSON string.
///
/// Whatever the network sent, the line stays one line of valid JSON that a terminal may show: control characters (C1 and DEL included) and the
/// Unicode line separators are escaped, and a byte that is not UTF-8 is spelt `\xNN`, as text.
pub fn push_json(to: &mut Vec<u8>, bytes: &[u8]) {
    // Nearly always all of it is plain.
    if is_plain(bytes) {
        return to.extend_from_slice(bytes);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        let plain = rest.iter().position(|it| !PLAIN[usize::from(*it)]).unwrap_or(rest.len());
        to.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
        let Some(first) = rest.first() else { return };
        let taken = if *first < 0x80 { push_ascii(to, *first) } else { push_wide(to, rest) };
        rest = &rest[taken..];
    }
}

/// Whether nothing needs to be escaped; eight bytes at a time.
fn is_plain(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    match bytes.last_chunk::<8>() {
        // The last word overlaps the one before it.
        Some(last) => words.iter().fold(odd(last), |odds, it| odds | odd(it)) == 0,
        None => rest.iter().all(|it| PLAIN[usize::from(*it)]),
    }
}

/// Zero where every byte is plain; otherwise perhaps not.
fn odd(word: &[u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let it = u64::from_ne_bytes(*word);
    let is_zero = |it: u64| it.wrapping_sub(ONES) & !it;
    let control = it.wrapping_sub(0x20 * ONES) & !it;
    let beyond = it.wrapping_add(ONES) | it;
    (control | beyond | is_zero(it ^ (u64::from(b'"') * ONES)) | is_zero(it ^ (u64::from(b'\\') * ONES))) & HIGH
}

/// Bytes that stand in a JSON string as they are.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut at = 0x20;
    while at < 0x7f {
        plain[at] = at != b'"' as usize && at != b'\\' as usize;
        at += 1;
    }
    plain
};

fn push_ascii(to: &mut Vec<u8>, it: u8) -> usize {
    match it {
        b'"' => to.extend_from_slice(b"\\\""),
        b'\\' => to.extend_from_slice(b"\\\\"),
        b'\n' => to.extend_from_slice(b"\\n"),
        b'\r' => to.extend_from_slice(b"\\r"),
        b'\t' => to.extend_from_slice(b"\\t"),
        it => push_escape(to, it.into()),
    }
    1
}

/// One character beyond ASCII, or one byte that belongs to none; gives how many bytes that was.
fn push_wide(to: &mut Vec<u8>, rest: &[u8]) -> usize {
    let length = match rest[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let found = rest.get(..length).and_then(|it| std::str::from_utf8(it).ok()).and_then(|it| it.chars().next());
    match found {
        Some(
            it @ ('\u{80}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'),
        ) => {
            push_escape(to, it as u16);
            length
        }
        Some(_) => {
            to.extend_from_slice(&rest[..length]);
            length
        }
        None => {
            to.extend_from_slice(&[b'\\', b'\\', b'x', HEX[usize::from(rest[0] >> 4)], HEX[usize::from(rest[0] & 15)]]);
            1
        }
    }
}

fn push_escape(to: &mut Vec<u8>, it: u16) {
    let digit = |shift: u16| HEX[usize::from((it >> shift) & 15)];
    to.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `value` in decimal.
pub fn push_integer(to: &mut Vec<u8>, mut value: u64) {
    let digit = |it: u64| b'0' + (it % 10) as u8;
    match value {
        0..10 => return to.push(digit(value)),
        10..100 => return to.extend_from_slice(&[digit(value / 10), digit(value)]),
        100..1000 => return push_three(to, value),
        _ => {}
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    to.extend_from_slice(&digits[at..]);
}

/// Appends a duration in milliseconds, to the microsecond: `12.345`.
pub fn push_millis(to: &mut Vec<u8>, taken: Duration) {
    let micros = u64::try_from(taken.as_micros()).unwrap_or(u64::MAX);
    push_integer(to, micros / 1000);
    to.push(b'.');
    push_three(to, micros % 1000);
}

/// The last three digits.
fn push_three(to: &mut Vec<u8>, value: u64) {
    let digit = |it: u64| b'0' + (it % 10) as u8;
    to.extend_from_slice(&[digit(value / 100), digit(value / 10), digit(value)]);
}

fn push_padded(to: &mut Vec<u8>, value: u64, width: usize) {
    let from = to.len();
    to.resize(from + width, b'0');
    let mut rest = value;
    for place in to[from..].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// A moment as RFC 3339 in UTC, for what is written now and then.
pub fn time(at: SystemTime) -> String {
    let mut out = Vec::new();
    Stamp::default().push(&mut out, at);
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes moments as RFC 3339 in UTC to the millisecond; the second is spelt out once.
#[derive(Default)]
pub struct Stamp {
    second: u64,
    /// `2026-11-30T23:00:00.`; empty before the first.
    text: Vec<u8>,
}

impl Stamp {
    pub fn push(&mut self, to: &mut Vec<u8>, at: SystemTime) {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if self.text.is_empty() || self.second != since.as_secs() {
            self.second = since.as_secs();
            self.text.clear();
            spell(&mut self.text, self.second);
        }
        to.extend_from_slice(&self.text);
        push_three(to, since.subsec_millis().into());
        to.push(b'Z');
    }
}

/// The civil date of a day since 1970 in the proleptic Gregorian calendar: years are counted from March, in eras of 400 years.
fn spell(to: &mut Vec<u8>, seconds: u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_PER_ERA: u64 = 146_097;
    let (days, clock) = (seconds / 86_400 + DAYS_TO_1970, seconds % 86_400);
    let (era, day) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    for (value, width, after) in
        [(year, 4, b'-'), (month, 2, b'-'), (day, 2, b'T'), (clock / 3600, 2, b':'), (clock / 60 % 60, 2, b':'), (clock % 60, 2, b'.')]
    {
        push_padded(to, value, width);
        to.push(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut it = Vec::new();
        push(&mut it);
        String::from_utf8(it).unwrap()
    }

    #[test]
    fn whatever_the_network_sent_is_one_json_string() {
        for (bytes, want) in [
            (&b"plain text"[..], "plain text"),
            (b"a\"b\\c", r#"a\"b\\c"#),
            (b"a\r\nb\tc\0\x1b[31m\x7f", r"a\r\nb\tc\u0000\u001b[31m\u007f"),
            ("é 中 🎉".as_bytes(), "é 中 🎉"),
            ("\u{85}\u{9b}\u{2028}\u{202e}".as_bytes(), r"\u0085\u009b\u2028\u202e"),
            (b"\xff\xc3(\xe4\xb8", r"\\xff\\xc3(\\xe4\\xb8"),
            (b"\xc0\xaf\xed\xa0\x80\xf5", r"\\xc0\\xaf\\xed\\xa0\\x80\\xf5"),
        ] {
            let text = written(|it| push_json(it, bytes));
            assert_eq!(text, want, "{bytes:?}");
            let quoted = format!("\"{text}\"");
            serde_json::from_str::<String>(&quoted).unwrap_or_else(|it| panic!("{quoted}: {it}"));
        }
    }

    #[test]
    fn every_byte_alone_and_every_character_reads_back() {
        for byte in 0..=255u8 {
            let alone = written(|it| push_json(it, &[byte]));
            serde_json::from_str::<String>(&format!("\"{alone}\"")).unwrap();
            // At each place of a longer text it is spelt the same way.
            for at in 0..19 {
                let mut bytes = [b'a'; 19];
                bytes[at] = byte;
                let want = format!("{}{alone}{}", "a".repeat(at), "a".repeat(18 - at));
                assert_eq!(written(|it| push_json(it, &bytes)), want);
            }
        }
        let all: String = (0..=0x10_ffff).step_by(7).filter_map(char::from_u32).collect();
        let text = written(|it| push_json(it, all.as_bytes()));
        assert_eq!(serde_json::from_str::<String>(&format!("\"{text}\"")).unwrap(), all);
    }

    #[test]
    fn numbers_are_decimal() {
        for it in [0, 9, 10, 99, 100, 999, 1000, 12_345, u64::MAX] {
            assert_eq!(written(|to| push_integer(to, it)), it.to_string());
        }
        assert_eq!(written(|it| push_millis(it, Duration::from_nanos(12_045_999))), "12.045");
        assert_eq!(written(|it| push_millis(it, Duration::ZERO)), "0.000");
    }

    #[test]
    fn moments_are_spelt_as_rfc_3339() {
        let mut stamp = Stamp::default();
        for (seconds, millis, want) in [
            (0, 0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, 999, "2000-02-28T23:59:59.999Z"),
            (951_782_400, 0, "2000-02-29T00:00:00.000Z"),
            (951_868_800, 1, "2000-03-01T00:00:00.001Z"),
            (1_709_251_199, 10, "2024-02-29T23:59:59.010Z"),
            (1_798_761_599, 123, "2026-12-31T23:59:59.123Z"),
            (1_798_761_599, 124, "2026-12-31T23:59:59.124Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000Z"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis);
            assert_eq!(written(|it| stamp.push(it, at)), want);
        }
    }
}
