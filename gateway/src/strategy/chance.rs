//! Chance that is cheap, for balancing and for pauses; of no use for secrets.
use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0u8));
}

/// Any number. SplitMix64 (Steele, Lea, Flood 2014), one for each thread.
pub fn number() -> u64 {
    STATE.with(|it| {
        it.set(it.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        mix(it.get())
    })
}

/// A number below `end`, which is above zero.
pub fn below(end: u64) -> u64 {
    ((u128::from(number()) * u128::from(end)) >> 64) as u64
}

/// Spreads whatever differs over all bits.
pub fn mix(it: u64) -> u64 {
    let it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    it ^ (it >> 31)
}
