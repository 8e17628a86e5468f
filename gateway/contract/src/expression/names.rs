//! The names that expressions know, and where each may be seen.

use super::{CompileError, closest};

/// Where an expression stands, which decides what it may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `inbound.when`: before anything but the head of the request is known.
    InboundWhen,
    /// A plugin's config or its `when`.
    Plugin,
    /// `balance` of an Upstream.
    Balance,
    /// `proxy` and `send`, also those of a pipeline's tasks.
    Proxy,
    /// `outcomes` of a call.
    Outcomes,
    /// `outbound`.
    Outbound,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::InboundWhen => "inbound.when",
            Self::Plugin => "a plugin",
            Self::Balance => "balance",
            Self::Proxy => "proxy",
            Self::Outcomes => "outcomes",
            Self::Outbound => "outbound",
        }
    }
}

/// A name at the beginning of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Root {
    /// The request line and who sent it: `id`, `method`, `path`, `host`, `scheme`, `client_ip`.
    Request,
    /// Raw captures of the pattern, still encoded.
    Path,
    /// Query values by name, the last of each, decoded.
    Query,
    /// Header values by lower-case name, the last of each.
    Headers,
    /// Cookie values by name, the last of each.
    Cookies,
    /// Declared parameters, typed.
    Params,
    /// The request's body: a JSON value or a form's fields.
    Body,
    /// Who is calling: `subject`, `scopes`, `claims`.
    Auth,
    /// The calling App: `name`, `scopes`, `tags`.
    App,
    /// The App's Plan: `name`, `rate` and what else it says.
    Plan,
    /// What plugins and scripts have set.
    Vars,
    /// This gateway: `id`, `zone`.
    Node,
    /// The backend's answer: `status`, `headers`, `body`.
    Response,
    /// `response.headers`, by lower-case name.
    ResponseHeaders,
    /// `response.body`.
    ResponseBody,
    /// Why a call failed, a word, or null.
    Error,
    /// A finished task's value, by its number in [`Names::tasks`].
    Task(u16),
    /// `tasks.LABEL`: its `status`.
    TaskCall(u16),
    /// `tasks.LABEL.headers`, by lower-case name.
    TaskHeaders(u16),
    /// The item of a `for_each` task.
    Item,
}

/// Which roots a compiled expression reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads(u32);

impl Root {
    fn bit(self) -> u32 {
        1 << match self {
            Self::Request => 0,
            Self::Path => 1,
            Self::Query => 2,
            Self::Headers => 3,
            Self::Cookies => 4,
            Self::Params => 5,
            Self::Body => 6,
            Self::Auth => 7,
            Self::App => 8,
            Self::Plan => 9,
            Self::Vars => 10,
            Self::Node => 11,
            Self::Response => 12,
            Self::ResponseHeaders => 13,
            Self::ResponseBody => 14,
            Self::Error => 15,
            Self::Task(_) => 16,
            Self::TaskCall(_) => 17,
            Self::TaskHeaders(_) => 18,
            Self::Item => 19,
        }
    }
}

impl Reads {
    const SECRET: u32 = 1 << 31;
    const WHOLE_RESPONSE: u32 = 1 << 30;

    /// True if `root` is read; of tasks, any.
    pub fn reads(self, root: Root) -> bool {
        self.0 & root.bit() != 0
    }

    /// True if the request's body is read, which buffers it.
    pub fn body(self) -> bool {
        self.reads(Root::Body)
    }

    /// True if the backend's body is read, which buffers it.
    pub fn response_body(self) -> bool {
        self.reads(Root::ResponseBody) || self.0 & Self::WHOLE_RESPONSE != 0
    }

    /// True if something is read that only an authenticating ring sets.
    pub fn caller(self) -> bool {
        self.reads(Root::Auth) || self.reads(Root::App) || self.reads(Root::Plan)
    }

    /// True if a secret is read, so that the value may not be shown.
    pub fn secret(self) -> bool {
        self.0 & Self::SECRET != 0
    }

