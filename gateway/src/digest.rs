//! Short names of contents: the same everywhere for the same bytes; they resist nobody who wants them equal.
use std::hash::{BuildHasher, Hasher};

/// 128 bits of a sequence of parts; parts are kept apart.
pub fn of<'a>(parts: impl Iterator<Item = &'a [u8]> + Clone) -> u128 {
    let one = |seed| {
        let mut it = foldhash::fast::FixedState::with_seed(seed).build_hasher();
        for part in parts.clone() {
            it.write_usize(part.len());
            it.write(part);
        }
        it.finish()
    };
    (u128::from(one(2)) << 64) | u128::from(one(1))
}
