//! The `Date` header, made once a second on each thread.
use std::{
    cell::Cell,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::HeaderValue;
use tokio::time::Instant;

const SIZE: usize = 29;

thread_local! {
    static NOW: Cell<Option<(Instant, [u8; SIZE])>> = const { Cell::new(None) };
}

/// Writes the whole line.
pub(super) fn write(out: &mut Vec<u8>, now: Instant) {
    out.extend_from_slice(b"date: ");
    out.extend_from_slice(&text(now));
    out.extend_from_slice(b"\r\n");
}

/// The same as a value.
pub fn value(now: Instant) -> HeaderValue {
    // Digits, letters, blanks: always a value.
    HeaderValue::from_bytes(&text(now)).unwrap_or(HeaderValue::from_static(""))
}

/// `now` is compared with a steady clock, so the usual call asks the system for nothing.
fn text(now: Instant) -> [u8; SIZE] {
    match NOW.get() {
        Some((until, text)) if now < until => text,
        _ => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let text = imf_fixdate(since.as_secs());
            let rest = Duration::from_secs(1) - Duration::from_nanos(u64::from(since.subsec_nanos()));
            NOW.set(Some((now + rest, text)));
            text
        }
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
fn imf_fixdate(seconds: u64) -> [u8; SIZE] {
    const DAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Days to a date, with years that begin in March so that the leap day is the last one: Hinnant's civil_from_days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);

    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let weekday = (days % 7) as usize * 3;
    text[..3].copy_from_slice(&DAYS[weekday..weekday + 3]);
    let at = (month - 1) as usize * 3;
    text[8..11].copy_from_slice(&MONTHS[at..at + 3]);
    for (at, number) in [(5, day), (12, year / 100 % 100), (14, year % 100), (17, time / 3600), (20, time / 60 % 60), (23, time % 60)] {
        text[at] = b'0' + (number / 10) as u8;
        text[at + 1] = b'0' + (number % 10) as u8;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_http_wants_them() {
        for (seconds, want) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(String::from_utf8_lossy(&imf_fixdate(seconds)), want);
        }
    }
}
