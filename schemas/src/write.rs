//! Messages back into trees: what an author would have written.

use std::borrow::Cow;

use crate::{
    document::Kind,
    shape::{Field, SHAPES, Shape, ShapeId, Special, Type},
    source::Span,
    tree::{Entry, Node, Value},
    wire::{self, Piece},
};

/// The tree of a serialized `allium.v1.Definition`; none where it holds no kind that is known.
pub(crate) fn definition(bytes: &[u8]) -> Option<(Kind, Node<'static>)> {
    wire::pieces(bytes).find_map(|(number, piece)| match piece {
        Piece::Bytes(message) => {
            let kind = *Kind::ALL.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
            Some((kind, document(kind, message)))
        }
        _ => None,
    })
}

/// The tree of a serialized message of a kind, `kind` first.
pub(crate) fn document(kind: Kind, message: &[u8]) -> Node<'static> {
    let mut node = self::message(SHAPES.named(kind.name()), message, None);
    if let Value::Map(entries) = &mut node.value {
        entries.insert(0, entry("kind", Node::unplaced(Value::Text(Cow::Borrowed(kind.name())))));
    }
    node
}

fn entry(key: impl Into<Cow<'static, str>>, node: Node<'static>) -> Entry<'static> {
    Entry { key: key.into(), span: Span::default(), node }
}

/// The tree of a message; without one field, where that is the key it stands under.
fn message(id: ShapeId, bytes: &[u8], without: Option<u32>) -> Node<'static> {
    let shape = SHAPES.get(id);
    match shape.special {
        Special::Json => return json(bytes),
        Special::Ring => return ring(shape, bytes),
        Special::None => {}
    }
    let mut entries = Vec::new();
    for field in shape.fields.iter().filter(|field| Some(field.number) != without) {
        let Some(node) = value(field, bytes) else { continue };
        if field.bare {
            return node;
        }
        match (field.rest || field.flatten, node) {
            (true, Node { value: Value::Map(inner), .. }) => entries.extend(inner),
            (_, node) => entries.push(entry(field.name.clone(), node)),
        }
    }
    Node::unplaced(Value::Map(entries))
}

/// The value of a field; none where it is not there.
fn value(field: &Field, bytes: &[u8]) -> Option<Node<'static>> {
    let pieces = wire::pieces(bytes).filter(|(number, _)| *number == field.number);
    if !field.repeated {
        // Of a field that is there twice the last holds; a required text that is empty is not there at all.
        return match pieces.last() {
            Some((_, piece)) => single(field, &piece),
            None if field.kind == Type::Text && field.required => Some(Node::unplaced(Value::Text(Cow::Borrowed("")))),
            None => None,
        };
    }
    if let (true, Type::Message(id)) = (field.keyed, field.kind) {
        let entries: Vec<Entry<'static>> = pieces
            .filter_map(|(_, piece)| {
                let Piece::Bytes(bytes) = piece else { return None };
                let key = SHAPES.get(id).fields[0].number;
                let name = wire::pieces(bytes).filter(|(number, _)| *number == key).last().map_or(String::new(), |(_, piece)| text(&piece));
                Some(entry(name, message(id, bytes, Some(key))))
            })
            .collect();
        return (!entries.is_empty()).then(|| Node::unplaced(Value::Map(entries)));
    }
    let mut items: Vec<Node<'static>> = pieces.filter_map(|(_, piece)| single(field, &piece)).collect();
    match items.len() {
        0 if field.required => Some(Node::unplaced(Value::List(items))),
        0 => None,
        1 if field.one => items.pop(),
        _ => Some(Node::unplaced(Value::List(items))),
    }
}

fn single(field: &Field, piece: &Piece<'_>) -> Option<Node<'static>> {
    let value = match (field.kind, piece) {
        (Type::Text, piece) => Value::Text(Cow::Owned(text(piece))),
        (Type::Bool, Piece::Varint(value)) => Value::Bool(*value != 0),
        (Type::Whole { signed: true }, Piece::Varint(value)) => Value::Number(Cow::Owned((*value as i64).to_string())),
        (Type::Whole { signed: false }, Piece::Varint(value)) => Value::Number(Cow::Owned(value.to_string())),
        (Type::Number, Piece::Fixed64(bytes)) => {
            let number = f64::from_le_bytes(*bytes);
            Value::Number(Cow::Owned(if number.fract() == 0.0 && number.abs() < 1e15 {
                format!("{number:.0}")
            } else {
                format!("{number}")
            }))
        }
        (Type::Message(id), Piece::Bytes(bytes)) => return Some(message(id, bytes, None)),
        _ => return None,
    };
    Some(Node::unplaced(value))
}

fn text(piece: &Piece<'_>) -> String {
    if let Piece::Bytes(bytes) = piece { String::from_utf8_lossy(bytes).into_owned() } else { String::new() }
}

fn json(bytes: &[u8]) -> Node<'static> {
    let text = wire::pieces(bytes).filter(|(number, _)| *number == 1).last().map_or(String::new(), |(_, piece)| text(&piece));
    // Text that is no JSON stands as it is, so that a fault can tell of it; nothing at all is null.
    let read = crate::json::read(&text, Span::new(0, text.len()));
    let node = match read.root {
        Some(node) if read.faults.is_empty() => node.into_owned(),
        _ if text.trim().is_empty() => Node::unplaced(Value::Null),
        _ => Node::unplaced(Value::Text(Cow::Owned(text))),
    };
    unplaced(node)
}

fn unplaced(node: Node<'static>) -> Node<'static> {
    let value = match node.value {
        Value::List(items) => Value::List(items.into_iter().map(unplaced).collect()),
        Value::Map(entries) => Value::Map(entries.into_iter().map(|inner| entry(inner.key, unplaced(inner.node))).collect()),
        value => value,
    };
    Node::unplaced(value)
}

fn ring(shape: &Shape, bytes: &[u8]) -> Node<'static> {
    let [name, config, when, preset] = [0, 1, 2, 3].map(|at| value(&shape.fields[at], bytes));
    let mut entries = Vec::new();
    if let Some(preset) = preset {
        entries.push(entry("use", preset));
    }
    if let Some(Node { value: Value::Text(name), .. }) = name.filter(|name| name.text().is_some_and(|name| !name.is_empty())) {
        entries.push(entry(name, config.unwrap_or(Node::unplaced(Value::Null))));
    }
    if let Some(when) = when {
        entries.push(entry("when", when));
    }
    Node::unplaced(Value::Map(entries))
}
