//! What a text is: the forms that the messages and the plugins' schemas name, and their own checks.

use crate::units::{Duration, Percent, Rate, Size};

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Any text.
    Plain,
    /// `250ms`, `1.5s`.
    Duration,
    /// `1MiB`.
    Size,
    /// `100/s`.
    Rate,
    /// `5%`.
    Percent,
    /// `50ms..1s`, or one duration.
    DurationRange,
    /// A text that is exactly one `${…}`, or a literal.
    Expression,
    /// A bare condition, as in `when:`.
    Condition,
    /// A text with any number of `${…}`.
    Template,
    /// A route pattern, as in `match:`; in a plugin's config a regular expression.
    Pattern,
    /// A name: `[a-z0-9-]+`.
    Name,
    /// A version, as in `v2`.
    Version,
    /// An identifier: `[A-Za-z_][A-Za-z0-9_]*`.
    Identifier,
    /// A day, `YYYY-MM-DD`.
    Date,
    /// The name of a header.
    Header,
    /// An HTTP method.
    Method,
    /// A file that the definition names.
    File,
    /// An Upstream's name, or a URL.
    Upstream,
    /// `keep`, `drain 30s`, `close`.
    OnChange,
    /// A word of `error`, a status, or the name of an outcome.
    RetryCondition,
    /// `timeout`, `connect`, `reset` or a status.
    Fail,
    /// Of a Json value: a JSON Schema.
    JsonSchema,
}

const NAMES: &[(&str, Form)] = &[
    ("duration", Form::Duration),
    ("size", Form::Size),
    ("rate", Form::Rate),
    ("percent", Form::Percent),
    ("duration-range", Form::DurationRange),
    ("expression", Form::Expression),
    ("condition", Form::Condition),
    ("template", Form::Template),
    ("pattern", Form::Pattern),
    ("name", Form::Name),
    ("version", Form::Version),
    ("identifier", Form::Identifier),
    ("date", Form::Date),
    ("header", Form::Header),
    ("method", Form::Method),
    ("file", Form::File),
    ("upstream", Form::Upstream),
    ("on-change", Form::OnChange),
    ("retry-condition", Form::RetryCondition),
    ("fail", Form::Fail),
    ("json-schema", Form::JsonSchema),
];

/// The words of `error` and of `outcomes.is` that `retry.conditions` may hold.
const RETRY_WORDS: &[&str] =
    &["connect", "tls", "reset", "connect_timeout", "read_timeout", "timeout", "protocol", "throttled", "transient", "unknown", "fatal"];

/// What is wrong with a text: which bytes of it, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFault {
    /// Where in the text, in bytes.
    pub offset: usize,
    /// How many bytes.
    pub len: usize,
    /// A stable kebab-case code; `bad-…`.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl TextFault {
    /// A fault of the whole text.
    pub fn whole(text: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self { offset: 0, len: text.len(), code, message: message.into(), help: None }
    }

    /// The same with a help.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl Form {
    /// The form of a name, as the proto files and the `format` of plugin schemas spell it.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, form)| *form)
    }

    /// The name of a form.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, form)| *form == self).map_or("plain", |(name, _)| name)
    }

    /// Whether only a compiler of expressions can judge the text.
    pub fn is_language(self) -> bool {
        matches!(self, Self::Expression | Self::Condition | Self::Template | Self::Pattern)
    }

    /// Whether a bare number is most likely a forgotten unit, and an example of one that is not.
    pub fn unit(self) -> Option<&'static str> {
        match self {
            Self::Duration | Self::DurationRange => Some("s"),
            Self::Size => Some("MiB"),
            Self::Rate => Some("/s"),
            Self::Percent => Some("%"),
            _ => None,
        }
    }

    /// Checks what can be checked without compiling anything.
    pub fn check(self, text: &str) -> Result<(), TextFault> {
        match self {
            Self::Plain | Self::Expression | Self::Condition | Self::Template | Self::Pattern | Self::JsonSchema => Ok(()),
            Self::Duration => text.parse::<Duration>().map(drop).map_err(|fault| fault.of(text)),
            Self::Size => text.parse::<Size>().map(drop).map_err(|fault| fault.of(text)),
            // A rate may come from the plan: `${plan.rate}`.
            Self::Rate if text.contains("${") => Ok(()),
            Self::Rate => text.parse::<Rate>().map(drop).map_err(|fault| fault.of(text)),
            Self::Percent => text.parse::<Percent>().map(drop).map_err(|fault| fault.of(text)),
            Self::DurationRange => duration_range(text),
            Self::Name => name(text),
            Self::Version => version(text),
            Self::Identifier => identifier(text),
            Self::Date => date(text),
            Self::Header => header(text),
            Self::Method => method(text),
            Self::File => file(text),
            Self::Upstream => upstream(text),
            Self::OnChange => on_change(text),
            Self::RetryCondition => words_or_status(text, RETRY_WORDS),
            Self::Fail => words_or_status(text, &["timeout", "connect", "reset"]),
        }
    }
}

fn only(text: &str, code: &'static str, what: &str, allowed: impl Fn(char) -> bool) -> Result<(), TextFault> {
    if text.is_empty() {
        return Err(TextFault::whole(text, code, format!("{what} is empty")));
    }
    match text.char_indices().find(|(_, c)| !allowed(*c)) {
        None => Ok(()),
        Some((offset, c)) => Err(TextFault { offset, len: c.len_utf8(), code, message: format!("{what} may not hold {c:?}"), help: None }),
    }
}

