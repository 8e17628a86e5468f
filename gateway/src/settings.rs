//! What an operator sets once, in `allium.yaml` and in the environment.
pub mod fault;
pub mod limits;
pub mod listen;
pub mod secret;
pub mod seen;
pub mod values;
pub mod workers;

mod markdown;
mod overrides;
mod placed;
mod shape;

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
    sync::LazyLock,
};

use schemars::JsonSchema;
use schemas::{Fault, Source, yaml};
use serde::{Deserialize, Serialize};

use self::{
    fault::Faults,
    limits::Limits,
    listen::{Accept, Admin, Listen, Status},
    overrides::Overrides,
    placed::Placed,
    secret::{Secrets, SecretsPolicy},
    seen::Telemetry,
    values::{Address, Network},
    workers::Workers,
};

/// The settings of one gateway. What may change while it runs stands in definitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where clients connect.
    pub listen: Vec<Listen>,
    /// The admin listener: definitions, catalogue, figures, readiness.
    pub admin: Admin,
    /// A listener for `/live`, `/ready` and `/metrics` alone, without a token. Left out: they are on the admin listener only.
    pub status: Option<Status>,
    /// Where definitions come from.
    pub definitions: Definitions,
    /// What this gateway is called.
    pub node: Node,
    /// How many threads serve requests: a number, or `auto` for the CPUs that the process may use, the cgroup's quota included.
    pub workers: Workers,
    /// How accepted connections come to the workers: `auto`, `per_core` or `balanced`.
    pub accept: Accept,
    /// Proxies in front of the gateway, whose `X-Forwarded-*` and `Forwarded` are believed. They decide client_ip, scheme and host; nothing else.
    pub trusted_proxies: Vec<Network>,
    /// Whether `x-request-id` and `traceparent` of a client are kept, rather than made anew.
    pub keep_ids: bool,
    /// Which secrets definitions may read.
    pub secrets: Secrets,
    /// Where calls to backends may go.
    pub egress: Egress,
    /// Who resolves the names of backends.
    pub dns: Dns,
    /// Limits of requests, bodies and connections.
    pub limits: Limits,
    /// Logs and figures.
    pub telemetry: Telemetry,
}

/// Where definitions come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Definitions {
    /// A folder, searched recursively; relative to the folder of `allium.yaml`.
    pub dir: PathBuf,
}

/// What this gateway is called: `node` of expressions, and the labels of what it shares with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    /// A name that no other gateway has. The host's name where left out.
    pub id: Option<String>,
    /// Where it stands: backends of the same zone can be preferred.
    pub zone: Option<String>,
}

/// Where calls to backends may go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Link-local and metadata addresses, and the gateway's own listeners, that may be called after all.
    pub allow: Vec<Network>,
}

/// Who resolves the names of backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dns {
    /// Servers to ask, each an IP address and a port, such as `127.0.0.1:8600`. Those of the system (`/etc/resolv.conf`) where left out.
    pub servers: Vec<Address>,
}

/// What settings are read from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The file that the command line names; otherwise `ALLIUM_CONFIG`, otherwise `allium.yaml` where it is there.
    pub file: Option<&'a Path>,
    /// The environment, as `std::env::vars_os` gives it.
    pub environment: &'a [(OsString, OsString)],
    /// Names that logs hide of themselves: what `telemetry.redact.remove` may name.
    pub hidden: &'a [&'a str],
}

/// Settings that hold, and where they came from.
#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// The file, where there was one.
    pub file: Option<PathBuf>,
    /// What relative paths are relative to: the file's folder, or the working directory.
    pub folder: PathBuf,
    /// The variables that changed something, such as `ALLIUM__KEEP_IDS`.
    pub overridden: Vec<String>,
    /// Doubts that do not keep the gateway from starting.
    pub warnings: Vec<Fault>,
}

