//! A report as text for people.
use std::collections::HashSet;

use schemas::{
    emit,
    tree::{Node, Value, escape},
};

use super::nodes::{Tree, at, entries, entry, items, word};
use crate::command::terminal::Paint;

/// The whole report; ends with a line break.
pub fn write(report: &Tree, paint: Paint) -> String {
    let mut page = Page { out: String::new(), paint };
    page.head(report);
    page.matches(report);
    if at(report, "/rings").is_some() {
        page.rings(items(report, "/rings"));
    }
    page.target(report);
    if let Some(it) = at(report, "/outbound") {
        page.title("Outbound: how the answer is shaped");
        page.block(it, &HashSet::new(), 2);
    }
    if let Some(it) = at(report, "/unmasked") {
        page.title("Not masked: fields of the answer that are named like personal data, and that no rule of `desensitize` covers");
        page.block(it, &HashSet::new(), 2);
    }
    if let Some(it) = at(report, "/upstream") {
        page.title("Upstream");
        page.upstream(it);
    }
    if let Some(it) = at(report, "/definition") {
        page.title("Definition");
        page.block(it, &HashSet::new(), 2);
    }
    if at(report, "/used_by").is_some() {
        page.title("Used by");
        let users: Vec<&str> = items(report, "/used_by").iter().filter_map(|it| it.text()).collect();
        page.line(2, if users.is_empty() { "nothing".to_owned() } else { users.join(", ") });
    }
    page.out
}

struct Page {
    out: String,
    paint: Paint,
}

impl Page {
    fn line(&mut self, indent: usize, text: impl AsRef<str>) {
        self.out.push_str(&" ".repeat(indent));
        self.out.push_str(text.as_ref());
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.out.push('\n');
    }

    fn title(&mut self, text: &str) {
        self.out.push('\n');
        let text = self.paint.bold(text);
        self.line(0, text);
    }

    /// `key   text`.
    fn fact(&mut self, indent: usize, key: &str, text: impl AsRef<str>) {
        let key = if text.as_ref().is_empty() { self.paint.dim(key) } else { self.paint.dim(&format!("{key:<9}")) };
        self.line(indent, format!("{key} {}", text.as_ref()));
    }

    fn head(&mut self, report: &Tree) {
        let of = |key: &str| word(report, key);
        let version = of("/version").map_or(String::new(), |it| format!("@{it}"));
        let title = format!("{} {}{version}", of("/kind").unwrap_or_default(), of("/name").unwrap_or_default());
        let summary = of("/summary").map_or(String::new(), |it| format!(": {}", flat(it)));
        let title = self.paint.bold(&title);
        self.line(0, format!("{title}{summary}"));
        self.fact(2, "written", place(report));
        if let Some(it) = of("/owner") {
            self.fact(2, "owner", flat(it));
        }
        let tags: Vec<&str> = items(report, "/tags").iter().filter_map(|it| it.text()).collect();
        if !tags.is_empty() {
            self.fact(2, "tags", tags.join(", "));
        }
        let Some(state) = of("/state") else { return };
        let means = match state {
            "draft" => "draft: answers 404, as if it were not there".to_owned(),
            "retired" => "retired: answers 410".to_owned(),
            "deprecated" => "deprecated: its answers say so".to_owned(),
            other => other.to_owned(),
        };
        let sunset = of("/sunset").map_or(String::new(), |it| format!(", ends on {it}"));
        let successor = of("/successor/name").map_or(String::new(), |name| {
            let version = of("/successor/version").map_or(String::new(), |it| format!("@{it}"));
            format!(", then use {name}{version}")
        });
        self.fact(2, "state", format!("{means}{sunset}{successor}"));
    }

    fn matches(&mut self, report: &Tree) {
        let patterns = items(report, "/match");
        if patterns.is_empty() {
            return;
        }
        self.title("Matches");
        for it in patterns.iter().filter_map(|it| it.text()) {
            self.line(2, it);
        }
        if let Some(when) = word(report, "/when") {
            self.fact(2, "when", flat(when));
            self.fact(2, "order", format!("{}, among others of the same pattern", word(report, "/order").unwrap_or("0")));
        }
    }