fn name(text: &str) -> Result<(), TextFault> {
    only(text, "bad-name", "a name", |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-').map_err(|mut fault| {
        let fixed: String = text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        fault.help = Some(if text.is_empty() {
            "names are made of a-z, 0-9 and -".to_owned()
        } else {
            format!("names are made of a-z, 0-9 and -: `{}`", fixed.trim_matches('-'))
        });
        fault
    })
}

fn version(text: &str) -> Result<(), TextFault> {
    only(text, "bad-name", "a version", |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
        .map_err(|fault| fault.help("versions are made of letters, digits, `.`, `_` and `-`, as in `v2`"))
}

fn identifier(text: &str) -> Result<(), TextFault> {
    only(text, "bad-name", "an identifier", |c| c.is_ascii_alphanumeric() || c == '_')?;
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(TextFault {
            offset: 0,
            len: 1,
            code: "bad-name",
            message: "an identifier may not begin with a digit".to_owned(),
            help: None,
        });
    }
    Ok(())
}

fn header(text: &str) -> Result<(), TextFault> {
    only(text, "bad-name", "a header's name", is_token)
}

/// RFC 9110, section 5.6.2.
pub(crate) fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

fn method(text: &str) -> Result<(), TextFault> {
    only(text, "bad-name", "a method", is_token)?;
    if text.bytes().any(|b| b.is_ascii_lowercase()) {
        return Err(TextFault::whole(text, "bad-name", "methods are written in capitals").help(format!("write `{}`", text.to_uppercase())));
    }
    Ok(())
}

fn file(text: &str) -> Result<(), TextFault> {
    let bad = |message: &str| Err(TextFault::whole(text, "bad-path", message).help("paths are relative to the folder of allium.yaml"));
    if text.is_empty() {
        return bad("a file's path is empty");
    }
    if text.contains("${") {
        return bad("a file takes no expression");
    }
    if text.contains('\0') {
        return bad("a file's path may not hold a NUL");
    }
    if text.starts_with('/') {
        return bad("a file's path may not be absolute");
    }
    if text.split(['/', '\\']).any(|part| part == "..") {
        return bad("a file may not leave the folder of allium.yaml");
    }
    Ok(())
}

fn upstream(text: &str) -> Result<(), TextFault> {
    if text.contains("${") {
        return Err(TextFault::whole(text, "bad-upstream", "an upstream takes no expression")
            .help("name one Upstream; which of its nodes is asked may depend on the request: `balance: {policy: where}`"));
    }
    let Some((scheme, rest)) = text.split_once("://") else { return name(text) };
    if !matches!(scheme, "http" | "https") {
        let message = format!("an upstream's URL begins with http:// or https://, not {scheme}://");
        return Err(TextFault { offset: 0, len: scheme.len(), code: "bad-upstream", message, help: None });
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() {
        return Err(TextFault::whole(text, "bad-upstream", "the URL has no host"));
    }
    if let Some(at) = rest.find(['?', '#', ' ']) {
        let offset = scheme.len() + 3 + at;
        let message = "an upstream's URL is a scheme, a host and a path".to_owned();
        return Err(TextFault { offset, len: text.len() - offset, code: "bad-upstream", message, help: None });
    }
    if host.contains('@') {
        return Err(TextFault::whole(text, "bad-upstream", "a URL may not hold a user or a password"));
    }
    Ok(())
}

fn on_change(text: &str) -> Result<(), TextFault> {
    match text.split_once(' ') {
        None if matches!(text, "keep" | "close") => Ok(()),
        Some(("drain", time)) => time.trim().parse::<Duration>().map(drop).map_err(|fault| {
            let offset = text.len() - time.trim_start().len();
            let inner = fault.of(time.trim());
            TextFault { offset: offset + inner.offset, ..inner }
        }),
        _ => Err(TextFault::whole(text, "bad-word", format!("`{text}` is not one of `keep`, `drain DURATION`, `close`"))
            .help("as in `drain 30s`")),
    }
}

fn words_or_status(text: &str, words: &[&str]) -> Result<(), TextFault> {
    let status = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    if status || words.contains(&text) {
        return Ok(());
    }
    let fault = TextFault::whole(text, "bad-word", format!("`{text}` is neither a status nor one of {}", crate::near::list(words)));
    Err(match crate::near::nearest(text, words.iter().copied()) {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        None => fault,
    })
}

fn duration_range(text: &str) -> Result<(), TextFault> {
    let Some((from, to)) = text.split_once("..") else { return Form::Duration.check(text) };
    let shortest = from.parse::<Duration>().map_err(|fault| fault.of(from))?;
    let at = from.len() + 2;
    let longest = to.parse::<Duration>().map_err(|fault| {
        let inner = fault.of(to);
        TextFault { offset: inner.offset + at, ..inner }
    })?;
    if shortest > longest {
        return Err(TextFault::whole(text, "bad-range", format!("{from} is longer than {to}")).help(format!("write `{to}..{from}`")));
    }
    Ok(())
}

fn date(text: &str) -> Result<(), TextFault> {
    let fault = || TextFault::whole(text, "bad-date", format!("`{text}` is not a day")).help("write YYYY-MM-DD, as in 2027-04-01");
    let bytes = text.as_bytes();
    let shaped =
        bytes.len() == 10 && bytes.iter().enumerate().all(|(at, b)| if at == 4 || at == 7 { *b == b'-' } else { b.is_ascii_digit() });
    if !shaped {
        return Err(fault());
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u32>().unwrap_or(0);
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => 0,
    };
    if day == 0 || day > days { Err(fault()) } else { Ok(()) }
}
