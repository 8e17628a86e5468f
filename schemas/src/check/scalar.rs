//! Texts, numbers, booleans and free JSON.

use super::{Checker, Finding, Severity, TextAt, place};
use crate::{
    form::Form,
    near,
    shape::{Field, Type},
    source::Span,
    tree::{Node, Path, Value},
    wire,
};

impl Checker<'_> {
    pub(super) fn scalar(&mut self, field: &Field, node: &Node<'_>, owner: Span, path: &Path<'_>, out: &mut Vec<u8>) {
        match (field.kind, &node.value) {
            (Type::Text, Value::Text(text)) => {
                self.text(field, node, text, path);
                wire::put_bytes(out, field.number, text.as_bytes());
            }
            (Type::Text, Value::Number(text)) if field.number_too => {
                self.text(field, node, text, path);
                wire::put_bytes(out, field.number, text.as_bytes());
            }
            (Type::Text, Value::Number(text)) if field.form.unit().is_some() => match field.form.check(text) {
                Err(fault) => self.text_fault(node, text, path, fault),
                Ok(()) => self.wrong("a text", node, owner, path),
            },
            (Type::Bool, Value::Bool(value)) => wire::put_whole(out, field.number, u64::from(*value)),
            (Type::Whole { signed }, Value::Number(text)) => match whole(text, signed) {
                Some(value) => {
                    self.range(field, value, node, path);
                    wire::put_whole(out, field.number, value as u64);
                }
                None => {
                    let expected = if signed { "a whole number" } else { "a whole number, not negative" };
                    self.fault(node.span, path, "bad-number", format!("expected {expected}, found {text}"), None);
                }
            },
            (Type::Number, Value::Number(text)) => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => wire::put_double(out, field.number, value),
                _ => self.fault(node.span, path, "bad-number", format!("{text} is too large"), None),
            },
            (Type::Text, _) => self.wrong("a text", node, owner, path),
            (Type::Bool, _) => self.wrong("true or false", node, owner, path),
            (Type::Whole { .. }, _) => self.wrong("a whole number", node, owner, path),
            (Type::Number, _) => self.wrong("a number", node, owner, path),
            (Type::Message(_), _) => {}
        }
    }

    fn wrong(&mut self, expected: &str, node: &Node<'_>, owner: Span, path: &Path<'_>) {
        let help = match (&node.value, expected) {
            (Value::Null, _) => Some("take the key away, or give it a value".to_owned()),
            (Value::Number(text), "a text") => Some(format!("write \"{text}\", in quotes")),
            (Value::Bool(value), "a text") => Some(format!("write \"{value}\", in quotes")),
            (Value::Text(text), "a whole number" | "a number" | "true or false") if text.contains("${") => {
                Some("no expression stands here: the value is fixed when the definition is loaded".to_owned())
            }
            (Value::Text(text), "true or false") => match text.to_lowercase().as_str() {
                "yes" | "on" | "y" | "true" => Some("write `true`".to_owned()),
                "no" | "off" | "n" | "false" => Some("write `false`".to_owned()),
                _ => None,
            },
            (Value::Text(text), "a whole number" | "a number") if text.parse::<f64>().is_ok() => {
                Some(format!("write {text}, without quotes"))
            }
            _ => None,
        };
        let message = match node.value {
            Value::Null => format!("the key has no value; expected {expected}"),
            _ => format!("expected {expected}, found {}", node.kind()),
        };
        self.fault(place(node, owner), path, "wrong-type", message, help);
    }

    fn range(&mut self, field: &Field, value: i128, node: &Node<'_>, path: &Path<'_>) {
        let below = field.least.is_some_and(|least| value < i128::from(least));
        let above = field.most.is_some_and(|most| value > i128::from(most));
        if below || above {
            let expected = match (field.least, field.most) {
                (Some(least), Some(most)) => format!("from {least} to {most}"),
                (Some(least), None) => format!("at least {least}"),
                (None, Some(most)) => format!("at most {most}"),
                (None, None) => return,
            };
            self.fault(node.span, path, "out-of-range", format!("`{}` must be {expected}, not {value}", field.name), None);
        }
    }

    fn text(&mut self, field: &Field, node: &Node<'_>, text: &str, path: &Path<'_>) {
        if !field.words.is_empty() && !field.words.iter().any(|word| word == text) {
            let message = format!("`{text}` is not one of {}", near::list(&field.words));
            let help = near::nearest(text, field.words.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`?"));
            return self.fault(node.span, path, "bad-word", message, help);
        }
        if field.form == Form::File {
            self.files.push(text.to_owned());
        }
        if field.secret {
            self.findings.push(Finding {
                span: node.span,
                pointer: path.to_string(),
                code: crate::hide::IN_SIGHT,
                severity: Severity::Warning,
                message: "a secret stands here in plain sight".to_owned(),
                help: Some("write `{env: NAME}` or `{file: PATH}`".to_owned()),
            });
        }
        self.formed(field.form, node, text, path);
    }

    /// Checks a text of a form, asking the judge where it is a language of its own.
    pub(crate) fn formed(&mut self, form: Form, node: &Node<'_>, text: &str, path: &Path<'_>) {
        if let Err(fault) = form.check(text) {
            return self.text_fault(node, text, path, fault);
        }
        if let (true, Some(judge)) = (form.is_language(), self.judge)
            && let Err(fault) = judge(TextAt { form, path }, text)
        {
            self.text_fault(node, text, path, fault);
        }
    }

    /// Free JSON: its text, and a check of the strings inside it.
    pub(super) fn json(&mut self, node: &Node<'_>, form: Form, path: &Path<'_>, out: &mut Vec<u8>) {
        wire::put_bytes(out, 1, node.to_json().as_bytes());
        match form {
            Form::Plain => {}
            Form::JsonSchema => crate::plugin::keywords(node, path, self),
            _ if self.judge.is_some() => self.texts(node, form, path),
            _ => {}
        }
    }

    fn texts(&mut self, node: &Node<'_>, form: Form, path: &Path<'_>) {
        match &node.value {
            Value::Text(text) => self.formed(form, node, text, path),
            Value::List(items) => items.iter().enumerate().for_each(|(at, item)| self.texts(item, form, &path.index(at))),
            Value::Map(entries) => entries.iter().for_each(|entry| self.texts(&entry.node, form, &path.key(&entry.key))),
            _ => {}
        }
    }
}

fn whole(text: &str, signed: bool) -> Option<i128> {
    if signed { text.parse::<i64>().ok().map(i128::from) } else { text.parse::<u64>().ok().map(i128::from) }
}