/// The file that is read where nobody names one.
pub const DEFAULT_FILE: &str = "allium.yaml";
/// Names another file.
pub const FILE_VARIABLE: &str = "ALLIUM_CONFIG";

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![Listen::default()],
            admin: Admin::default(),
            status: None,
            definitions: Definitions::default(),
            node: Node::default(),
            workers: Workers::default(),
            accept: Accept::default(),
            trusted_proxies: Vec::new(),
            keep_ids: false,
            secrets: Secrets::default(),
            egress: Egress::default(),
            dns: Dns::default(),
            limits: Limits::default(),
            telemetry: Telemetry::default(),
        }
    }
}

impl Default for Definitions {
    fn default() -> Self {
        Self { dir: "routes".into() }
    }
}

// === reading ===

/// Reads the settings. All faults at once, each in its line or with its variable.
pub fn load(input: Input<'_>) -> Result<Loaded, Vec<Fault>> {
    let variable = |name: &str| input.environment.iter().find(|(it, _)| it == name).map(|(_, value)| PathBuf::from(value));
    let named = input.file.map(Path::to_owned).or_else(|| variable(FILE_VARIABLE).filter(|it| !it.as_os_str().is_empty()));
    let file = named.clone().unwrap_or_else(|| DEFAULT_FILE.into());
    let text = match read(&file) {
        Ok(text) => Some(text),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(vec![Fault::of_file(shown(&file), "unreadable", format!("the settings cannot be read: {error}"))]),
    };
    let folder = match file.parent() {
        Some(it) if text.is_some() && !it.as_os_str().is_empty() => it.to_owned(),
        _ => PathBuf::from("."),
    };
    let source = Source::new(shown(&file), text.clone().unwrap_or_default());
    let (settings, overridden, warnings) = parse(&source, input)?;
    Ok(Loaded { settings, file: text.map(|_| file), folder, overridden, warnings })
}

fn read(file: &Path) -> std::io::Result<String> {
    if fs::metadata(file)?.len() > schemas::MAX_FILE as u64 {
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "it is larger than 16MiB"));
    }
    let error = |it: std::string::FromUtf8Error| std::io::Error::new(std::io::ErrorKind::InvalidData, it.to_string());
    String::from_utf8(fs::read(file)?).map_err(error)
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

type Parsed = (Settings, Vec<String>, Vec<Fault>);

/// The whole way from text to settings, without touching a file.
fn parse(source: &Source, input: Input<'_>) -> Result<Parsed, Vec<Fault>> {
    let spans = yaml::documents(source.text());
    if let Some(second) = spans.get(1) {
        return Err(vec![Fault::at(source, *second, "too-many-documents", "settings are one document; this is a second one")]);
    }
    let read = spans.first().map(|it| yaml::read(source.text(), *it)).unwrap_or_default();
    if !read.faults.is_empty() {
        let told = |it: yaml::ReadFault| {
            let fault = Fault::at(source, it.span, it.code, it.message);
            if let Some(help) = it.help { fault.help(help) } else { fault }
        };
        return Err(read.faults.into_iter().map(told).collect());
    }
    let mut root = read.root.unwrap_or_else(|| schemas::tree::Node::unplaced(schemas::tree::Value::Null));
    if root.value == schemas::tree::Value::Null {
        root.value = schemas::tree::Value::Map(Vec::new());
    }
    let mut overrides = Overrides::default();
    overrides.apply(&mut root, &SHAPE.json, input.environment);
    let placed = Placed { source, root: root.clone(), overrides };
    let mut faults = placed.told_by_overrides();
    let mut found = Faults::default();
    shape::take_unbuilt(&mut root, &mut found);
    faults.extend(SHAPE.schema.findings(source.text(), &root).into_iter().map(|it| placed.finding(it)));
    shape::judge_formats(&SHAPE.json, &root, &mut found);
    faults.extend(found.list.into_iter().map(|it| placed.fault(it)));
    if !faults.is_empty() {
        return Err(in_order(faults));
    }
    let settings: Settings = match serde_json::from_str(&root.to_json()) {
        Ok(it) => it,
        // The schema allows what serde refuses: a fault of ours, but the operator must hear what it is.
        Err(error) => return Err(vec![Fault::of_file(source.name().clone(), "bad-setting", error.to_string())]),
    };
    let mut found = Faults::default();
    settings.check(input.hidden, &mut found);
    let told: Vec<Fault> = in_order(found.list.into_iter().map(|it| placed.fault(it)).collect());
    match told.iter().any(Fault::is_error) {
        true => Err(told),
        false => Ok((settings, placed.overrides.used(), told)),
    }
}

