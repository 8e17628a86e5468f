//! Numbers of four kinds, compared by what they are worth.

use std::cmp::Ordering;

/// A number; one of a document that fits no 64 bits keeps its digits.
#[derive(Debug, Clone, Copy)]
pub enum Number<'a> {
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A double.
    Float(f64),
    /// An integer beyond 64 bits: an optional sign and digits without leading zeros.
    Big(&'a str),
}

/// 2^63 and 2^64, the first doubles beyond the integers.
const I64_END: f64 = 9_223_372_036_854_775_808.0;
const U64_END: f64 = 18_446_744_073_709_551_616.0;

impl<'a> Number<'a> {
    /// Reads a JSON number: without fraction and exponent it is an integer.
    pub fn parse(text: &'a str) -> Self {
        if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            return Self::Float(text.parse().unwrap_or(f64::NAN));
        }
        match text.parse() {
            Ok(number) => Self::Int(number),
            Err(_) => text.parse().map_or(Self::Big(text), Self::UInt),
        }
    }

    /// The number as a double, rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::UInt(number) => number as f64,
            Self::Float(number) => number,
            Self::Big(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    /// The number as an integer, if it is one that fits; `2.0` is 2.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(number),
            Self::UInt(number) => number.try_into().ok(),
            Self::Float(number) => (number.trunc() == number && (-I64_END..I64_END).contains(&number)).then_some(number as i64),
            Self::Big(_) => None,
        }
    }

    /// The number as an unsigned integer, if it is one that fits; `2.0` is 2.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Int(number) => number.try_into().ok(),
            Self::UInt(number) => Some(number),
            Self::Float(number) => (number.trunc() == number && (0.0..U64_END).contains(&number)).then_some(number as u64),
            Self::Big(_) => None,
        }
    }

    /// Compares by worth across kinds, exactly; nothing if one is NaN.
    pub fn compare(self, other: Number<'_>) -> Option<Ordering> {
        match (self, other) {
            (Number::Float(left), right) => compare_float(right, left).map(Ordering::reverse),
            (left, Number::Float(right)) => compare_float(left, right),
            (Number::Big(left), Number::Big(right)) => Some(compare_digits(left, right)),
            (Number::Big(left), _) => Some(if left.starts_with('-') { Ordering::Less } else { Ordering::Greater }),
            (_, Number::Big(right)) => Some(if right.starts_with('-') { Ordering::Greater } else { Ordering::Less }),
            (left, right) => Some(left.wide().cmp(&right.wide())),
        }
    }

    fn wide(self) -> i128 {
        match self {
            Self::Int(number) => number as i128,
            Self::UInt(number) => number as i128,
            Self::Float(_) | Self::Big(_) => 0,
        }
    }
}

fn compare_float(left: Number<'_>, right: f64) -> Option<Ordering> {
    match left {
        Number::Int(_) | Number::UInt(_) => {
            if right.is_nan() {
                return None;
            }
            if right >= U64_END {
                return Some(Ordering::Less);
            }
            if right < -I64_END {
                return Some(Ordering::Greater);
            }
            // Within the integers' range the whole part is exact in 128 bits.
            let whole = right.trunc();
            Some(left.wide().cmp(&(whole as i128)).then(whole.partial_cmp(&right)?))
        }
        left => left.as_f64().partial_cmp(&right),
    }
}

fn compare_digits(left: &str, right: &str) -> Ordering {
    match (left.strip_prefix('-'), right.strip_prefix('-')) {
        (None, None) => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
        (Some(left), Some(right)) => right.len().cmp(&left.len()).then_with(|| right.cmp(left)),
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
    }
}