    fn rings(&mut self, rings: &[Tree]) {
        self.title("Rings, outermost first");
        if rings.is_empty() {
            self.line(2, "none");
        }
        for it in rings {
            let of = |key: &str| word(it, key);
            let number = format!("{:>2}", of("/number").unwrap_or_default());
            let name = self.paint.bold(of("/ring").unwrap_or_default());
            let preset = of("/preset").map_or(String::new(), |it| format!("  from the Preset {it}"));
            let place = if of("/file").is_some() { place(it) } else { "its usual place: innermost".to_owned() };
            let place = self.paint.dim(&format!("  ({place})"));
            self.line(0, format!("{number}  {name}{preset}{place}"));
            self.line(4, of("/about").unwrap_or_default());
            if let Some(when) = of("/when") {
                self.fact(4, "when", flat(when));
            }
            self.fact(4, "reads", of("/reads").unwrap_or("nothing"));
            self.fact(4, "answers", of("/answers").unwrap_or("nothing by itself"));
            self.params(it);
            let filled: HashSet<&str> = items(it, "/defaults").iter().filter_map(|it| it.text()).collect();
            if let Some(config) = at(it, "/config").filter(|it| !empty(it)) {
                let config = visible(config, &filled, "");
                if !empty(&config) {
                    self.fact(4, "config", "");
                    self.block(&config, &filled, 6);
                }
            }
        }
    }

    fn params(&mut self, ring: &Tree) {
        let params = entries(ring, "/params");
        let wide = params.iter().map(|it| it.key.chars().count()).max().unwrap_or(0);
        for (at, it) in params.iter().enumerate() {
            let of = |key: &str| word(&it.node, key);
            let required = if of("/required") == Some("true") { "required" } else { "optional" };
            let kind = of("/type").map_or_else(|| inline(&it.node, "type").unwrap_or_else(|| "any".to_owned()), str::to_owned);
            let mut line = format!("{:<wide$}  {:<6}  {kind:<7}  {required}", it.key, of("/in").unwrap_or_default());
            for entry in entries(&it.node, "").iter().filter(|it| !["in", "type", "required"].contains(&&*it.key)) {
                line.push_str(&format!("  {}: {}", entry.key, inline(&it.node, &entry.key).unwrap_or_default()));
            }
            self.fact(4, if at == 0 { "params" } else { "" }, line);
        }
        if let Some(body) = at(ring, "/body") {
            self.fact(4, "body", "");
            self.block(body, &HashSet::new(), 6);
        }
    }

    fn target(&mut self, report: &Tree) {
        let Some(call) = at(report, "/target/call") else { return };
        self.title("Target");
        let filled: HashSet<&str> = items(report, "/target/defaults").iter().filter_map(|it| it.text()).collect();
        let mut call = call.clone();
        // What a call does where nothing is written stands where it would be written.
        let effective: Vec<(String, Tree)> = entries(report, "/target/effective")
            .iter()
            .map(|it| {
                (
                    if ["method", "path", "host"].contains(&&*it.key) { format!("/http/{}", it.key) } else { format!("/{}", it.key) },
                    it.node.clone(),
                )
            })
            .collect();
        for (pointer, node) in &effective {
            let (inner, key) = pointer.rsplit_once('/').unwrap_or_default();
            let map = if inner.is_empty() { Some(&mut call) } else { child(&mut call, &inner[1..]) };
            if let Some(Node { value: Value::Map(entries), .. }) = map {
                entries.push(entry(key.to_owned(), node.clone()));
            }
        }
        let filled: HashSet<&str> = filled.into_iter().chain(effective.iter().map(|it| it.0.as_str())).collect();
        self.block(&visible(&call, &filled, ""), &filled, 2);
        if let Some(it) = at(report, "/target/upstream") {
            let file = if word(it, "/file").is_some() { format!(" ({})", place(it)) } else { ", made for this URL".to_owned() };
            self.title(&format!("Upstream{file}"));
            self.upstream(it);
        }
    }

    fn upstream(&mut self, it: &Tree) {
        let filled: HashSet<&str> = items(it, "/defaults").iter().filter_map(|it| it.text()).collect();
        if let Some(definition) = at(it, "/definition") {
            self.block(&visible(definition, &filled, ""), &filled, 2);
        }
    }

