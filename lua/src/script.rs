//! One script as it was compiled when definitions loaded: bytecode of the file and of what it requires.
use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use contract::env::Journal;
use mlua::{
    Lua,
    chunk::{ChunkMode, Compiler},
};

use crate::{
    budget::Broken,
    cache::Cache,
    machine::{Machine, Modules},
};

/// What one run may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub time: Duration,
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_millis(50), memory: 16 << 20 }
    }
}

/// Reads a file that a definition names.
pub type Reader<'a> = dyn Fn(&str) -> Result<Vec<u8>, String> + 'a;

/// Where a script's text comes from.
pub struct Source<'a> {
    /// Its name in errors and tracebacks: the file's.
    pub name: &'a str,
    pub text: &'a [u8],
    /// Reads a file below `lua/`, for `require`; none where a script may not require.
    pub files: Option<&'a Reader<'a>>,
}

/// A compiled script; shared by all threads.
pub struct Script {
    pub(crate) id: u64,
    pub(crate) name: Box<str>,
    pub(crate) code: Bytes,
    pub(crate) modules: BTreeMap<Box<str>, Bytes>,
    pub(crate) limits: Limits,
    pub(crate) cache: Arc<Cache>,
    pub(crate) journal: Journal,
    /// Whether it has `on_request`.
    pub on_request: bool,
    /// Whether it has `on_response`.
    pub on_response: bool,
}

/// Why a script cannot be used.
#[derive(Debug)]
pub struct LoadError {
    /// Says file and line.
    pub message: String,
}

/// The functions that a script may return.
const HOOKS: &[&str] = &["on_request", "on_response"];

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Script {
    /// Compiles a script and whatever it requires, and runs its outermost part once, to see what it returns.
    ///
    /// `journal` writes a line of the script's own: its level, the request's id, the text.
    pub fn load(source: &Source<'_>, limits: Limits, cache: Arc<Cache>, journal: Journal) -> Result<Arc<Self>, LoadError> {
        let failed = |message: String| LoadError { message };
        let code = compile(source.name, source.text).map_err(failed)?;
        let script = Self {
            id: NEXT.fetch_add(1, Relaxed),
            name: source.name.into(),
            code,
            modules: BTreeMap::new(),
            limits,
            cache,
            journal: Arc::new(|_, _, _| ()),
            on_request: false,
            on_response: false,
        };
        let machine = Machine::new().map_err(|it| failed(format!("{}: {it}", source.name)))?;
        let found: Rc<RefCell<BTreeMap<Box<str>, Bytes>>> = Rc::default();
        // The machine's closures outlive no borrow, so what a script requires is read ahead, round by round, until nothing is missing.
        let table = loop {
            let known = found.clone();
            let missing = Rc::new(RefCell::new(None::<Box<str>>));
            let wanted = missing.clone();
            let modules: Modules = Rc::new(move |name| match known.borrow().get(name) {
                Some(it) => Ok(it.clone()),
                None => {
                    *wanted.borrow_mut() = Some(name.into());
                    Err(mlua::Error::runtime(format_args!("module '{name}' is not there yet")))
                }
            });
            let outcome = machine.evaluate(&script, modules);
            let Some(name) = missing.take() else { break outcome };
            let Some(files) = source.files else {
                return Err(failed(format!("{}: `require` works in a script of its own file, not in `source`", source.name)));
            };
            let path = module_file(&name).map_err(|it| failed(format!("{}: {it}", source.name)))?;
            let text = files(&path).map_err(|it| failed(format!("{}: require('{name}'): {it}", source.name)))?;
            let code = compile(&path, &text).map_err(failed)?;
            found.borrow_mut().insert(name, code);
            if found.borrow().len() > 100 {
                return Err(failed(format!("{}: more than 100 modules", source.name)));
            }
        };
        let table = table.map_err(|it| {
            failed(match it {
                Broken::Trip(it) => format!("{}: while it was loaded, {it}", source.name),
                Broken::Error(it) => first_line(&it.to_string()).to_owned(),
            })
        })?;
        let mut has = [false; 2];
        for pair in table.pairs::<mlua::Value, mlua::Value>() {
            let Ok((key, value)) = pair else { continue };
            let key = key.to_string().unwrap_or_default();
            match (HOOKS.iter().position(|it| *it == key), value.is_function()) {
                (Some(at), true) => has[at] = true,
                (Some(_), false) => return Err(failed(format!("{}: `{key}` must be a function", source.name))),
                (None, _) if key == "merge" => {
                    return Err(failed(format!("{}: `merge` is known, but not built into this gateway", source.name)));
                }
                // Helpers that a script keeps in its table.
                (None, _) => (),
            }
        }
        if has == [false; 2] {
            return Err(failed(format!("{}: the table that it returns has neither `on_request` nor `on_response`", source.name)));
        }
        drop(table);
        let modules = found.take();
        Ok(Arc::new(Self { modules, journal, on_request: has[0], on_response: has[1], ..script }))
    }

    /// Its file, or where its text stands.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn compile(name: &str, text: &[u8]) -> Result<Bytes, String> {
    if text.len() > 1 << 20 {
        return Err(format!("{name}: a script is at most 1MiB"));
    }
    let compiler = Compiler::new().set_optimization_level(2).set_debug_level(1);
    // Asked of the engine itself, whose errors name the chunk.
    let lua = Lua::new();
    match lua.load(text).set_mode(ChunkMode::Text).set_name(format!("={name}")).into_function() {
        Ok(_) => compiler.compile(text).map(Bytes::from).map_err(|it| format!("{name}: {it}")),
        Err(mlua::Error::SyntaxError { message, .. }) => Err(message),
        Err(it) => Err(first_line(&it.to_string()).to_owned()),
    }
}

pub(crate) fn first_line(text: &str) -> &str {
    text.trim_start_matches("runtime error: ").lines().next().unwrap_or_default()
}

/// `util.text` is `lua/util/text.lua`.
fn module_file(name: &str) -> Result<String, String> {
    let part = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
    match name.split('.').all(part) && name.len() <= 200 {
        true => Ok(format!("lua/{}.lua", name.replace('.', "/"))),
        false => Err(format!("require('{name}'): a module is named like util.text, which is lua/util/text.lua")),
    }
}
