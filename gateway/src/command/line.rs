//! What may be written on the command line, and the help that says so.
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// An API gateway whose APIs are data.
///
/// You write YAML files that say what comes in, through which plugins it passes, and which backend is asked. `allium run` serves
/// them; the other commands check, explain and convert them without a running gateway.
#[derive(Debug, Parser)]
#[command(name = "allium", version, max_term_width = 100, arg_required_else_help = true, after_long_help = AFTER)]
pub struct Line {
    /// The settings [default: $ALLIUM_CONFIG, else allium.yaml in the working directory, else built-in settings]
    #[arg(short = 'c', long = "config", value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub word: Word,
}

const AFTER: &str = "\
Examples:
  allium check routes/demo            tell every fault of every file at once
  allium run -c allium.yaml           serve
  allium explain customers@v2         what happens to a request of one API, step by step
  allium routes                       which request goes where

Definitions:
  Commands that read definitions read the folder `definitions.dir` of the settings (`routes` when
  left out), unless a PATH is given: a folder, searched with all folders in it, or a file.
  Definitions end in .yaml, .yml, .json or .binpb; names that begin with a dot are skipped.

Output:
  Results go to standard output, everything else to standard error. Colours are for terminals alone;
  NO_COLOR turns them off, CLICOLOR_FORCE=1 turns them on. A secret is never printed.

Exit codes:
  0  all is well
  1  something was found: faults, a difference, a file that is not formatted, an unknown name
  2  the command line is wrong
  3  something cannot be read or written";

/// The first word of a command.
#[derive(Debug, Subcommand)]
pub enum Word {
    Run(Run),
    Check(Check),
    Explain(Explain),
    Routes(Routes),
    Fmt(Fmt),
    Diff(Diff),
    History(History),
    Rollback(Rollback),
    Convert(Convert),
    Schema(Schema),
    Test(Test),
    Openapi(Openapi),
}

/// Serve: start the gateway and follow changes of its definitions
///
/// Listens where the settings say, serves the definitions, and takes changes over a moment after they are written, without a
/// restart. Definitions with faults are not served: the last good version stays, and where there is none the gateway does not
/// start. SIGTERM and SIGINT end it once requests are answered; a second one ends it at once. SIGHUP reopens log files.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium run                          with allium.yaml of this folder
  allium run -c /etc/allium.yaml
  ALLIUM__LISTEN__0__ADDRESS=0.0.0.0:80 allium run
                                      with one setting from the environment

Exit codes:
  0  it was told to stop, and did
  1  settings or definitions have faults
  3  something cannot be read, or an address cannot be listened on
  5  a second signal ended it at once")]
pub struct Run {
    /// Do not start with definitions or settings that have warnings
    #[arg(long)]
    pub strict: bool,
}

/// Tell every fault of settings and definitions at once
///
/// Reads all definitions, and checks everything that a running gateway would: keys and values, units, names of other definitions,
/// expressions, plugins' configs, routes that cannot be told apart, names that nothing uses. Each fault has its file, line and
/// column, the line with a caret, and what to do.
///
/// A file or folder inside of the settings' definitions is checked together with the others, so that what they name is found, but
/// only its own faults are told.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium check                        the definitions that the settings name
  allium check routes/demo
  allium check --strict               warnings are faults too
  allium check --without-secrets      on a machine that has no secrets, such as a build server
  allium check --format sarif > allium.sarif
                                      for review tools

Formats:
  text   for people, on standard error, with a line that counts
  json   a list of {file, line, column, code, severity, message, help}, on standard output
  sarif  SARIF 2.1.0, on standard output

Exit codes:
  0  no fault, though perhaps warnings
  1  at least one fault; with --strict, or a warning
  3  a file or folder cannot be read")]
pub struct Check {
    /// Folders or files of definitions [default: `definitions.dir` of the settings]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Warnings are faults too
    #[arg(long)]
    pub strict: bool,
    /// Do not look secrets and environment variables up: check the shape alone
    #[arg(long)]
    pub without_secrets: bool,
    /// How faults are written
    #[arg(long, value_enum, default_value_t = FaultFormat::Text)]
    pub format: FaultFormat,
}

