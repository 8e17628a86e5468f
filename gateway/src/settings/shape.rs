//! Settings against what can be said of them beside their schema: formats of our own, and keys that are not built yet.
use schemas::tree::{Node, Value};
use serde_json::Value as Json;

use super::{fault::Faults, values};

/// Keys that the format knows and this build does not; `*` is any number in a list.
pub const UNBUILT: [(&str, &str); 17] = [
    ("definitions/overlay", "a second folder over the first"),
    ("definitions/etcd", "definitions from etcd"),
    ("definitions/nacos", "definitions from Nacos"),
    ("redis", "state that several gateways share"),
    ("telemetry/otlp", "traces and figures over OTLP"),
    ("telemetry/tracing", "traces"),
    ("limits/websocket", "messages and pings of WebSocket"),
    ("limits/sse", "the buffer of a slow reader of events"),
    ("limits/scripts", "time and memory of Lua and jq"),
    ("limits/queues", "queues of waiting requests"),
    ("limits/caches", "memory of caches"),
    ("limits/memory", "the watermarks of memory"),
    ("limits/upstream", "the head of a backend's answer, which has at most 64KiB and 200 headers"),
    ("limits/body/retry", "bodies kept for repeated calls"),
    ("limits/body/part_count", "parts of a multipart body"),
    ("limits/body/decompressed", "the size of a decompressed body"),
    ("limits/body/decompressed_ratio", "the ratio of a decompressed body"),
];

/// Takes keys out of the tree that are known and not built, and says so.
pub fn take_unbuilt(root: &mut Node<'_>, faults: &mut Faults) {
    for (path, _) in UNBUILT {
        let steps: Vec<&str> = path.split('/').collect();
        take(root, &steps, String::new(), faults);
    }
}

fn take(node: &mut Node<'_>, steps: &[&str], pointer: String, faults: &mut Faults) {
    match (&mut node.value, steps) {
        (Value::List(items), ["*", rest @ ..]) => {
            for (at, item) in items.iter_mut().enumerate() {
                take(item, rest, format!("{pointer}/{at}"), faults);
            }
        }
        (Value::Map(entries), [key]) => {
            if let Some(at) = entries.iter().position(|it| it.key == *key) {
                entries.remove(at);
                faults.error(&format!("{pointer}/{key}"), format!("`{key}` is known, but not built yet")).code("not-built");
            }
        }
        (Value::Map(entries), [key, rest @ ..]) => {
            if let Some(entry) = entries.iter_mut().find(|it| it.key == *key) {
                take(&mut entry.node, rest, format!("{pointer}/{key}"), faults);
            }
        }
        _ => {}
    }
}

/// Tells every text that is not of the format that its schema names. Formats that are not ours are the checker's.
pub fn judge_formats(schema: &Json, root: &Node<'_>, faults: &mut Faults) {
    judge(schema, schema, root, &mut String::new(), faults);
}

fn judge(whole: &Json, schema: &Json, node: &Node<'_>, pointer: &mut String, faults: &mut Faults) {
    let length = pointer.len();
    for schema in branches(whole, schema) {
        match &node.value {
            Value::Text(text) => {
                if let Some(format) = schema.get("format").and_then(Json::as_str)
                    && let Err(message) = values::judge(format, text)
                {
                    faults.error(pointer, format!("`{text}` cannot stand here: {message}")).code("bad-value");
                }
            }
            Value::List(items) => {
                let Some(schema) = schema.get("items") else { continue };
                for (at, item) in items.iter().enumerate() {
                    pointer.push_str(&format!("/{at}"));
                    judge(whole, schema, item, pointer, faults);
                    pointer.truncate(length);
                }
            }
            Value::Map(entries) => {
                let Some(properties) = schema.get("properties") else { continue };
                for entry in entries {
                    let Some(schema) = properties.get(entry.key.as_ref()) else { continue };
                    pointer.push('/');
                    pointer.push_str(&schemas::tree::escape(&entry.key));
                    judge(whole, schema, &entry.node, pointer, faults);
                    pointer.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// A schema as itself, what it refers to, and its alternatives.
pub fn branches<'s>(whole: &'s Json, schema: &'s Json) -> Vec<&'s Json> {
    let (mut all, mut waiting) = (Vec::new(), vec![schema]);
    // A schema made from types is finite; the bound only guards against one that is not.
    while let Some(it) = waiting.pop().filter(|_| all.len() < 64) {
        all.push(it);
        let target = it.get("$ref").and_then(Json::as_str).and_then(|it| whole.pointer(it.strip_prefix('#')?));
        waiting.extend(target);
        for keyword in ["allOf", "anyOf", "oneOf"] {
            waiting.extend(it.get(keyword).and_then(Json::as_array).into_iter().flatten());
        }
    }
    all
}

/// The schemas of one step further in: a key, or a number in a list.
pub fn inner<'s>(whole: &'s Json, schemas: &[&'s Json], step: &str) -> Vec<&'s Json> {
    let of_key = schemas.iter().filter_map(|it| it.get("properties")?.get(step));
    let of_items = schemas.iter().filter(|_| step.parse::<usize>().is_ok()).filter_map(|it| it.get("items"));
    of_key.chain(of_items).flat_map(|it| branches(whole, it)).collect()
}