    /// YAML, with a mark at what was filled in.
    fn block(&mut self, node: &Node<'static>, filled: &HashSet<&str>, indent: usize) {
        for line in lines(node, filled, "", false, self.paint) {
            self.line(if line.is_empty() { 0 } else { indent }, line);
        }
    }
}

/// The lines of a map or list as YAML. `inherited`: all of it was filled in.
fn lines(node: &Node<'static>, filled: &HashSet<&str>, pointer: &str, inherited: bool, paint: Paint) -> Vec<String> {
    let mark = paint.dim("  # default");
    let within = |pointer: &str| filled.iter().any(|it| it.strip_prefix(pointer).is_some_and(|rest| rest.starts_with('/')));
    let mut out = Vec::new();
    match &node.value {
        Value::List(items) => {
            for (at, item) in items.iter().enumerate() {
                let inner = lines(item, filled, &format!("{pointer}/{at}"), inherited, paint);
                out.extend(inner.into_iter().enumerate().map(|(at, it)| format!("{} {it}", if at == 0 { "-" } else { " " })));
            }
        }
        Value::Map(inner) => {
            for it in inner {
                let pointer = format!("{pointer}/{}", escape(&it.key));
                let default = inherited || filled.contains(pointer.as_str());
                let alone = |node: Node<'static>| emit::yaml(&Node::unplaced(Value::Map(vec![entry(it.key.clone(), node)])));
                let deep = matches!(&it.node.value, Value::Map(inner) if !inner.is_empty() && (default || within(&pointer)));
                if deep || matches!(&it.node.value, Value::List(_) if within(&pointer)) {
                    out.push(alone(Node::unplaced(Value::Null)).trim_end().trim_end_matches("null").trim_end().to_owned());
                    out.extend(lines(&it.node, filled, &pointer, default, paint).into_iter().map(|it| format!("  {it}")));
                } else {
                    let text = alone(it.node.clone());
                    out.extend(
                        text.lines().enumerate().map(|(at, it)| if at == 0 && default { format!("{it}{mark}") } else { it.to_owned() }),
                    );
                }
            }
        }
        _ => out.extend(emit::yaml(node).lines().map(str::to_owned)),
    }
    out
}

/// Without defaults that are nothing: an empty list, an empty map, null.
fn visible(node: &Node<'static>, filled: &HashSet<&str>, pointer: &str) -> Tree {
    let Value::Map(inner) = &node.value else { return node.clone() };
    let kept = inner.iter().filter_map(|it| {
        let pointer = format!("{pointer}/{}", escape(&it.key));
        let default = filled.contains(pointer.as_str());
        // What is inside of a default is one too.
        let inside: HashSet<&str> = HashSet::new();
        let mut node = visible(&it.node, if default { &inside } else { filled }, &pointer);
        if default {
            node = hollow(node);
        }
        (!(default && empty(&node))).then(|| entry(it.key.clone(), node))
    });
    Node::unplaced(Value::Map(kept.collect()))
}

/// A default without what is empty in it.
fn hollow(node: Tree) -> Tree {
    match node.value {
        Value::Map(inner) => {
            let kept = inner.into_iter().map(|it| entry(it.key, hollow(it.node))).filter(|it| !empty(&it.node));
            Node::unplaced(Value::Map(kept.collect()))
        }
        value => Node::unplaced(value),
    }
}

fn child<'t>(node: &'t mut Tree, key: &str) -> Option<&'t mut Tree> {
    match &mut node.value {
        Value::Map(entries) => entries.iter_mut().find(|it| it.key == key).map(|it| &mut it.node),
        _ => None,
    }
}

fn empty(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Null => true,
        Value::List(it) => it.is_empty(),
        Value::Map(it) => it.is_empty(),
        _ => false,
    }
}

fn place(it: &Tree) -> String {
    let file = word(it, "/file").unwrap_or_default();
    word(it, "/line").map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
}

/// A text on one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The value of a key on one line.
fn inline(node: &Tree, key: &str) -> Option<String> {
    let it = node.get(key)?;
    let text = emit::yaml(it);
    Some(if text.trim_end().contains('\n') { it.to_json() } else { text.trim_end().to_owned() })
}