fn in_order(mut faults: Vec<Fault>) -> Vec<Fault> {
    faults.sort_by_key(|it| (it.line, it.column));
    faults
}

impl Settings {
    /// What settings have against each other.
    fn check(&self, hidden: &[&str], faults: &mut Faults) {
        listen::check(&self.listen, &self.admin, self.status.as_ref(), faults);
        listen::check_each(&self.listen, self.trusted_proxies.len(), faults);
        self.limits.check(faults);
        self.telemetry.check(hidden, faults);
        if self.definitions.dir.as_os_str().is_empty() {
            faults.error("/definitions/dir", "the folder of the definitions has no name").help("write `.` for the folder of the settings");
        }
        for (name, value) in [("id", &self.node.id), ("zone", &self.node.zone)] {
            let good = |it: &str| !it.is_empty() && it.len() <= 128 && it.bytes().all(|it| it.is_ascii_graphic());
            if let Some(value) = value.as_deref().filter(|it| !good(it)) {
                faults.error(&format!("/node/{name}"), format!("`{value}` is no name: 1 to 128 visible ASCII characters"));
            }
        }
        for (at, it) in self.trusted_proxies.iter().enumerate().filter(|(_, it)| it.0.prefix_len() == 0) {
            let message = format!("`{it}` trusts everybody: any client can say which address it comes from");
            faults.warning(&format!("/trusted_proxies/{at}"), message).help("name the addresses of your own proxies");
        }
        let outside = |it: &Path| it.is_absolute() || it.components().any(|it| it == Component::ParentDir);
        if self.secrets.files.as_deref().is_some_and(outside) {
            faults.error("/secrets/files", "the folder of secrets must be relative to the folder of the settings and stay in it");
        }
    }
}

impl Loaded {
    /// Where the settings came from, for the first line of the log.
    pub fn origin(&self) -> String {
        let mut text = match &self.file {
            Some(file) => format!("settings from {}", file.display()),
            None => format!("no {DEFAULT_FILE} here: built-in settings"),
        };
        if !self.overridden.is_empty() {
            text.push_str(&format!(", changed by {}", self.overridden.join(", ")));
        }
        text
    }

    /// A path of the settings, as the process can open it.
    pub fn path(&self, it: &Path) -> PathBuf {
        self.folder.join(it)
    }

    /// The name of this gateway: the one that is set, or the host's.
    pub fn node_id(&self) -> String {
        let host = || fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
        self.settings.node.id.clone().or_else(host).unwrap_or_else(|| "allium".to_owned())
    }

    /// Reads secrets, for definitions those that the settings allow.
    pub fn secrets(&self) -> SecretsPolicy {
        SecretsPolicy::new(self.settings.secrets.clone(), self.folder.clone())
    }
}

// === describing ===

static SHAPE: LazyLock<Shape> = LazyLock::new(|| {
    let json: serde_json::Value = schemars::schema_for!(Settings).into();
    Shape { schema: schemas::Schema::new(json.clone()), json }
});

struct Shape {
    json: serde_json::Value,
    schema: schemas::Schema,
}

/// The JSON Schema of `allium.yaml`, for editors.
pub fn json_schema() -> serde_json::Value {
    SHAPE.json.clone()
}

/// The manual of all keys, made from their own descriptions: `docs/SETTINGS.md`.
pub fn markdown() -> String {
    markdown::write(&SHAPE.json, &shape::UNBUILT)
}
