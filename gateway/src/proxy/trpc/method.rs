//! A method of a tRPC service.
use http::HeaderName;

/// A method, as a definition names it.
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    /// Who calls: `trpc.allium.gateway.http`.
    pub caller: Box<str>,
    /// `trpc.app.server.service`.
    pub callee: Box<str>,
    /// `/pkg.Service/Method`.
    pub func: Box<str>,
    /// Headers that go beside the message though their names do not say so.
    pub beside: Box<[HeaderName]>,
}
