//! Units as they are written: durations, sizes, rates, percents.

use std::{fmt, str::FromStr, time};

use crate::form::TextFault;

/// A length of time: a number, decimals allowed, and `ms`, `s`, `m`, `h` or `d`. Kept in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub time::Duration);

/// A number of bytes: a number, decimals allowed, and `B`, `KiB`, `MiB` or `GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

/// How often: `N/s`, `N/m`, `N/h`, `N/d` or `N/DURATION`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// How many.
    pub count: f64,
    /// In which time; never zero.
    pub per: time::Duration,
}

/// A share, `5%`. Kept as a fraction: 0.05.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

/// What is wrong with a unit, and where in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFault {
    /// Where in the text, in bytes.
    pub offset: usize,
    /// One sentence.
    pub message: String,
    /// What to write.
    pub help: Option<String>,
}

impl UnitFault {
    fn at(offset: usize, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { offset, message: message.into(), help: Some(help.into()) }
    }

    pub(crate) fn of(self, text: &str) -> TextFault {
        let offset = self.offset.min(text.len());
        let len = text.len() - offset;
        TextFault { offset, len, code: "bad-unit", message: self.message, help: self.help }
    }
}

impl fmt::Display for UnitFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UnitFault {}

const TIMES: &[(&str, u64)] =
    &[("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000), ("h", 3_600_000_000_000), ("d", 86_400_000_000_000)];
const SIZES: &[(&str, u64)] = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

// === impl Duration ===

impl Duration {
    /// The length of time.
    pub fn get(self) -> time::Duration {
        self.0
    }
}

impl FromStr for Duration {
    type Err = UnitFault;

    fn from_str(text: &str) -> Result<Self, UnitFault> {
        let scaled = scaled(text, "a duration", TIMES, "500ms, 1.5s, 2m, 1h or 7d")?;
        let nanos = u64::try_from(scaled).map_err(|_| UnitFault::at(0, format!("`{text}` is too long"), "at most 213000d"))?;
        Ok(Self(time::Duration::from_nanos(nanos)))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0.as_nanos(), TIMES)
    }
}

// === impl Size ===

impl Size {
    /// The number of bytes.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = UnitFault;

    fn from_str(text: &str) -> Result<Self, UnitFault> {
        let scaled = scaled(text, "a size", SIZES, "512B, 64KiB, 1.5MiB or 2GiB")?;
        u64::try_from(scaled).map(Self).map_err(|_| UnitFault::at(0, format!("`{text}` is too large"), "at most 17179869183GiB"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, u128::from(self.0), SIZES)
    }
}

// === impl Rate ===

impl Rate {
    /// How many a second.
    pub fn per_second(self) -> f64 {
        self.count / self.per.as_secs_f64()
    }
}

impl FromStr for Rate {
    type Err = UnitFault;

    fn from_str(text: &str) -> Result<Self, UnitFault> {
        const LIKE: &str = "write a number and a time, as in 100/s, 5000/m or 10/30s";
        let Some((count, per)) = text.split_once('/') else {
            let message = if text.parse::<f64>().is_ok() {
                format!("a rate needs its time: `{text}` of what?")
            } else {
                format!("`{text}` is not a rate")
            };
            let help = if text.parse::<f64>().is_ok() { format!("write `{text}/s`, `{text}/m` or `{text}/30s`") } else { LIKE.to_owned() };
            return Err(UnitFault { offset: 0, message, help: Some(help) });
        };
        let (whole, decimals, used) = decimal(count).ok_or_else(|| UnitFault::at(0, format!("`{count}` is not a number"), LIKE))?;
        if used != count.len() {
            return Err(UnitFault::at(used, format!("`{}` does not belong into a rate", &count[used..]), LIKE));
        }
        // Invariant: digits that `decimal` accepted are a number.
        let value: f64 = format!("{whole}.{decimals}0").parse().unwrap_or(0.0);
        let at = count.len() + 1;
        let time = match TIMES.iter().find(|(unit, _)| *unit == per) {
            Some((_, nanos)) if per != "ms" => time::Duration::from_nanos(*nanos),
            _ => per
                .parse::<Duration>()
                .map(Duration::get)
                .map_err(|fault| UnitFault::at(at + fault.offset, format!("`{per}` is not a time"), LIKE))?,
        };
        if time.is_zero() {
            return Err(UnitFault::at(at, "a rate's time may not be zero", LIKE));
        }
        Ok(Self { count: value, per: time })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.per.as_nanos();
        match TIMES.iter().find(|(unit, size)| u128::from(*size) == nanos && *unit != "ms") {
            Some((unit, _)) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{}/{}", self.count, Duration(self.per)),
        }
    }
}

// === impl Percent ===

impl Percent {
    /// The share as a fraction.
    pub fn fraction(self) -> f64 {
        self.0
    }
}

impl FromStr for Percent {
    type Err = UnitFault;

    fn from_str(text: &str) -> Result<Self, UnitFault> {
        const LIKE: &str = "write a number from 0 to 100 and %, as in 5% or 12.5%";
        let Some(number) = text.strip_suffix('%') else {
            let bare = decimal(text).is_some_and(|(_, _, used)| used == text.len());
            // A fraction is most likely meant as one.
            let fraction =
                text.parse::<f64>().ok().filter(|value| *value <= 1.0 && text.contains('.')).map(|value| Self(value).to_string());
            let help = fraction.map_or_else(|| format!("write `{text}%`"), |percent| format!("write `{percent}`, or `{text}%`"));
            return Err(match bare {
                true => UnitFault::at(0, format!("a percent needs its sign: `{text}`"), help),
                false => UnitFault::at(0, format!("`{text}` is not a percent"), LIKE),
            });
        };
        let (whole, decimals, used) = decimal(number).ok_or_else(|| UnitFault::at(0, format!("`{text}` is not a percent"), LIKE))?;
        if used != number.len() {
            return Err(UnitFault::at(used, format!("`{}` does not belong into a percent", &number[used..]), LIKE));
        }
        // Invariant: digits that `decimal` accepted are a number.
        let value: f64 = format!("{whole}.{decimals}0").parse().unwrap_or(0.0);
        if value > 100.0 {
            return Err(UnitFault::at(0, format!("`{text}` is more than all"), LIKE));
        }
        Ok(Self(value / 100.0))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Twelve digits hide what the division by a hundred left behind.
        let text = format!("{:.12}", self.0 * 100.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The digits before and after the point, and how much of the text they are.
fn decimal(text: &str) -> Option<(&str, &str, usize)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    if whole == 0 {
        return None;
    }
    let decimals = text[whole..].strip_prefix('.').map_or(0, digits);
    if decimals == 0 {
        return Some((&text[..whole], "", whole));
    }
    let end = whole + 1 + decimals;
    Some((&text[..whole], &text[whole + 1..end], end))
}

fn scaled(text: &str, what: &str, units: &[(&str, u64)], like: &str) -> Result<u128, UnitFault> {
    let like = || format!("write {like}");
    let Some((whole, decimals, used)) = decimal(text) else {
        let message = match text {
            "" => format!("{what} is empty"),
            _ if text.starts_with('-') => format!("{what} may not be negative"),
            _ => format!("`{text}` is not {what}"),
        };
        return Err(UnitFault::at(0, message, like()));
    };
    let unit = &text[used..];
    if unit.is_empty() {
        let choices: Vec<String> = units.iter().map(|(unit, _)| format!("{text}{unit}")).collect();
        return Err(UnitFault::at(
            0,
            format!("{what} needs its unit: `{text}` of what?"),
            format!("write {}", crate::near::list(&choices)),
        ));
    }
    let Some((_, size)) = units.iter().find(|(known, _)| *known == unit) else {
        let compound =
            units.iter().any(|(known, _)| unit.strip_prefix(known).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
        if compound {
            return Err(UnitFault::at(
                used,
                format!("`{text}` has two units"),
                "write one number and one unit, decimals allowed, as in 1.5m",
            ));
        }
        let names: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
        let near = names
            .iter()
            .find(|known| known.eq_ignore_ascii_case(unit.trim()) || known.starts_with(unit.trim().to_uppercase().trim_end_matches('B')));
        let help = match near {
            Some(near) if !unit.trim().is_empty() => format!("write `{}{near}`", &text[..used]),
            _ => format!("the units are {}", crate::near::list(&names)),
        };
        return Err(UnitFault::at(used, format!("`{unit}` is not a unit of {what}"), help));
    };
    let too_much = || UnitFault::at(0, format!("`{text}` is too much"), like());
    let whole: u128 = whole.parse().map_err(|_| too_much())?;
    let whole = whole.checked_mul(u128::from(*size)).ok_or_else(too_much)?;
    // Below one nanosecond or byte nothing is left to say: eighteen digits are more than enough.
    let decimals = &decimals[..decimals.len().min(18)];
    let part = decimals.parse::<u128>().unwrap_or(0) * u128::from(*size) / 10u128.pow(decimals.len() as u32);
    Ok(whole + part)
}

/// The largest unit that leaves at most three decimals and no remainder, else the smallest unit.
fn write_scaled(f: &mut fmt::Formatter<'_>, value: u128, units: &[(&str, u64)]) -> fmt::Result {
    let fits = |size: u64| value >= u128::from(size) && (value * 1000).is_multiple_of(u128::from(size));
    let best = units.iter().rev().find(|(_, size)| value.is_multiple_of(u128::from(*size)) && value > 0);
    let (unit, size) = best.or_else(|| units.iter().rev().find(|(_, size)| fits(*size))).unwrap_or(&units[0]);
    let size = u128::from(*size);
    let (whole, mut rest) = (value / size, value % size);
    write!(f, "{whole}")?;
    if rest > 0 {
        f.write_str(".")?;
        while rest > 0 {
            rest *= 10;
            write!(f, "{}", rest / size)?;
            rest %= size;
        }
    }
    f.write_str(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: FromStr<Err = UnitFault> + fmt::Display>(text: &str, expected: Result<&str, &str>) {
        let found = text.parse::<T>().map(|value| value.to_string()).map_err(|fault| format!("{}: {}", fault.offset, fault.message));
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn durations_are_one_number_and_one_unit() {
        for (text, shown) in
            [("250ms", "250ms"), ("1.5s", "1500ms"), ("60s", "1m"), ("0s", "0ms"), ("0.25h", "15m"), ("7d", "7d"), ("0.5ms", "0.5ms")]
        {
            check::<Duration>(text, Ok(shown));
        }
        check::<Duration>("2", Err("0: a duration needs its unit: `2` of what?"));
        check::<Duration>("1m30s", Err("1: `1m30s` has two units"));
        check::<Duration>("-1s", Err("0: a duration may not be negative"));
        check::<Duration>("5 s", Err("1: ` s` is not a unit of a duration"));
        check::<Duration>("s", Err("0: `s` is not a duration"));
        check::<Duration>("999999999999d", Err("0: `999999999999d` is too long"));
        check::<Duration>(&format!("{}s", "9".repeat(60)), Err(&format!("0: `{}s` is too much", "9".repeat(60))));
        assert_eq!("1.5s".parse::<Duration>().unwrap().get(), time::Duration::from_millis(1500));
    }

    #[test]
    fn sizes_are_binary() {
        for (text, shown) in [("512B", "512B"), ("1MiB", "1MiB"), ("1.5KiB", "1536B"), ("1024KiB", "1MiB"), ("0B", "0B")] {
            check::<Size>(text, Ok(shown));
        }
        check::<Size>("1MB", Err("1: `MB` is not a unit of a size"));
        assert_eq!("1MB".parse::<Size>().unwrap_err().help.as_deref(), Some("write `1MiB`"));
        assert_eq!("0.25MiB".parse::<Size>().unwrap().get(), 262_144);
    }

    #[test]
    fn rates_name_their_time() {
        for (text, shown) in
            [("100/s", "100/s"), ("5000/m", "5000/m"), ("10/30s", "10/30s"), ("0.5/d", "0.5/d"), ("1/1s", "1/s"), ("0/s", "0/s")]
        {
            check::<Rate>(text, Ok(shown));
        }
        check::<Rate>("10", Err("0: a rate needs its time: `10` of what?"));
        check::<Rate>("10/ms", Err("3: `ms` is not a time"));
        check::<Rate>("10/0s", Err("3: a rate's time may not be zero"));
        check::<Rate>("x/s", Err("0: `x` is not a number"));
        assert!((("60/m").parse::<Rate>().unwrap().per_second() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn percents_have_their_sign() {
        for (text, shown) in [("5%", "5%"), ("12.5%", "12.5%"), ("0%", "0%"), ("100%", "100%")] {
            check::<Percent>(text, Ok(shown));
        }
        check::<Percent>("0.5", Err("0: a percent needs its sign: `0.5`"));
        check::<Percent>("101%", Err("0: `101%` is more than all"));
    }
}
