//! Documents made at random, each with the model that it must be read as.

use super::super::{JsonEdits, JsonRef, Kind, push_string};

/// xorshift64*: the same documents on every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1);
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn text(&mut self) -> String {
        const CHARACTERS: [char; 22] = [
            'a', 'b', 'Z', '0', ' ', '/', '"', '\\', '\n', '\t', '\r', '\u{8}', '\u{c}', '\u{0}', '\u{1f}', 'é', '中', '😀', '\u{2028}',
            '{', '$', '\u{7f}',
        ];
        (0..self.below(14)).map(|_| CHARACTERS[self.below(CHARACTERS.len())]).collect()
    }

    fn number(&mut self) -> String {
        let mut text = String::new();
        if self.below(3) == 0 {
            text.push('-');
        }
        let digits = [1, 2, 5, 19, 40][self.below(5)];
        if self.below(5) == 0 {
            text.push('0');
        } else {
            text.push((b'1' + self.below(9) as u8) as char);
            (1..digits).for_each(|_| text.push((b'0' + self.below(10) as u8) as char));
        }
        if self.below(3) == 0 {
            text.push('.');
            (0..=self.below(20)).for_each(|_| text.push((b'0' + self.below(10) as u8) as char));
        }
        if self.below(4) == 0 {
            text.push_str(["e", "E", "e+", "E-"][self.below(4)]);
            text.push_str(&self.below(400).to_string());
        }
        text
    }

    pub fn model(&mut self, depth: usize) -> Model {
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => Model::Null,
            1 => Model::Bool(self.below(2) == 0),
            2 | 3 => Model::Number(self.number()),
            4 => Model::Text(self.text()),
            5 | 6 => Model::List((0..self.below(5)).map(|_| self.model(depth - 1)).collect()),
            _ => {
                let mut members: Vec<(String, Model)> = Vec::new();
                let count = if self.below(20) == 0 { 40 } else { self.below(5) };
                for _ in 0..count {
                    let (key, value) = (self.text(), self.model(depth - 1));
                    if members.iter().all(|(known, _)| *known != key) {
                        members.push((key, value));
                    }
                }
                Model::Object(members)
            }
        }
    }

    pub fn write(&mut self, model: &Model, out: &mut String) {
        self.space(out);
        match model {
            Model::Null => out.push_str("null"),
            Model::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Model::Number(text) => out.push_str(text),
            Model::Text(text) => self.string(text, out),
            Model::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    self.write(item, out);
                }
                self.space(out);
                out.push(']');
            }
            Model::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    self.space(out);
                    self.string(key, out);
                    self.space(out);
                    out.push(':');
                    self.write(value, out);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }

    fn space(&mut self, out: &mut String) {
        if self.below(4) == 0 {
            out.push_str([" ", "\n", "\t", "\r\n  "][self.below(4)]);
        }
    }

    /// Plainly or with every character escaped.
    fn string(&mut self, text: &str, out: &mut String) {
        if self.below(3) > 0 {
            let mut bytes = Vec::new();
            push_string(text, &mut bytes);
            out.push_str(std::str::from_utf8(&bytes).unwrap());
            return;
        }
        out.push('"');
        for unit in text.encode_utf16() {
            out.push_str(&if self.below(2) == 0 { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") });
        }
        out.push('"');
    }

    /// Edits the document at random places, and the model in the same way.
    pub fn edit(&mut self, model: &mut Model, json: JsonRef<'_>, edits: &mut JsonEdits<'_>) {
        if self.below(8) == 0 {
            *model = self.model(1);
            let mut text = String::new();
            self.write(model, &mut text);
            return edits.replace(json, text).unwrap();
        }
        match model {
            Model::List(items) => {
                let mut kept = Vec::new();
                for (mut item, child) in std::mem::take(items).into_iter().zip(json.items()) {
                    if self.below(5) == 0 {
                        edits.remove_value(child).unwrap();
                    } else {
                        self.edit(&mut item, child, edits);
                        kept.push(item);
                    }
                }
                *items = kept;
            }
            Model::Object(members) => {
                let mut kept = Vec::new();
                for ((key, mut value), (_, child)) in std::mem::take(members).into_iter().zip(json.members()) {
                    if self.below(5) == 0 {
                        edits.remove_value(child).unwrap();
                    } else {
                        self.edit(&mut value, child, edits);
                        kept.push((key, value));
                    }
                }
                *members = kept;
            }
            _ => {}
        }
    }
}

/// What a document must be read as.
#[derive(Debug)]
pub enum Model {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Model>),
    Object(Vec<(String, Model)>),
}

impl Model {
    pub fn check(&self, json: JsonRef<'_>) {
        match self {
            Self::Null => assert!(json.is_null()),
            Self::Bool(value) => assert_eq!(json.as_bool(), Some(*value)),
            Self::Number(text) => assert_eq!(json.as_number(), Some(text.as_str())),
            Self::Text(text) => assert_eq!(json.as_str().as_deref(), Some(text.as_str())),
            Self::List(items) => {
                assert_eq!((json.kind(), json.len(), json.items().count()), (Kind::Array, items.len(), items.len()));
                items.iter().zip(json.items()).for_each(|(item, json)| item.check(json));
                items.iter().enumerate().for_each(|(at, item)| item.check(json.index(at).unwrap()));
            }
            Self::Object(members) => {
                assert_eq!((json.kind(), json.len(), json.members().count()), (Kind::Object, members.len(), members.len()));
                for ((key, value), (name, json)) in members.iter().zip(json.members()) {
                    assert_eq!(name.as_str().as_deref(), Some(key.as_str()));
                    value.check(json);
                }
                members.iter().for_each(|(key, value)| value.check(json.get(key).unwrap()));
            }
        }
    }
}
