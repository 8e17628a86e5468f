//! How the command ends.
use std::process::ExitCode;

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Well = 0,
    /// Something was found: faults, a difference, a file that is not laid out, a name that nothing has.
    Found = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Something cannot be read or written.
    Unusable = 3,
}

impl From<Exit> for ExitCode {
    fn from(it: Exit) -> Self {
        Self::from(it as u8)
    }
}

impl Exit {
    /// The graver of two: what cannot be read says more than what was found.
    pub fn and(self, other: Self) -> Self {
        if other as u8 > self as u8 { other } else { self }
    }
}
