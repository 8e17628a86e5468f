//! State that several gateways share.
use std::{future::Future, pin::Pin, time::Duration};

use bytes::Bytes;

/// A shared store, such as Redis. Every call is bounded in time; a store that is down answers `Err` at once.
pub trait Store: Send + Sync {
    /// Runs an atomic script by name. A call that timed out may have been executed: never repeat one that consumes.
    fn script<'a>(&'a self, name: &'static str, keys: &'a [Bytes], arguments: &'a [Bytes]) -> StoreFuture<'a, Vec<i64>>;
    fn get<'a>(&'a self, key: &'a [u8]) -> StoreFuture<'a, Option<Bytes>>;
    fn set<'a>(&'a self, key: &'a [u8], value: Bytes, ttl: Duration) -> StoreFuture<'a, ()>;
    fn delete<'a>(&'a self, keys: &'a [Bytes]) -> StoreFuture<'a, u64>;
    /// How many gateways shared it when it answered last, this one included.
    fn nodes(&self) -> u32;
    /// Whether it answered lately; without asking it.
    fn is_up(&self) -> bool;
}

/// An answer of the store, sendable because its driver lives on the background runtime.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Why the store did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Known to be down; it was not asked.
    Down,
    /// It did not answer in time; the call may have been executed.
    Timeout,
    /// It answered with an error.
    Refused,
}
