//! Did you mean: the known word nearest to an unknown one.

/// The nearest of the known words, where one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = flat(word);
    let enough = 1 + plain.chars().count() / 4;
    let distance = |other: &str| {
        let other = flat(other);
        if other == plain { 0 } else { strsim::damerau_levenshtein(&plain, &other) }
    };
    let known: Vec<&str> = known.into_iter().collect();
    // `int` is short for one word only.
    let mut longer = known.iter().filter(|other| plain.len() >= 3 && flat(other).starts_with(&plain));
    if let (Some(only), None) = (longer.next(), longer.next()) {
        return Some(only);
    }
    let best = known.into_iter().map(|other| (distance(other), other)).min_by_key(|(distance, _)| *distance)?;
    (best.0 <= enough && best.0 < plain.chars().count().max(1)).then_some(best.1)
}

/// The words as a list in a sentence: `a`, `b` or `c`.
pub fn list<T: AsRef<str>>(words: &[T]) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            text.push_str(if at + 1 == words.len() { " or " } else { ", " });
        }
        text.push('`');
        text.push_str(word.as_ref());
        text.push('`');
    }
    text
}

/// `maxSize`, `max-size` and `max_size` are one word to a reader.
fn flat(word: &str) -> String {
    word.chars().take(80).filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}
