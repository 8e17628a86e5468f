//! Trees into YAML and JSON text.

use crate::{
    tree::{Entry, Node, Value, write_text},
    yaml,
};

/// How long a list of plain values may be on one line.
const LINE: usize = 100;

/// A document as YAML: block style, two spaces, short lists on one line. Ends with a line break.
pub fn yaml(node: &Node<'_>) -> String {
    let mut out = String::new();
    block(node, 0, Place::Line, &mut out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// A document as JSON with two spaces; numbers keep their digits. Ends with a line break.
pub fn json(node: &Node<'_>) -> String {
    let mut out = String::new();
    pretty(node, 0, &mut out);
    out.push('\n');
    out
}

/// Where a value begins: on a line of its own, after `key:`, or after `-`.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Line,
    Key,
    Dash,
}

fn block(node: &Node<'_>, indent: usize, place: Place, out: &mut String) {
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            for (at, entry) in entries.iter().enumerate() {
                begin(at, indent, place, out);
                key(&entry.key, out);
                out.push(':');
                block(&entry.node, indent + 2, Place::Key, out);
            }
        }
        Value::List(items) if !items.is_empty() => {
            if let Some(line) = flow(items).filter(|line| line.len() + indent <= LINE) {
                space(place, out);
                out.push_str(&line);
                out.push('\n');
                return;
            }
            for (at, item) in items.iter().enumerate() {
                begin(at, indent, place, out);
                out.push('-');
                block(item, indent + 2, Place::Dash, out);
            }
        }
        _ => {
            space(place, out);
            scalar(node, indent, out);
            out.push('\n');
        }
    }
}

fn begin(at: usize, indent: usize, place: Place, out: &mut String) {
    match (at, place) {
        (0, Place::Dash) => out.push(' '),
        (0, Place::Key) => {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
        }
        _ => out.push_str(&" ".repeat(indent)),
    }
}

fn space(place: Place, out: &mut String) {
    if place != Place::Line {
        out.push(' ');
    }
}

/// A list of plain values on one line.
fn flow(items: &[Node<'_>]) -> Option<String> {
    let mut line = String::from("[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            line.push_str(", ");
        }
        match &item.value {
            Value::Text(text) if text.len() < 40 && !text.contains('\n') => {
                if plain(text) && !text.contains([',', '[', ']', '{', '}']) {
                    line.push_str(text)
                } else {
                    quoted(text, &mut line)
                }
            }
            Value::Number(_) | Value::Bool(_) => item.write_json(&mut line),
            _ => return None,
        }
    }
    line.push(']');
    Some(line)
}

fn key(text: &str, out: &mut String) {
    // A key longer than 1024 characters may not stand before its colon without `?`; none of ours is.
    if plain(text) && !text.contains([',', '[', ']', '{', '}']) { out.push_str(text) } else { quoted(text, out) }
}

fn scalar(node: &Node<'_>, indent: usize, out: &mut String) {
    match &node.value {
        Value::Text(text) if literal(text) => {
            let end = text.len() - text.trim_end_matches('\n').len();
            out.push_str(match end {
                0 => "|-",
                1 => "|",
                _ => "|+",
            });
            let body = if end == 0 { text.as_ref() } else { &text[..text.len() - 1] };
            for line in body.split('\n') {
                out.push('\n');
                if !line.is_empty() {
                    out.push_str(&" ".repeat(indent.max(2)));
                    out.push_str(line);
                }
            }
        }
        Value::Text(text) if plain(text) => out.push_str(text),
        Value::Text(text) => quoted(text, out),
        _ => node.write_json(out),
    }
}

/// Whether a text of several lines may stand as a literal block: nothing in it that a block would lose or that cannot be seen.
fn literal(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with(['\n', ' ', '\t'])
        && text.trim_end_matches('\n').split('\n').all(|line| !line.ends_with([' ', '\t']) && line.chars().all(|c| c == '\t' || visible(c)))
}

fn visible(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a text may stand without quotes and is still a text, for readers of YAML 1.1 too.
fn plain(text: &str) -> bool {
    let words = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "<<", "="];
    let first = text.chars().next();
    first.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '_' | '.' | '$' | '^' | '(' | ';'))
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("...")
        && text.chars().all(visible)
        && !words.iter().any(|word| text.eq_ignore_ascii_case(word))
        && !yaml::is_number(text)
        && !text.starts_with(|c: char| {
            c.is_ascii_digit() && text.contains(':') && text.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '.' | '_'))
        })
}

fn quoted(text: &str, out: &mut String) {
    if text.chars().all(|c| visible(c) || matches!(c, '\n' | '\r' | '\t')) {
        return write_text(out, text);
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if visible(c) => out.push(c),
            c => out.push_str(&format!("\\u{:04x}", c as u32)),
        }
    }
    out.push('"');
}

fn pretty(node: &Node<'_>, indent: usize, out: &mut String) {
    let line = |indent: usize, out: &mut String| {
        out.push('\n');
        out.push_str(&" ".repeat(indent));
    };
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            out.push('{');
            for (at, Entry { key, node, .. }) in entries.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                line(indent + 2, out);
                write_text(out, key);
                out.push_str(": ");
                pretty(node, indent + 2, out);
            }
            line(indent, out);
            out.push('}');
        }
        Value::List(items) if !items.is_empty() => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                line(indent + 2, out);
                pretty(item, indent + 2, out);
            }
            line(indent, out);
            out.push(']');
        }
        _ => node.write_json(out),
    }
}