/// How faults are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultFormat {
    Text,
    Json,
    Sarif,
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Show one API as the gateway understands it
///
/// Prints its patterns, its lifecycle, the numbered chain of rings with presets expanded and defaults filled in, where validation
/// stands and what it declares, what is asked of which backend with which limits, and how the answer is shaped. What was not
/// written, but filled in, is marked `# default`.
///
/// Without a version all versions are shown. Where no API has the name, an Upstream, Preset, App or Plan of that name is shown.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium explain customers@v2
  allium explain public-api           a Preset
  allium explain hello routes/demo    of other definitions than the settings'
  allium explain customers --format json

Exit codes:
  0  it is shown
  1  nothing has this name, or what has it has faults
  3  a file or folder cannot be read")]
pub struct Explain {
    /// The name, and the version where there are several
    #[arg(value_name = "NAME[@VERSION]")]
    pub name: String,
    /// A folder or file of definitions [default: `definitions.dir` of the settings]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Run the tests inside definitions, without a network
///
/// Each test under `tests` of an Api sends its request through the whole route, plugins included; what stands under `given`
/// answers in the place of the backends, by the label of a task, or `proxy` where there is one call. Tests run side by side, and
/// are told in the order of the definitions. `body` under `expect` may leave members of objects out; a list has its length.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium test                         of all definitions
  allium test routes/demo
  allium test --only 'broken backend' whose name holds this
  allium test --junit results.xml     for a CI, too

Exit codes:
  0  every test passed, or there is none
  1  a test failed, no test has the name, or the definitions have faults
  3  something cannot be read or written")]
pub struct Test {
    /// A folder or file of definitions [default: `definitions.dir` of the settings]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Only tests whose name holds this text
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Writes the results as JUnit's XML, too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// List all routes in the order of precedence
///
/// The first line that fits a request is the one that serves it: hosts before none, the exact before the wildcard; then segment
/// by segment the literal before the capture before the rest; then named methods before any. Lines of one pattern are asked in
/// their `order`, those with a condition first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium routes
  allium routes routes/demo
  allium routes --format json

Columns:
  METHODS  those that the pattern names; * for any
  HOST     * for any
  PATH     {name} is one segment, {name...} is all that are left
  STATE    draft (404), active, deprecated, retired (410), or faulty: not served
  TARGET   where requests go
  WHEN     the condition, and its order

Exit codes:
  0  they are listed
  1  some definitions have faults; `allium check` tells them
  3  a file or folder cannot be read")]
pub struct Routes {
    /// A folder or file of definitions [default: `definitions.dir` of the settings]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// How they are written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Lay definition files out in one way
///
/// Rewrites files in place: two spaces a level, no spaces at the end of lines, one line break at the end. Comments, quotes and the
/// order of keys stay as they are, and so does the meaning: a file whose layout cannot be changed safely is left alone and told.
/// In folders, files without a `kind` are no definitions and are left alone.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium fmt                          the definitions that the settings name
  allium fmt routes/demo
  allium fmt --check                  change nothing, list what would be changed
  allium fmt - < a.yaml               from standard input to standard output

Exit codes:
  0  every file is laid out now; with --check: was laid out already
  1  with --check: these files are not; otherwise: a file has faults that must be mended first
  3  a file or folder cannot be read or written")]
pub struct Fmt {
    /// Folders or files; - for standard input [default: `definitions.dir` of the settings]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Change nothing; list the files that would be changed
    #[arg(long)]
    pub check: bool,
}

/// Compare definitions by what they mean
///
/// Tells which definitions are added (+), removed (-) or changed (~), and which of their values. Files, comments and the order of
/// keys do not count. A secret in plain sight is not shown; that it changed is.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium diff routes routes.new
  allium diff old.yaml new.binpb
  git show HEAD:routes/a.yaml | allium diff - routes/a.yaml
  allium diff routes routes.new --format json
  allium diff @12 routes              since state 12 of `allium history`
  allium diff @11 @12

Exit codes:
  0  they mean the same
  1  they differ
  3  one of them cannot be read, or has faults")]
pub struct Diff {
    /// A folder or file; @NUMBER or @REVISION for a state of the history; - for YAML from standard input
    #[arg(value_name = "A")]
    pub old: PathBuf,
    /// Another of these
    #[arg(value_name = "B")]
    pub new: PathBuf,
    /// How differences are written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Show which states of the definitions were served, who changed them, when and why
///
/// A running gateway keeps the last hundred states below `.allium`, beside its settings: the files of definitions, not the scripts
/// and schemas that they name. A state "with faults" was served in part: what was faulty stayed at its last good version.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium history
  allium history 12                   what state 12 changed
  allium history --format json

Exit codes:
  0  it is shown
  1  there is no such state
  3  the history cannot be read")]
pub struct History {
    /// A state: its number, or the beginning of its revision
    pub state: Option<String>,
    /// How many are shown
    #[arg(long, default_value_t = 20)]
    pub limit: usize,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Take the definitions back to a state that was served before
///
/// Writes the files of that state into the folder of definitions, all of them or none, and takes away those that were not there. A
/// running gateway takes it over as it takes over every change. What the folder holds now is kept as a state too, so a rollback can
/// be taken back.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium rollback 12 --why \"customers cannot log in\"
  allium rollback 12 --dry-run        only show what would change

Exit codes:
  0  the folder holds that state now; with --dry-run: it could
  1  there is no such state, or it has faults today
  3  something cannot be read or written")]
pub struct Rollback {
    /// The state: its number, or the beginning of its revision
    pub state: String,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,
}

/// Write definitions in another way: YAML, JSON or protobuf
///
/// The endings of the names say how each side is written: .yaml or .yml, .json, .binpb (a serialized allium.v1.Definitions).
/// There and back loses comments, the order of keys and nothing else.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium convert routes/a.yaml a.binpb
  allium convert routes all.json      a whole folder into one file
  allium convert a.binpb -            to standard output, as YAML
  allium convert - a.json --from yaml < a.yaml

Exit codes:
  0  it is written
  1  the source has faults; nothing is written
  2  a name says nothing about how it is written
  3  something cannot be read or written")]
pub struct Convert {
    /// A file or folder; - for standard input
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// A file; - for standard output
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
    /// How standard input is written
    #[arg(long, value_enum, default_value_t = Ending::Yaml)]
    pub from: Ending,
    /// How standard output is written
    #[arg(long, value_enum, default_value_t = Ending::Yaml)]
    pub to: Ending,
}

/// A way of writing definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ending {
    Yaml,
    Json,
    Binpb,
}

/// Print the JSON Schema that editors check and complete with
///
/// It knows the plugins of this build. Editors that speak YAML find it by the first line of a file:
///
///   # yaml-language-server: $schema=allium.schema.json
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_long_help = "\
Examples:
  allium schema > allium.schema.json
  allium schema --settings > settings.schema.json

Exit codes:
  0  it is printed
  3  it cannot be written"
)]
pub struct Schema {
    /// The schema of allium.yaml in place of the one of definitions
    #[arg(long)]
    pub settings: bool,
}

/// Print the OpenAPI 3.1 document of the published APIs
///
/// Drafts and retired APIs are left out. What a document has no place for, such as a second API under the same path for another
/// host, is told on standard error.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  allium openapi > openapi.json
  allium openapi --format yaml --server https://api.example.com
  allium openapi --audience partner   only APIs whose `info.tags` hold `partner`
  allium openapi --host api.example.com

Exit codes:
  0  it is printed
  1  the definitions have faults
  3  a file or folder cannot be read, or the document cannot be written")]
pub struct Openapi {
    /// A folder or file of definitions in place of the settings' own
    pub path: Option<PathBuf>,
    /// Only APIs whose `info.tags` hold this word
    #[arg(long, value_name = "TAG")]
    pub audience: Option<String>,
    /// Only APIs that this host reaches
    #[arg(long)]
    pub host: Option<String>,
    /// Where clients reach the gateway [default: the first listener]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// The document's title
    #[arg(long, default_value = "APIs")]
    pub title: String,
    /// The document's version
    #[arg(long, value_name = "VERSION", default_value = "1")]
    pub document_version: String,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Notation::Json)]
    pub format: Notation,
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Notation {
    Json,
    Yaml,
}
