//! How a circuit stands.

/// As it is at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Closed,
    /// Some calls are refused, by chance.
    Throttling,
    /// All calls are refused.
    Open,
    /// Some calls are let through, to see how they end.
    HalfOpen,
}

impl Standing {
    /// As reports say it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Throttling => "throttling",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}
