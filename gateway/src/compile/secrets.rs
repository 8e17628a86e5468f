//! Which secrets expressions name: `secret('NAME')` takes a literal only, so a look at the text is enough.

use std::sync::Arc;

use schemas::{
    Document,
    tree::{Node, Path, Value},
};

/// Every name that a document's texts hold.
pub fn of(document: &Document) -> Arc<[Box<str>]> {
    let bytes = document.message.bytes();
    if memchr::memmem::find(&bytes, b"secret(").is_none() {
        return Arc::default();
    }
    named(&String::from_utf8_lossy(&bytes)).map(Into::into).collect()
}

/// Every name, in the order of the text; some twice. A name in a text that is no expression is found too, which
/// costs an author a line under `secrets`, and nobody a secret.
pub fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split("secret(").skip(1).filter_map(|rest| {
        let rest = rest.trim_start();
        let quote = rest.chars().next().filter(|it| matches!(it, '\'' | '"'))?;
        let (name, after) = rest[1..].split_once(quote)?;
        (after.trim_start().starts_with(')') && !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_'))
            .then_some(name)
    })
}

/// Where a text of the document first names this secret: the pointer to the text, and the bytes of the name in it.
pub fn place(document: &Document, name: &str) -> Option<(String, usize, usize)> {
    fn find(node: &Node<'_>, path: &Path<'_>, name: &str) -> Option<(String, usize, usize)> {
        match &node.value {
            Value::Text(text) => {
                let found = named(text).find(|it| *it == name)?;
                // Invariant: a name is a slice of the text that it was found in.
                Some((path.to_string(), found.as_ptr() as usize - text.as_ptr() as usize, found.len()))
            }
            Value::List(items) => items.iter().enumerate().find_map(|(at, it)| find(it, &path.index(at), name)),
            Value::Map(entries) => entries.iter().find_map(|it| find(&it.node, &path.key(&it.key), name)),
            _ => None,
        }
    }
    find(&document.places.tree()?, &Path::ROOT, name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_secrets_are_found_in_expressions() {
        let found: Vec<_> = super::named("a ${secret('A_KEY')} b ${ secret( \"B\" ) } secret(C) secret('')").collect();
        assert_eq!(found, ["A_KEY", "B"]);
    }
}