    /// True if nothing is read: the value is always the same.
    pub fn nothing(self) -> bool {
        self.0 == 0
    }

    /// What either reads.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The same, and the request's body.
    pub fn and_body(self) -> Self {
        Self(self.0 | Root::Body.bit())
    }

    pub(super) fn add(&mut self, root: Root) {
        self.0 |= root.bit();
    }

    /// `response` itself, body and all, not one of its fields.
    pub(super) fn add_whole_response(&mut self) {
        self.0 |= Self::WHOLE_RESPONSE;
    }

    pub(super) fn add_secret(&mut self) {
        self.0 |= Self::SECRET;
    }
}

/// What is known where an expression is compiled.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Where it stands.
    pub place: Place,
    /// Declared parameters; `None` if not known, then any name passes.
    pub params: Option<&'a [&'a str]>,
    /// Captures of the pattern; `None` if not known, then any name passes.
    pub captures: Option<&'a [&'a str]>,
    /// Labels of the tasks that are finished here, all that the pipeline's scope numbers in this order.
    pub tasks: &'a [&'a str],
    /// Labels of tasks that are not finished here: they run beside or after this place.
    pub later: &'a [&'a str],
    /// The name of the item, inside a `for_each` task.
    pub item: Option<&'a str>,
    /// True where an authenticating ring stands outside: `auth`, `app` and `plan` are set.
    pub authenticated: bool,
    /// True where `secret('NAME')` may stand: in `send` and headers.
    pub secrets: bool,
}

impl<'a> Names<'a> {
    /// What every expression at `place` sees, without parameters, tasks or secrets; authenticated.
    pub fn new(place: Place) -> Self {
        Self { place, params: None, captures: None, tasks: &[], later: &[], item: None, authenticated: true, secrets: false }
    }

    /// With declared parameters.
    pub fn params(self, params: &'a [&'a str]) -> Self {
        Self { params: Some(params), ..self }
    }

    /// With the pattern's captures.
    pub fn captures(self, captures: &'a [&'a str]) -> Self {
        Self { captures: Some(captures), ..self }
    }

    /// With finished tasks and those that are not finished yet.
    pub fn tasks(self, finished: &'a [&'a str], later: &'a [&'a str]) -> Self {
        Self { tasks: finished, later, ..self }
    }

    /// Inside a `for_each` task.
    pub fn item(self, item: &'a str) -> Self {
        Self { item: Some(item), ..self }
    }

    /// With or without an authenticating ring outside.
    pub fn authenticated(self, authenticated: bool) -> Self {
        Self { authenticated, ..self }
    }

    /// With or without `secret('NAME')`.
    pub fn secrets(self, secrets: bool) -> Self {
        Self { secrets, ..self }
    }
}

/// Every name of the table, `tasks` apart.
const ROOTS: [(&str, Root); 14] = [
    ("request", Root::Request),
    ("path", Root::Path),
    ("query", Root::Query),
    ("headers", Root::Headers),
    ("cookies", Root::Cookies),
    ("params", Root::Params),
    ("body", Root::Body),
    ("auth", Root::Auth),
    ("app", Root::App),
    ("plan", Root::Plan),
    ("vars", Root::Vars),
    ("node", Root::Node),
    ("response", Root::Response),
    ("error", Root::Error),
];

/// True for a name that no task label and no item may take.
pub fn is_reserved(name: &str) -> bool {
    name == "tasks" || name == "secret" || ROOTS.iter().any(|(root, _)| *root == name)
}

/// What a bare name is.
pub(super) enum Found {
    Root(Root),
    /// `tasks`, which only leads to labels.
    Tasks,
}

