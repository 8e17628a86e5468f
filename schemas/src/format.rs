//! The canonical layout of a YAML file: two spaces a level, no trailing spaces, one line break at the end. Comments, quotes,
//! order and the layout inside flow collections stay as they are.
//!
//! Only white space is ever touched, and the result is read again: where it would mean anything else, nothing is changed.

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::{
    fault::Fault,
    load::Input,
    source::{Source, Span},
    tree::Node,
    yaml,
};

/// Lays a definition file out anew. A file that cannot be read is told by its faults and stays as it is; `.binpb` has no layout.
pub fn format(input: &Input) -> Result<String, Vec<Fault>> {
    let name = input.name.clone();
    let Ok(text) = std::str::from_utf8(&input.bytes) else {
        return Err(vec![Fault::of_file(name, "bad-utf8", "the file is not UTF-8")]);
    };
    let source = Source::new(name.clone(), text.to_owned());
    let told = |faults: Vec<yaml::ReadFault>| -> Vec<Fault> {
        faults.into_iter().map(|fault| Fault { help: fault.help, ..Fault::at(&source, fault.span, fault.code, fault.message) }).collect()
    };
    if input.name.ends_with(".json") {
        let read = crate::json::read(text, Span::new(0, text.len()));
        return match read.root {
            Some(root) if read.faults.is_empty() => Ok(crate::emit::json(&root)),
            None if read.faults.is_empty() => Ok(String::new()),
            _ => Err(told(read.faults)),
        };
    }
    let faults: Vec<yaml::ReadFault> = yaml::documents(text).into_iter().flat_map(|span| yaml::read(text, span).faults).collect();
    if !faults.is_empty() {
        return Err(told(faults));
    }
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for span in yaml::documents(&text) {
        // Comments and blank lines between documents belong to the one after them.
        let piece = &text[from..span.end as usize];
        from = span.end as usize;
        match laid_out(piece) {
            Some(laid) if same(piece, &laid) => out.push_str(&laid),
            _ => {
                return Err(vec![Fault::of_file(
                    name,
                    "not-formatted",
                    "this file's layout cannot be changed without changing its meaning",
                )]);
            }
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out.push_str(text[from..].trim_end());
    let out = out.trim_end();
    Ok(if out.is_empty() { String::new() } else { format!("{out}\n") })
}

/// Whether two texts mean the same and hold the same characters but for white space.
fn same(before: &str, after: &str) -> bool {
    let dense = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let (old, new) = (trees(before), trees(after));
    dense(before) == dense(after)
        && old.len() == new.len()
        && old.iter().zip(&new).all(|(old, new)| match (old, new) {
            (Some(old), Some(new)) => old.same(new),
            (None, None) => true,
            _ => false,
        })
}

fn trees(text: &str) -> Vec<Option<Node<'_>>> {
    yaml::documents(text).into_iter().map(|span| yaml::read(text, span).root).collect()
}

/// What the parser knows of each line of one document.
#[derive(Default)]
struct Facts {
    /// Columns at which a key of a block map stands, by line.
    keys: Vec<Vec<usize>>,
    /// Lines that go on with a flow collection or a scalar of several lines, with the line on which it began.
    inner: Vec<Option<usize>>,
    /// Lines at whose end a block scalar begins.
    block: Vec<bool>,
}

fn facts(text: &str) -> Option<Facts> {
    let written: Vec<&str> = text.split('\n').collect();
    let lines = written.len() + 1;
    let mut facts = Facts { keys: vec![Vec::new(); lines], inner: vec![None; lines], block: vec![false; lines] };
    // For each open collection: whether it is flow, the line of its start, and for maps whether a key comes next.
    let mut open: Vec<(bool, usize, Option<bool>)> = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.ok()?;
        let (line, column) = (span.start.line() - 1, span.start.col());
        let (mut is_value, mut is_scalar_key) = (false, false);
        match &event {
            Event::Scalar(..) | Event::Alias(_) => {
                is_value = true;
                if let Some((flow, _, Some(key))) = open.last() {
                    is_scalar_key = *key && !*flow;
                }
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if let Some((_, _, Some(key))) = open.last_mut() {
                    *key = !*key;
                }
                let flow = matches!(chars.get(span.start.index()), Some('{' | '['))
                    || open.last().is_some_and(|(flow, ..)| *flow)
                    || chars.get(span.end.index().wrapping_sub(1)).is_some_and(|c| matches!(c, '{' | '['));
                open.push((flow, line, matches!(event, Event::MappingStart(..)).then_some(true)));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (flow, start, _) = open.pop()?;
                if flow {
                    let end = span.end.line() - 1;
                    facts.inner.iter_mut().take(end + 1).skip(start + 1).for_each(|inner| *inner = Some(start));
                }
            }
            _ => {}
        }
        if is_scalar_key {
            // An anchor or tag stands before the key: the line's first character is taken where it is further left.
            facts.keys.get_mut(line)?.push(column);
        }
        if is_value && let Some((_, _, Some(key))) = open.last_mut() {
            *key = !*key;
        }
        if let Event::Scalar(_, style, ..) = &event {
            match style {
                ScalarStyle::Literal | ScalarStyle::Folded => {
                    let mut header = line;
                    // The scalar's place may be told at its content rather than at its indicator.
                    if !matches!(chars.get(span.start.index()), Some('|' | '>')) {
                        header = header.saturating_sub(1);
                        while header > 0 && written.get(header).is_some_and(|line| line.trim().is_empty()) {
                            header -= 1;
                        }
                    }
                    *facts.block.get_mut(header)? = true;
                }
                _ => {
                    let content: String = chars.get(span.start.index()..span.end.index())?.iter().collect();
                    let end = line + content.trim_end().matches('\n').count();
                    (line + 1..=end).for_each(|at| {
                        if let Some(inner) = facts.inner.get_mut(at) {
                            inner.get_or_insert(line);
                        }
                    });
                }
            }
        }
    }
    Some(facts)
}

