//! A parameter's text becomes a value of the type that was declared.
use std::borrow::Cow;

use contract::Value;

use super::schema::SIZED;

/// How a place writes what cannot stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Headers and cookies, and what somebody else decoded already.
    Plain,
    /// A path: `%` and two digits.
    Percent,
    /// A query or form: so too, and `+` is a space (WHATWG URL, application/x-www-form-urlencoded).
    Form,
}

/// Why a text has no meaning at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecodable {
    Escape,
    Utf8,
}

impl Undecodable {
    pub fn message(self) -> &'static str {
        match self {
            Self::Escape => "holds a % that is not followed by two hexadecimal digits",
            Self::Utf8 => "is not UTF-8",
        }
    }
}

/// What the bytes stand for; borrowed where nothing is encoded.
pub fn decode(raw: &[u8], encoding: Encoding) -> Result<Cow<'_, str>, Undecodable> {
    let odd = |it: &u8| *it == b'%' || (*it == b'+' && encoding == Encoding::Form);
    if encoding == Encoding::Plain || !raw.iter().any(odd) {
        return std::str::from_utf8(raw).map(Cow::Borrowed).map_err(|_| Undecodable::Utf8);
    }
    let digit = |at: usize| raw.get(at).and_then(|it| char::from(*it).to_digit(16)).map(|it| it as u8);
    let mut plain = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        match raw[at] {
            b'%' => {
                let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else { return Err(Undecodable::Escape) };
                plain.push(high << 4 | low);
                at += 2;
            }
            b'+' if encoding == Encoding::Form => plain.push(b' '),
            it => plain.push(it),
        }
        at += 1;
    }
    String::from_utf8(plain).map(Cow::Owned).map_err(|_| Undecodable::Utf8)
}

/// The scalar types that a text may become, asked in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    pub integer: bool,
    pub number: bool,
    pub boolean: bool,
    /// The empty text and `null`, where `string` is not among the types.
    pub null: bool,
    pub string: bool,
    /// An integer's size, from `format: int32` or `int64`.
    pub bits: Option<u8>,
}

impl Kinds {
    pub const STRING: Self = Self { integer: false, number: false, boolean: false, null: false, string: true, bits: None };

    /// Of a schema; no type is string.
    pub fn of(schema: &serde_json::Value) -> Self {
        let names: Vec<&str> = match schema.get("type") {
            None => return Self::STRING,
            Some(serde_json::Value::Array(all)) => all.iter().filter_map(|it| it.as_str()).collect(),
            Some(one) => one.as_str().into_iter().collect(),
        };
        let has = |name: &str| names.contains(&name);
        let format = schema.get("format").and_then(|it| it.as_str());
        Self {
            integer: has("integer"),
            number: has("number"),
            boolean: has("boolean"),
            null: has("null"),
            string: has("string"),
            bits: SIZED.iter().find(|(name, _)| format == Some(name)).map(|(_, bits)| *bits),
        }
    }

    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.integer && !self.number, "integer"),
            (self.number, "number"),
            (self.boolean, "boolean"),
            (self.string, "string"),
            (self.null, "null"),
        ];
        all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
    }

    /// The value of a text, or nothing where it fits no type.
    pub fn read(self, text: &str) -> Option<Value> {
        if (self.integer && is_integer(text)) || (self.number && is_number(text)) {
            return Some(Value::Number(text.into()));
        }
        match text {
            "true" | "false" if self.boolean => Some(Value::Bool(text == "true")),
            "" | "null" if self.null && !self.string => Some(Value::Null),
            _ if self.string => Some(Value::text(text)),
            _ => None,
        }
    }

    /// Whether an integer fits its declared size.
    pub fn holds(self, text: &str) -> bool {
        match self.bits {
            Some(32) => text.parse::<i32>().is_ok(),
            Some(_) => text.parse::<i64>().is_ok(),
            None => true,
        }
    }
}

/// `-?(0|[1-9][0-9]*)`, and within the reach of a double.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let well = match digits {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    well && is_finite(text)
}

/// RFC 8259, 6, and within the reach of a double.
fn is_number(text: &str) -> bool {
    let bytes = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|it| it.is_ascii_digit()).count();
    let whole = digits(0);
    if whole == 0 || (whole > 1 && bytes[0] == b'0') {
        return false;
    }
    let mut at = whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return false;
        }
        at += 1 + fraction;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        let exponent = digits(at);
        if exponent == 0 {
            return false;
        }
        at += exponent;
    }
    at == bytes.len() && is_finite(text)
}

fn is_finite(text: &str) -> bool {
    // 300 digits without an exponent are below 1e308.
    (text.len() <= 300 && !text.contains(['e', 'E'])) || text.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_numbers_are_read_as_json_writes_them() {
        for (text, integer, number) in [
            ("0", true, true),
            ("-0", true, true),
            ("10", true, true),
            ("-7", true, true),
            ("123456789012345678901234567890", true, true),
            ("01", false, false),
            ("+1", false, false),
            ("", false, false),
            ("-", false, false),
            ("1.0", false, true),
            ("1.", false, false),
            (".5", false, false),
            ("1e3", false, true),
            ("1E-3", false, true),
            ("1e", false, false),
            ("-1.5e+10", false, true),
            ("1e400", false, false),
            (" 1", false, false),
            ("0x10", false, false),
            ("NaN", false, false),
            ("\u{661}", false, false),
        ] {
            assert_eq!((is_integer(text), is_number(text)), (integer, number), "{text}");
        }
        assert!(!is_integer(&"9".repeat(400)));
    }

    #[test]
    fn a_text_is_decoded_as_its_place_writes_it() {
        use Encoding::*;
        for (raw, encoding, expected) in [
            ("a+b%20c", Form, Ok("a b c")),
            ("a+b%20c", Percent, Ok("a+b c")),
            ("a+b%20c", Plain, Ok("a+b%20c")),
            ("caf%C3%A9", Form, Ok("caf\u{e9}")),
            ("%", Form, Err(Undecodable::Escape)),
            ("%4", Percent, Err(Undecodable::Escape)),
            ("%FF", Form, Err(Undecodable::Utf8)),
        ] {
            assert_eq!(decode(raw.as_bytes(), encoding).as_deref(), expected.as_deref(), "{raw}");
        }
        assert_eq!(decode(b"\xff", Plain), Err(Undecodable::Utf8));
    }
}
