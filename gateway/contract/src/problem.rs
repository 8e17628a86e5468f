//! Why an exchange did not end as the client hoped.
use std::{borrow::Cow, error::Error, fmt, time::Duration};

use http::{HeaderMap, StatusCode};

/// A failure on a request: what the client may know, and what only the log may.
///
/// Boxed inside [`Outcome`](crate::Outcome) so that the happy path stays small.
/// It becomes a response in one place only, the gateway's `render`.
#[derive(Debug)]
pub struct Problem {
    pub kind: Kind,
    pub origin: Origin,
    /// For the client: says what to change, never an address, a stack or a script's source.
    pub message: Cow<'static, str>,
    /// Faults of the request, keyed by the failing keyword's place.
    pub details: Vec<Detail>,
    /// Headers that the answer must carry, such as `Allow`.
    pub headers: HeaderMap,
    pub retry_after: Option<Duration>,
    /// How a call to a backend failed, where one did.
    pub call: Option<CallError>,
    /// A short word for logs and metrics, such as `upstream_connect`.
    pub reason: &'static str,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// One fault of a request, as both renderings need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// `body`, `path`, `query`, `header`, `cookie` or `form`.
    pub place: &'static str,
    /// The place of the failing keyword: `/properties/age/minimum`, `/params/page/type`.
    pub schema: String,
    /// A JSON Pointer to the value in the body, or the parameter's name.
    pub pointer: String,
    pub message: String,
}

/// What went wrong, in the words of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Invalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    Conflict,
    Gone,
    TooLarge,
    UriTooLong,
    UnsupportedMedia,
    Unprocessable,
    TooMany,
    HeadersTooLarge,
    ExpectationFailed,
    Internal,
    NotImplemented,
    VersionNotSupported,
    /// The backend could not be reached or did not speak HTTP: 502.
    Upstream,
    /// Nobody is there to ask: 503.
    Unavailable,
    /// Time ran out: 504.
    Timeout,
}

/// Whose doing it was; for metrics and for blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    Client,
    Gateway,
    Upstream,
}

/// The words of `error` in expressions and of `retry.conditions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallError {
    Connect,
    Tls,
    Reset,
    ConnectTimeout,
    ReadTimeout,
    Timeout,
    Protocol,
}

impl CallError {
    /// The word as authors write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::ConnectTimeout => "connect_timeout",
            Self::ReadTimeout => "read_timeout",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
        }
    }

    /// Whether no byte of the request can have reached the backend.
    pub fn not_sent(self) -> bool {
        matches!(self, Self::Connect | Self::Tls | Self::ConnectTimeout)
    }
}

impl Problem {
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Box<Self> {
        Box::new(Self {
            kind,
            origin: kind.origin(),
            message: message.into(),
            details: Vec::new(),
            headers: HeaderMap::new(),
            retry_after: None,
            call: None,
            reason: kind.reason(),
            source: None,
        })
    }

    /// A failed call to a backend; the status follows from how it failed.
    pub fn call(error: CallError, reason: &'static str) -> Box<Self> {
        let (kind, message) = match error {
            CallError::ConnectTimeout | CallError::ReadTimeout | CallError::Timeout => {
                (Kind::Timeout, "the backend did not answer in time")
            }
            CallError::Connect | CallError::Tls => (Kind::Upstream, "the backend could not be reached"),
            CallError::Reset => (Kind::Upstream, "the backend closed the connection before it answered"),
            CallError::Protocol => (Kind::Upstream, "the backend's answer could not be understood"),
        };
        let mut it = Self::new(kind, message);
        it.call = Some(error);
        it.reason = reason;
        it
    }

    /// Keeps the cause for the log.
    pub fn because(mut self: Box<Self>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Box<Self> {
        self.source = Some(source.into());
        self
    }

    pub fn reason(mut self: Box<Self>, reason: &'static str) -> Box<Self> {
        self.reason = reason;
        self
    }

    pub fn header(mut self: Box<Self>, name: http::HeaderName, value: http::HeaderValue) -> Box<Self> {
        self.headers.append(name, value);
        self
    }

    pub fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// The whole chain of causes in one line, for the log only.
    pub fn explain(&self) -> String {
        let mut text = self.message.to_string();
        let mut next = self.source.as_deref().map(|it| it as &(dyn Error + 'static));
        while let Some(it) = next {
            let cause = it.to_string();
            // Some errors say what their cause says.
            if !text.ends_with(&cause) {
                text.push_str(": ");
                text.push_str(&cause);
            }
            next = it.source();
        }
        text
    }
}

impl Kind {
    fn origin(self) -> Origin {
        match self {
            Kind::Upstream | Kind::Unavailable | Kind::Timeout => Origin::Upstream,
            Kind::Internal | Kind::NotImplemented => Origin::Gateway,
            _ => Origin::Client,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid",
            Kind::Unauthenticated => "unauthenticated",
            Kind::Forbidden => "forbidden",
            Kind::NotFound => "not_found",
            Kind::MethodNotAllowed => "method_not_allowed",
            Kind::RequestTimeout => "request_timeout",
            Kind::Conflict => "conflict",
            Kind::Gone => "gone",
            Kind::TooLarge => "too_large",
            Kind::UriTooLong => "uri_too_long",
            Kind::UnsupportedMedia => "unsupported_media",
            Kind::Unprocessable => "unprocessable",
            Kind::TooMany => "too_many",
            Kind::HeadersTooLarge => "headers_too_large",
            Kind::ExpectationFailed => "expectation_failed",
            Kind::Internal => "internal",
            Kind::NotImplemented => "not_implemented",
            Kind::VersionNotSupported => "version_not_supported",
            Kind::Upstream => "upstream",
            Kind::Unavailable => "unavailable",
            Kind::Timeout => "timeout",
        }
    }

    pub fn status(self) -> StatusCode {
        match self {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Kind::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::Gone => StatusCode::GONE,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::UriTooLong => StatusCode::URI_TOO_LONG,
            Kind::UnsupportedMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
            Kind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Kind::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Kind::ExpectationFailed => StatusCode::EXPECTATION_FAILED,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Kind::NotImplemented => StatusCode::NOT_IMPLEMENTED,
            Kind::VersionNotSupported => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Kind::Upstream => StatusCode::BAD_GATEWAY,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|it| it as &(dyn Error + 'static))
    }
}
