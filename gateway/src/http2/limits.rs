//! What one connection of HTTP/2 may cost beyond what [`http1::Limits`](crate::http1::Limits) says.

/// Bounds of one connection. Beyond a bound of frames it ends with GOAWAY, ENHANCE_YOUR_CALM.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How many streams may be open at once; a further one is refused.
    pub streams: u32,
    /// What a client may send of one stream before it is read, in bytes.
    pub stream_window: u32,
    /// The same of all streams together, in bytes.
    pub connection_window: u32,
    /// How many streams a client may reset in a second, ...
    pub resets: u32,
    /// ... and in the connection's whole life: a rate alone is walked around.
    pub resets_in_all: u32,
    /// How many PING, SETTINGS and PRIORITY frames may come in a second, each.
    pub control: u32,
    /// How many DATA frames without a byte may come in a second.
    pub empty_data: u32,
    /// How many CONTINUATION frames one head may take.
    pub continuations: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 100,
            stream_window: 64 << 10,
            connection_window: 1 << 20,
            resets: 100,
            resets_in_all: 10_000,
            control: 50,
            empty_data: 100,
            continuations: 8,
        }
    }
}

/// What a client sent too much of, or too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Streams that it began and reset.
    Resets,
    Pings,
    Settings,
    Priorities,
    /// DATA frames without a byte.
    EmptyData,
    /// CONTINUATION frames of one head.
    Continuations,
    /// A head, or the connection's own beginning, did not arrive in time.
    SlowHead,
    /// The client took nothing of what was sent.
    WriteStall,
    /// Against the protocol, or beyond a bound of the protocol's own.
    Protocol,
}

impl Flood {
    /// All, in the order of the figures.
    pub const ALL: [Self; 9] = [
        Self::Resets,
        Self::Pings,
        Self::Settings,
        Self::Priorities,
        Self::EmptyData,
        Self::Continuations,
        Self::SlowHead,
        Self::WriteStall,
        Self::Protocol,
    ];

    /// The word for logs and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Resets => "resets",
            Self::Pings => "pings",
            Self::Settings => "settings",
            Self::Priorities => "priorities",
            Self::EmptyData => "empty_data",
            Self::Continuations => "continuations",
            Self::SlowHead => "slow_head",
            Self::WriteStall => "write_stall",
            Self::Protocol => "protocol",
        }
    }
}
