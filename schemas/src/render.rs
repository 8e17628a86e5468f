//! Faults as text for people, JSON for programs, SARIF for review tools.

use serde_json::{Value, json};
use unicode_width::UnicodeWidthChar;

use crate::{check::Severity, fault::Fault};

/// How a tab is shown.
const TAB: usize = 4;

impl Severity {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Each fault with its line, a caret below it and its help, and a last line that counts them. Empty without faults.
pub fn text(faults: &[Fault], colour: bool) -> String {
    let mut out = lines(faults, colour);
    if !faults.is_empty() {
        out.push_str(&counted(faults));
        out.push('\n');
    }
    out
}

/// Each fault with its line, a caret below it and its help.
pub fn lines(faults: &[Fault], colour: bool) -> String {
    let paint = Paint { colour };
    let mut out = String::new();
    for fault in faults {
        one(fault, paint, &mut out);
        out.push('\n');
    }
    out
}

/// How many there are: `2 errors, 1 warning`; `no faults`.
pub fn counted(faults: &[Fault]) -> String {
    let errors = faults.iter().filter(|fault| fault.is_error()).count();
    let warnings = faults.len() - errors;
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    match (errors, warnings) {
        (0, 0) => "no faults".to_owned(),
        (errors, 0) => plural(errors, "error"),
        (0, warnings) => plural(warnings, "warning"),
        (errors, warnings) => format!("{}, {}", plural(errors, "error"), plural(warnings, "warning")),
    }
}

#[derive(Clone, Copy)]
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn one(fault: &Fault, paint: Paint, out: &mut String) {
    let mark = if fault.is_error() { "1;31" } else { "1;33" };
    let place = if fault.line == 0 { clean(&fault.file) } else { format!("{}:{}:{}", clean(&fault.file), fault.line, fault.column) };
    let head = paint.with(mark, &format!("{}[{}]", fault.severity.name(), fault.code));
    out.push_str(&format!("{}: {head}: {}\n", paint.with("1", &place), clean(&fault.message)));
    let number = fault.line.to_string();
    let margin = " ".repeat(number.len());
    let bar = paint.with("34", "|");
    if let Some(excerpt) = &fault.excerpt {
        let before = (fault.column as usize).saturating_sub(excerpt.column as usize);
        let under = match fault.end.line == fault.line {
            true => (fault.end.column as usize).saturating_sub(fault.column as usize),
            false => usize::MAX,
        };
        let dots = |cut: bool| if cut { "…" } else { "" };
        let shown: String = excerpt.text.chars().map(shown).collect();
        out.push_str(&format!("{margin} {bar}\n"));
        let line = format!("{}{shown}{}", dots(excerpt.cut.0), dots(excerpt.cut.1));
        out.push_str(format!("{} {bar} {}", paint.with("34", &number), line).trim_end());
        out.push('\n');
        let indent: usize = usize::from(excerpt.cut.0) + excerpt.text.chars().take(before).map(width).sum::<usize>();
        let carets: usize = excerpt.text.trim_end().chars().skip(before).take(under).map(width).sum();
        out.push_str(&format!("{margin} {bar} {}{}\n", " ".repeat(indent), paint.with(mark, &"^".repeat(carets.max(1)))));
    }
    if let Some(help) = &fault.help {
        out.push_str(&format!("{margin} {} {}\n", paint.with("34", "="), clean(&format!("help: {help}"))));
    }
}

/// A character as it is shown: tabs as spaces, other control characters as a mark, so that no text can steer the terminal.
fn shown(c: char) -> String {
    match c {
        '\t' => " ".repeat(TAB),
        c if c.is_control() || is_direction(c) => "\u{fffd}".to_owned(),
        c => c.to_string(),
    }
}

fn width(c: char) -> usize {
    match c {
        '\t' => TAB,
        c if c.is_control() || is_direction(c) => 1,
        c => c.width().unwrap_or(0),
    }
}

/// Characters that change the direction of the text around them.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_direction(c) { '\u{fffd}' } else { c }).collect()
}

/// A list of `{file, line, column, code, severity, message, help}`.
pub fn json(faults: &[Fault]) -> String {
    let list: Vec<Value> = faults
        .iter()
        .map(|fault| {
            json!({
                "file": *fault.file, "line": fault.line, "column": fault.column, "code": fault.code,
                "severity": fault.severity.name(), "message": fault.message, "help": fault.help,
            })
        })
        .collect();
    format!("{:#}\n", Value::Array(list))
}

/// A SARIF 2.1.0 log of one run.
pub fn sarif(faults: &[Fault], version: &str) -> String {
    let mut rules: Vec<&str> = faults.iter().map(|fault| fault.code.as_ref()).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Value> = faults.iter().map(|fault| result(fault, &rules)).collect();
    let rules: Vec<Value> = rules.iter().map(|code| json!({"id": code, "shortDescription": {"text": code.replace('-', " ")}})).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "allium", "version": version, "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

fn result(fault: &Fault, rules: &[&str]) -> Value {
    let message = match &fault.help {
        Some(help) => format!("{}; {help}", fault.message),
        None => fault.message.clone(),
    };
    let (file, inner) = match fault.file.split_once(".binpb#") {
        Some((file, inner)) => (format!("{file}.binpb"), Some(inner)),
        None => (fault.file.to_string(), None),
    };
    let mut physical = json!({"artifactLocation": {"uri": uri(&file)}});
    if fault.line > 0 {
        let end = fault.end.max(crate::source::Position { line: fault.line, column: fault.column });
        physical["region"] = json!({
            "startLine": fault.line, "startColumn": fault.column, "endLine": end.line, "endColumn": end.column,
        });
    }
    let mut location = json!({"physicalLocation": physical});
    if let Some(inner) = inner {
        location["logicalLocations"] = json!([{"fullyQualifiedName": inner}]);
    }
    json!({
        "ruleId": fault.code,
        "ruleIndex": rules.binary_search(&fault.code.as_ref()).unwrap_or_default(),
        "level": fault.severity.name(),
        "message": {"text": message},
        "locations": [location],
    })
}

/// A path as a URI reference (RFC 3986): a first segment with a colon would be a scheme.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    if path.split('/').next().is_some_and(|first| first.contains(':')) {
        out.push_str("./");
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'+' | b'@' | b'=' | b',' | b':' => {
                out.push(byte as char)
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
