//! Request ids and W3C trace context: made for every request, kept from a client only where the settings say so.
use std::cell::Cell;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::render::REQUEST_ID;

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The longest id of a client that is kept.
const LONGEST: usize = 128;

/// Random numbers for ids: fast, different on every thread, of no use as secrets.
///
/// SplitMix64 (Steele, Lea, Flood 2014), started from the system's randomness.
pub struct Random(Cell<u64>);

impl Default for Random {
    fn default() -> Self {
        use std::hash::{BuildHasher, Hasher};
        let mut seed = std::collections::hash_map::RandomState::new().build_hasher();
        seed.write_u64(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |it| it.as_nanos() as u64));
        Self(Cell::new(seed.finish()))
    }
}

impl Random {
    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut it = state;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ (it >> 31)
    }
}

/// Sixteen lower-case hexadecimal digits, eight at a time: each half's digits are spread over the bytes of a word.
fn hex(it: u64) -> [u8; 16] {
    fn spread(half: u32) -> [u8; 8] {
        let mut it = u64::from(half);
        it = (it & 0xffff) | ((it & 0xffff_0000) << 16);
        it = (it & 0x0000_00ff_0000_00ff) | ((it & 0x0000_ff00_0000_ff00) << 8);
        it = (it & 0x000f_000f_000f_000f) | ((it & 0x00f0_00f0_00f0_00f0) << 4);
        // One in each byte that holds more than 9.
        let letters = ((it + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
        (it + 0x3030_3030_3030_3030 + letters * 0x27).to_be_bytes()
    }
    let mut text = [0; 16];
    text[..8].copy_from_slice(&spread((it >> 32) as u32));
    text[8..].copy_from_slice(&spread(it as u32));
    text
}

/// Gives a request that has none of its own its id and its trace context, both in its headers too. Returns the id.
///
/// The trace id of a new trace is the request's id, so that one finds the other.
pub fn create(headers: &mut HeaderMap, random: &Random) -> HeaderValue {
    let (context, id) = both(random);
    headers.append(TRACEPARENT, value(context));
    headers.append(REQUEST_ID, id.clone());
    id
}

/// `00-id-span-00` and the id, which is a part of it: one piece of memory for both.
fn both(random: &Random) -> (Bytes, HeaderValue) {
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
    text[3..19].copy_from_slice(&hex(random.next()));
    text[19..35].copy_from_slice(&hex(random.next()));
    text[36..52].copy_from_slice(&hex(random.next() | 1));
    let context = Bytes::from_owner(text);
    let id = value(context.slice(3..35));
    (context, id)
}

/// The same of a request that may have both: they are replaced, or kept where that is asked for and they are sound.
pub fn assign(headers: &mut HeaderMap, keep: bool, random: &Random) -> HeaderValue {
    let kept = if keep { headers.get(REQUEST_ID).filter(|it| is_id(it)).cloned() } else { None };
    let traced = keep && headers.get(TRACEPARENT).is_some_and(|it| is_traceparent(it.as_bytes()));
    let (context, id) = both(random);
    let id = kept.unwrap_or(id);
    if !traced {
        headers.insert(TRACEPARENT, value(context));
        headers.remove(TRACESTATE);
    }
    if headers.contains_key(REQUEST_ID) || headers.keys().any(|it| it.as_str().len() == 12 && it.as_str().contains('_')) {
        contract::Exchange::forget_header(headers, &REQUEST_ID);
    }
    headers.insert(REQUEST_ID, id.clone());
    id
}

fn value(text: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(text).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

fn is_id(it: &HeaderValue) -> bool {
    let it = it.as_bytes();
    !it.is_empty() && it.len() <= LONGEST && it.iter().all(|it| it.is_ascii_graphic())
}

/// W3C Trace Context §3.2: version 00, both ids lower-case hexadecimal and not all zero.
fn is_traceparent(it: &[u8]) -> bool {
    let hex = |it: &[u8]| it.iter().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(it));
    let nonzero = |it: &[u8]| it.iter().any(|it| *it != b'0');
    it.len() == 55
        && it.starts_with(b"00-")
        && (it[35], it[52]) == (b'-', b'-')
        && hex(&it[3..35])
        && hex(&it[36..52])
        && hex(&it[53..])
        && nonzero(&it[3..35])
        && nonzero(&it[36..52])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_sixteen_digits() {
        for it in [0, 1, 9, 10, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, u64::MAX] {
            assert_eq!(String::from_utf8_lossy(&hex(it)), format!("{it:016x}"));
        }
    }

    fn check(id: Option<&'static str>, trace: Option<&'static str>, keep: bool) -> (bool, bool) {
        let mut headers = HeaderMap::new();
        id.map(|it| headers.append("x-request-id", HeaderValue::from_static(it)));
        trace.map(|it| headers.append("traceparent", HeaderValue::from_static(it)));
        headers.append("x_request_id", HeaderValue::from_static("forged"));
        headers.append("tracestate", HeaderValue::from_static("a=b"));
        let given = assign(&mut headers, keep, &Random::default());
        assert_eq!(headers.get_all("x-request-id").iter().collect::<Vec<_>>(), [&given]);
        assert!(!headers.contains_key("x_request_id"));
        assert!(is_traceparent(headers["traceparent"].as_bytes()));
        let (kept, traced) = (id.is_some_and(|it| given == it), trace.is_some_and(|it| headers["traceparent"] == it));
        assert_eq!(headers.contains_key("tracestate"), traced, "the state belongs to its parent");
        (kept, traced)
    }
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_strangers_ids_are_made_anew() {
        assert_eq!(check(Some("mine"), Some(TRACE), false), (false, false));
        assert_eq!(check(None, None, false), (false, false));
    }

    #[test]
    fn ids_are_kept_on_demand_when_they_are_sound() {
        assert_eq!(check(Some("mine"), Some(TRACE), true), (true, true));
        assert_eq!(check(Some("with space"), Some("00-00000000000000000000000000000000-b7ad6b7169203331-01"), true), (false, false));
        assert_eq!(check(Some(""), Some("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), true), (false, false));
    }

    #[test]
    fn ids_differ() {
        let random = Random::default();
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| assign(&mut HeaderMap::new(), false, &random)).collect();
        assert_eq!(ids.len(), 1000);
    }
}