/// A block collection that is open: its columns before and after.
struct Level {
    old: usize,
    new: usize,
    is_list: bool,
}

struct Layout<'t> {
    lines: Vec<&'t str>,
    facts: Facts,
    levels: Vec<Level>,
    out: Vec<String>,
    /// How far each line moved.
    moved: Vec<isize>,
    /// The column of the first line below each that is neither blank nor a comment.
    next: Vec<Option<usize>>,
}

fn laid_out(text: &str) -> Option<String> {
    let facts = facts(text)?;
    let lines: Vec<&str> = text.split('\n').collect();
    let count = lines.len();
    let mut next = vec![None; count];
    for at in (1..count).rev() {
        let text = lines[at].trim();
        next[at - 1] = if text.is_empty() || text.starts_with('#') { next[at] } else { Some(indent_of(lines[at])) };
    }
    let mut layout = Layout { lines, facts, levels: Vec::new(), out: Vec::new(), moved: vec![0; count], next };
    let mut at = 0;
    while at < count {
        at = layout.line(at);
    }
    Some(layout.out.join("\n"))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

impl Layout<'_> {
    /// Lays out the line, and those that go with it; tells the next one.
    fn line(&mut self, at: usize) -> usize {
        let line = self.lines[at];
        let body = line.trim_end();
        if body.trim_start().is_empty() {
            // One blank line parts; more say nothing.
            if !self.out.last().is_none_or(|last| last.is_empty()) || at + 1 == self.lines.len() {
                self.out.push(String::new());
            }
            return at + 1;
        }
        if let Some(start) = self.facts.inner[at] {
            let least = self.levels.last().map_or(0, |level| level.new + 1) as isize;
            let indent = (indent_of(line) as isize + self.moved[start]).max(least) as usize;
            self.moved[at] = self.moved[start];
            // The end of a line inside quotes may hold a space before an escaped break: it is kept.
            self.out.push(format!("{}{}", " ".repeat(indent), body.trim_start()));
            return self.block_body(at);
        }
        if body.trim_start().starts_with('#') {
            let indent = self.comment_indent(at);
            self.out.push(format!("{}{}", " ".repeat(indent), body.trim_start()));
            return at + 1;
        }
        let marker = |mark: &str| body.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if marker("---") || marker("...") || body.starts_with('%') {
            self.levels.clear();
            self.out.push(body.to_owned());
            return self.block_body(at);
        }
        let laid = self.entry(at, body);
        self.moved[at] = indent_of(&laid) as isize - indent_of(line) as isize;
        self.out.push(laid);
        self.block_body(at)
    }

    /// A line that begins an entry of a block list or map, or a scalar of its own.
    fn entry(&mut self, at: usize, body: &str) -> String {
        let mut column = indent_of(body);
        let mut rest = &body[column..];
        let mut laid = String::new();
        let mut first = true;
        loop {
            let dash = rest == "-" || rest.starts_with("- ");
            let is_key =
                !dash && self.facts.keys[at].iter().any(|key| *key >= column && (*key == column || rest.starts_with(['&', '!', '?'])));
            if !dash && !is_key {
                break;
            }
            let new = self.enter(column, dash, first);
            if first {
                laid.push_str(&" ".repeat(new));
                first = false;
            }
            if !dash {
                break;
            }
            let after = rest[1..].trim_start();
            if after.is_empty() || after.starts_with('#') {
                break;
            }
            laid.push_str("- ");
            column += rest.len() - after.len();
            rest = after;
        }
        if first {
            // A value on a line of its own: one level inside what holds it.
            let indent = self.levels.last().map_or(0, |level| level.new + 2);
            laid.push_str(&" ".repeat(indent));
        }
        laid + rest
    }

    /// The new column of a block collection whose entry stands at this column.
    fn enter(&mut self, column: usize, is_list: bool, first: bool) -> usize {
        if first {
            // A list may stand at the very column of the map that holds it.
            while self.levels.last().is_some_and(|level| level.old > column || (level.old == column && level.is_list && !is_list)) {
                self.levels.pop();
            }
            if let Some(level) = self.levels.last().filter(|level| level.old == column && level.is_list == is_list) {
                return level.new;
            }
        }
        let new = self.levels.last().map_or(0, |level| level.new + 2);
        self.levels.push(Level { old: column, new, is_list });
        new
    }

    /// The lines of a block scalar that begins at the end of this line.
    fn block_body(&mut self, at: usize) -> usize {
        if !self.facts.block[at] {
            return at + 1;
        }
        let (old, new) = self.levels.last().map_or((-1, -2), |level| (level.old as isize, level.new as isize));
        let is_body = |line: &str| line.trim().is_empty() || indent_of(line) as isize > old;
        let mut end = at + 1;
        while end < self.lines.len() && is_body(self.lines[end]) && !(old < 0 && self.lines[end].starts_with("---")) {
            end += 1;
        }
        while end > at + 1 && self.lines[end - 1].trim().is_empty() {
            end -= 1;
        }
        let least =
            self.lines[at + 1..end].iter().filter(|line| !line.trim().is_empty()).map(|line| indent_of(line)).min().unwrap_or(0) as isize;
        let header = self.lines[at].trim_end();
        let header = header.rsplit_once(['|', '>']).map_or("", |(_, rest)| rest);
        let explicit = header.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit());
        let shift = if explicit { new - old } else { new + 2 - least };
        for line in &self.lines[at + 1..end] {
            if line.trim().is_empty() && indent_of(line) as isize + shift <= 0 {
                self.out.push(String::new());
                continue;
            }
            let indent = (indent_of(line) as isize + shift).max(0) as usize;
            let text = line.trim_start_matches(' ');
            self.out.push(if text.is_empty() { String::new() } else { format!("{}{text}", " ".repeat(indent)) });
        }
        end
    }

    /// A comment goes with the level whose column it stands at, otherwise with the next entry.
    fn comment_indent(&self, at: usize) -> usize {
        let column = indent_of(self.lines[at]);
        let next_column = self.next[at];
        let known = self.levels.iter().rev().find(|level| level.old == column).map(|level| level.new);
        match (next_column, known) {
            (_, Some(new)) => new,
            (Some(next), None) if next > self.levels.last().map_or(0, |level| level.old) => {
                self.levels.last().map_or(0, |level| level.new + 2)
            }
            (Some(next), None) => self.levels.iter().rev().find(|level| level.old <= next).map_or(0, |level| level.new),
            (None, None) => self.levels.iter().rev().find(|level| level.old <= column).map_or(0, |level| level.new),
        }
    }
}
