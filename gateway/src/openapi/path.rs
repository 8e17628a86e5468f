//! Patterns as the paths of an OpenAPI document.

/// One pattern of an Api.
pub struct Route {
    /// Empty where any method is meant.
    pub methods: Vec<Box<str>>,
    /// `api.example.com`, `*.example.com`, or none.
    pub host: Option<Box<str>>,
    pub segments: Vec<Segment>,
}

/// One segment of a pattern.
pub enum Segment {
    /// A text, decoded.
    Literal(Box<str>),
    /// `{name}`
    Capture(Box<str>),
    /// `{name...}`
    Rest(Box<str>),
}

/// The methods that a path item has a place for.
const METHODS: [&str; 8] = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"];
/// What a pattern of any method is described with.
const ANY: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

pub fn is_described(method: &str) -> bool {
    METHODS.contains(&method)
}

impl Route {
    /// The methods that are described.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        let any: &[&str] = if self.methods.is_empty() { &ANY } else { &[] };
        self.methods.iter().map(|it| &**it).filter(|it| is_described(it)).chain(any.iter().copied())
    }

    /// Whether requests for this host, without a port and in lower case, may come here.
    pub fn serves(&self, host: &str) -> bool {
        match self.host.as_deref().map(|it| it.strip_prefix("*.").ok_or(it)) {
            None => true,
            Some(Ok(domain)) => host.strip_suffix(domain).is_some_and(|it| it.len() > 1 && it.ends_with('.')),
            Some(Err(exact)) => exact == host,
        }
    }

    /// The path as it is shown: `/orders/{id}`.
    pub fn shown(&self) -> String {
        self.written(|name| name)
    }

    /// What two paths have in common that OpenAPI takes for one, and the names of the captures.
    pub fn key(&self) -> (String, Vec<&str>) {
        let names = self.segments.iter().filter_map(Segment::name).collect();
        (self.written(|_| ""), names)
    }

    /// The name of the capture that takes the rest of a path.
    pub fn rest(&self) -> Option<&str> {
        self.segments.iter().find_map(|it| if let Segment::Rest(name) = it { Some(&**name) } else { None })
    }

    fn written<'a>(&'a self, name: impl Fn(&'a str) -> &'a str) -> String {
        let mut out = String::new();
        for it in &self.segments {
            out.push('/');
            match it {
                // Braces would be taken for a template; everything else that a path may not hold is encoded too.
                Segment::Literal(it) => out.extend(percent_encoding::utf8_percent_encode(it, LITERAL)),
                Segment::Capture(it) | Segment::Rest(it) => out.extend(["{", name(it), "}"]),
            }
        }
        if out.is_empty() {
            out.push('/');
        }
        out
    }
}

impl Segment {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Literal(_) => None,
            Self::Capture(it) | Self::Rest(it) => Some(it),
        }
    }
}

/// What a segment may hold as it stands (RFC 3986 §3.3), braces excepted.
const LITERAL: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The names of the captures of a path that is shown.
pub fn captures(shown: &str) -> Vec<String> {
    shown.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}')).map(str::to_owned).collect()
}
