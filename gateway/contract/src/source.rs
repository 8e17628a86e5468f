//! Where definitions come from.
use std::{future::Future, time::Instant};

use bytes::Bytes;

/// All that one source holds at one moment; never a difference.
pub struct Snapshot {
    pub revision: Box<str>,
    /// When reading began: whatever was written before is in it.
    pub begun: Instant,
    pub files: Vec<File>,
    /// Files and folders that are there and could not be read, by name, each with why; what they last held stays.
    pub unreadable: Vec<(Box<str>, Box<str>)>,
}

/// One file of definitions, and its name: faults point there.
pub struct File {
    pub name: Box<str>,
    pub text: Bytes,
}

/// Gives the newest definitions, and waits for newer ones.
pub trait Source: Send + 'static {
    /// Waits for a snapshot newer than the last one given, and gives it whole. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Result<Snapshot, SourceError>> + Send;
}

/// Why a source could not be read; the last good definitions stay.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;
