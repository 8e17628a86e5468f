//! Header maps of exchanges that are over, kept by each thread, so that a head is read without asking for memory.
use std::cell::RefCell;

use http::HeaderMap;

/// How many maps a thread keeps.
const MOST: usize = 64;
/// A map that grew beyond this is let go.
const LARGEST: usize = 48;
/// Room for a usual head and for what a gateway adds, so that the map does not grow.
const USUAL: usize = 12;

thread_local! {
    static SPARE: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// An empty map.
pub(super) fn take() -> HeaderMap {
    SPARE.try_with(|it| it.borrow_mut().pop()).ok().flatten().unwrap_or_else(|| HeaderMap::with_capacity(USUAL))
}

/// Keeps the memory of a map that nobody needs any more; its contents are dropped here.
pub fn give(mut headers: HeaderMap) {
    if headers.capacity() == 0 || headers.capacity() > LARGEST {
        return;
    }
    headers.clear();
    // At the end of a thread there is nothing to keep it for.
    let _ = SPARE.try_with(|it| {
        let mut all = it.borrow_mut();
        if all.len() < MOST {
            all.push(headers);
        }
    });
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_map_comes_back_empty_and_only_if_it_is_small() {
        let mut small = HeaderMap::with_capacity(20);
        let size = small.capacity();
        small.append("a", HeaderValue::from_static("b"));
        small.append("a", HeaderValue::from_static("c"));
        give(small);
        let again = take();
        assert!(again.is_empty() && again.get("a").is_none());
        assert_eq!(again.capacity(), size);

        give(HeaderMap::with_capacity(1000));
        assert!(take().capacity() < 1000);
        for _ in 0..2 * MOST {
            give(HeaderMap::with_capacity(4));
        }
        assert_eq!(SPARE.with(|it| it.borrow().len()), MOST);
    }
}
