//! CEL's words: one pass over the source, each token with its span.

use super::{CompileError, Value};

#[derive(Debug, Clone)]
pub(super) struct Token<'s> {
    pub(super) kind: TokenKind<'s>,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, Clone)]
pub(super) enum TokenKind<'s> {
    Ident(&'s str),
    /// An identifier between back quotes, allowed after a dot.
    Quoted(&'s str),
    Literal(Value<'static>),
    /// An integer without its sign.
    Int(u64),
    /// One of the operators and brackets.
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 24] =
    ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")", "[", "]", "{", "}"];

pub(super) fn tokens(source: &str) -> Result<Vec<Token<'_>>, CompileError> {
    let mut lexer = Lexer { source, bytes: source.as_bytes(), at: 0 };
    let mut tokens = Vec::with_capacity(source.len() / 3 + 2);
    loop {
        lexer.space();
        let start = lexer.at;
        let kind = lexer.token()?;
        let done = matches!(kind, TokenKind::End);
        tokens.push(Token { kind, start, end: lexer.at });
        if done {
            return Ok(tokens);
        }
    }
}

struct Lexer<'s> {
    source: &'s str,
    bytes: &'s [u8],
    at: usize,
}

impl<'s> Lexer<'s> {
    fn space(&mut self) {
        loop {
            while let Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0c) = self.bytes.get(self.at) {
                self.at += 1;
            }
            if !self.bytes[self.at..].starts_with(b"//") {
                return;
            }
            self.at = memchr::memchr(b'\n', &self.bytes[self.at..]).map_or(self.bytes.len(), |end| self.at + end);
        }
    }

    fn token(&mut self) -> Result<TokenKind<'s>, CompileError> {
        let Some(first) = self.bytes.get(self.at) else { return Ok(TokenKind::End) };
        match first {
            b'0'..=b'9' => return self.number(),
            b'.' if matches!(self.bytes.get(self.at + 1), Some(b'0'..=b'9')) => return self.number(),
            b'"' | b'\'' => return self.string(self.at, false, false),
            b'`' => return self.quoted(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => return self.word(),
            _ => {}
        }
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| self.bytes[self.at..].starts_with(symbol.as_bytes())) {
            self.at += symbol.len();
            return Ok(TokenKind::Symbol(symbol));
        }
        let character = self.source[self.at..].chars().next().unwrap_or(' ');
        let fault = CompileError::new(self.at, character.len_utf8(), format!("{character:?} has no meaning here"));
        Err(match character {
            '=' => fault.help("equality is written '=='"),
            '&' => fault.help("'and' is written '&&'"),
            '|' => fault.help("'or' is written '||'"),
            '$' => fault.help("inside an expression names stand bare, without ${…}"),
            '‘' | '’' | '“' | '”' => fault.help("strings stand in straight quotes"),
            _ => fault,
        })
    }

    fn word(&mut self) -> Result<TokenKind<'s>, CompileError> {
        let start = self.at;
        while let Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        let word = &self.source[start..self.at];
        if let Some(b'"' | b'\'') = self.bytes.get(self.at) {
            match word {
                "r" | "R" => return self.string(start, true, false),
                "b" | "B" => return self.string(start, false, true),
                "br" | "bR" | "Br" | "BR" | "rb" | "rB" | "Rb" | "RB" => return self.string(start, true, true),
                _ => {}
            }
        }
        Ok(match word {
            "true" => TokenKind::Literal(Value::Bool(true)),
            "false" => TokenKind::Literal(Value::Bool(false)),
            "null" => TokenKind::Literal(Value::Null),
            word => TokenKind::Ident(word),
        })
    }

    fn quoted(&mut self) -> Result<TokenKind<'s>, CompileError> {
        let start = self.at + 1;
        match memchr::memchr(b'`', &self.bytes[start..]) {
            Some(length) if length > 0 => {
                self.at = start + length + 1;
                Ok(TokenKind::Quoted(&self.source[start..start + length]))
            }
            _ => Err(CompileError::new(self.at, 1, "the quoted name does not end")),
        }
    }

    fn number(&mut self) -> Result<TokenKind<'s>, CompileError> {
        let start = self.at;
        let digits = |lexer: &mut Self| {
            while let Some(b'0'..=b'9') = lexer.bytes.get(lexer.at) {
                lexer.at += 1;
            }
        };
        let hexadecimal = self.bytes[start..].starts_with(b"0x") || self.bytes[start..].starts_with(b"0X");
        let mut float = false;
        if hexadecimal {
            self.at += 2;
            while self.bytes.get(self.at).is_some_and(u8::is_ascii_hexdigit) {
                self.at += 1;
            }
        } else {
            digits(self);
            if self.bytes.get(self.at) == Some(&b'.') && matches!(self.bytes.get(self.at + 1), Some(b'0'..=b'9')) {
                float = true;
                self.at += 1;
                digits(self);
            }
            if let Some(b'e' | b'E') = self.bytes.get(self.at) {
                let sign = matches!(self.bytes.get(self.at + 1), Some(b'+' | b'-')) as usize;
                if let Some(b'0'..=b'9') = self.bytes.get(self.at + 1 + sign) {
                    float = true;
                    self.at += 1 + sign;
                    digits(self);
                }
            }
        }
        let text = &self.source[start..self.at];
        let unsigned = !float && matches!(self.bytes.get(self.at), Some(b'u' | b'U'));
        self.at += unsigned as usize;
        if self.bytes.get(self.at).is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_') {
            let end = self.bytes[self.at..].iter().position(|next| !next.is_ascii_alphanumeric() && *next != b'_');
            let length = self.at - start + end.unwrap_or(self.bytes.len() - self.at);
            return Err(CompileError::new(start, length, "not a number"));
        }
        if float {
            return match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(TokenKind::Literal(Value::Float(number))),
                _ => Err(CompileError::new(start, text.len(), "the number is too large")),
            };
        }
        let parsed = if hexadecimal { u64::from_str_radix(&text[2..], 16) } else { text.parse() };
        match parsed {
            Ok(number) if unsigned => Ok(TokenKind::Literal(Value::UInt(number))),
            Ok(number) => Ok(TokenKind::Int(number)),
            Err(_) if hexadecimal && text.len() == 2 => Err(CompileError::new(start, 2, "digits must follow '0x'")),
            Err(_) => Err(CompileError::new(start, text.len(), "the integer does not fit into 64 bits")),
        }
    }

    /// `start` is where the prefix begins; the lexer stands at the first quote.
    fn string(&mut self, start: usize, raw: bool, bytes: bool) -> Result<TokenKind<'s>, CompileError> {
        let quote = self.bytes[self.at];
        let triple = self.bytes[self.at..].starts_with(&[quote; 3]);
        self.at += if triple { 3 } else { 1 };
        let mut text = Vec::new();
        loop {
            let Some(byte) = self.bytes.get(self.at) else {
                return Err(CompileError::new(start, self.bytes.len() - start, "the string does not end"));
            };
            match byte {
                byte if *byte == quote && !triple => {
                    self.at += 1;
                    break;
                }
                byte if *byte == quote && self.bytes[self.at..].starts_with(&[quote; 3]) => {
                    self.at += 3;
                    break;
                }
                b'\n' | b'\r' if !triple => {
                    return Err(CompileError::new(start, self.at - start, "the string does not end on its line")
                        .help("a string over several lines stands in triple quotes"));
                }
                b'\\' if !raw => self.escape(bytes, &mut text)?,
                byte => {
                    text.push(*byte);
                    self.at += 1;
                }
            }
        }
        if bytes {
            return Ok(TokenKind::Literal(Value::Bytes(text.into())));
        }
        // Only whole characters are pushed into a text, so this cannot fail.
        let text = String::from_utf8(text).map_err(|_| CompileError::new(start, self.at - start, "the string is not UTF-8"))?;
        Ok(TokenKind::Literal(Value::Str(text.into())))
    }

    fn escape(&mut self, bytes: bool, text: &mut Vec<u8>) -> Result<(), CompileError> {
        let start = self.at;
        let unknown = |length: usize, message: &'static str| Err(CompileError::new(start, length, message));
        let Some(letter) = self.bytes.get(start + 1) else { return unknown(1, "the string does not end") };
        let digits = |from: usize, count: usize, radix: u32| {
            let digits = self.source.get(from..from + count)?;
            digits.bytes().all(|digit| (digit as char).is_digit(radix)).then(|| u32::from_str_radix(digits, radix).ok())?
        };
        let (code, length) = match letter {
            b'a' => (Some(7), 2),
            b'b' => (Some(8), 2),
            b'f' => (Some(12), 2),
            b'n' => (Some(10), 2),
            b'r' => (Some(13), 2),
            b't' => (Some(9), 2),
            b'v' => (Some(11), 2),
            b'\\' | b'?' | b'"' | b'\'' | b'`' => (Some(*letter as u32), 2),
            b'x' | b'X' => (digits(start + 2, 2, 16), 4),
            b'u' if !bytes => (digits(start + 2, 4, 16), 6),
            b'U' if !bytes => (digits(start + 2, 8, 16), 10),
            b'0'..=b'3' => (digits(start + 1, 3, 8), 4),
            _ => {
                let length = self.source[start + 1..].chars().next().map_or(1, |letter| 1 + letter.len_utf8());
                return Err(CompileError::new(start, length, "an unknown escape in a string")
                    .help("a backslash itself is written '\\\\'; r'…' takes no escapes"));
            }
        };
        let Some(code) = code else { return unknown(2, "digits are missing in an escape") };
        match char::from_u32(code) {
            _ if bytes => text.push(code as u8),
            Some(character) => text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            None => return unknown(length, "the escape is no Unicode character"),
        }
        self.at = start + length;
        Ok(())
    }
}