impl Names<'_> {
    pub(super) fn find(&self, name: &str, start: usize, end: usize) -> Result<Found, CompileError> {
        let fault = |message: String| CompileError::new(start, end - start, message);
        if self.item == Some(name) {
            return Ok(Found::Root(Root::Item));
        }
        if let Some(number) = self.tasks.iter().position(|label| *label == name) {
            return match self.place {
                Place::InboundWhen | Place::Plugin | Place::Balance => {
                    Err(fault(format!("{} cannot see the task '{name}'", self.place.name())))
                }
                _ => Ok(Found::Root(Root::Task(number as u16))),
            };
        }
        if self.later.contains(&name) {
            return Err(fault(format!("the task '{name}' is not finished here"))
                .help("tasks of one stage run side by side; only those of earlier stages are seen"));
        }
        if name == "tasks" {
            return match self.place {
                Place::InboundWhen | Place::Plugin | Place::Balance => Err(fault(format!("{} cannot see 'tasks'", self.place.name()))),
                _ => Ok(Found::Tasks),
            };
        }
        match ROOTS.iter().find(|(known, _)| *known == name) {
            Some((_, root)) => self.visible(*root).map(|()| Found::Root(*root)).map_err(|why| {
                let error = fault(format!("{} cannot see '{name}'", self.place.name()));
                if why.is_empty() { error } else { error.help(why) }
            }),
            None => {
                let error = fault(format!("there is no name '{name}'"));
                let known = ROOTS.iter().filter(|(_, root)| self.visible(*root).is_ok()).map(|(known, _)| *known);
                Err(match closest(name, known.chain(self.tasks.iter().copied()).chain(self.item).chain(["tasks"])) {
                    Some(near) => error.help(format!("did you mean '{near}'?")),
                    None => {
                        let known: Vec<&str> =
                            ROOTS.iter().filter(|(_, root)| self.visible(*root).is_ok()).map(|(known, _)| *known).collect();
                        error.help(format!("here are {}; text stands in quotes: '{name}'", known.join(", ")))
                    }
                })
            }
        }
    }

    fn visible(&self, root: Root) -> Result<(), &'static str> {
        match root {
            Root::Params | Root::Body | Root::Vars if self.place == Place::InboundWhen => {
                Err("routing sees only request, path, query, headers, cookies and node")
            }
            Root::Auth | Root::App | Root::Plan if self.place == Place::InboundWhen => {
                Err("nobody is authenticated before the route is known")
            }
            Root::Auth | Root::App | Root::Plan if !self.authenticated => Err("no plugin outside this place authenticates"),
            Root::Response | Root::Error if !matches!(self.place, Place::Outcomes | Place::Outbound) => {
                Err("a backend's answer is known only in outcomes and outbound")
            }
            _ => Ok(()),
        }
    }

    /// Checks `root.name` where the fields are fixed.
    pub(super) fn check_field(&self, root: Root, name: &str, start: usize, end: usize) -> Result<(), CompileError> {
        let (owner, known): (&str, &[&str]) = match root {
            Root::Request => ("request", &["id", "method", "path", "host", "scheme", "client_ip"]),
            Root::Auth => ("auth", &["subject", "scopes", "claims"]),
            Root::App => ("app", &["name", "scopes", "tags"]),
            Root::Node => ("node", &["id", "zone"]),
            Root::Response => ("response", &["status", "headers", "body"]),
            Root::TaskCall(_) => ("a task of 'tasks'", &["status", "headers"]),
            Root::Params => match self.params {
                Some(params) => ("params", params),
                None => return Ok(()),
            },
            Root::Path => match self.captures {
                Some(captures) => ("path", captures),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        if known.contains(&name) {
            return Ok(());
        }
        let error = CompileError::new(start, end - start, format!("{owner} has no '{name}'"));
        Err(match (closest(name, known.iter().copied()), root) {
            (Some(near), _) => error.help(format!("did you mean '{near}'?")),
            (None, Root::Request) if name == "headers" || name == "query" || name == "cookies" || name == "body" || name == "params" => {
                error.help(format!("it is a name of its own: '{name}'"))
            }
            (None, _) if known.is_empty() => error.help("none is declared"),
            (None, _) => error.help(format!("it has {}", known.join(", "))),
        })
    }
}
