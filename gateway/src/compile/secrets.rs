//! Which secrets expressions name: `secret('NAME')` takes a literal only, so a look at the text is enough.

use std::sync::Arc;

use schemas::Document;

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

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_secrets_are_found_in_expressions() {
        let found: Vec<_> = super::named("a ${secret('A_KEY')} b ${ secret( \"B\" ) } secret(C) secret('')").collect();
        assert_eq!(found, ["A_KEY", "B"]);
    }
}
