//! The script machine of one thread: an environment a script, hooks run as coroutines.
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt,
    rc::Rc,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use contract::{Exchange, onion::Response};
use mlua::{Function, Lua, Table, Value, chunk::ChunkMode};

use crate::{
    budget::{self, Broken, Budgeted, Gauge, Trip},
    sandbox,
    script::Script,
    view::{Answer, Handles},
};

/// A machine that has grown beyond this is replaced.
const MOST_MEMORY: usize = 128 << 20;
/// Idle views kept for later runs.
const MOST_IDLE: usize = 64;

/// Finds the code of a module by its name.
pub(crate) type Modules = Rc<dyn Fn(&str) -> mlua::Result<Bytes>>;

/// A function that scripts may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    Request,
    Response,
}

/// How a run ended well.
pub struct Ran {
    /// What the script answers, if it does.
    pub answer: Option<Response>,
    /// Time on the thread, waits not counted.
    pub took: Duration,
    /// Bytes that the machine holds afterwards.
    pub memory: usize,
}

/// How a run failed. The text is for the log: it holds the traceback.
#[derive(Debug)]
pub struct Failure {
    pub trip: Option<Trip>,
    text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// The machine of this thread, replaced when it has grown too large.
#[derive(Default)]
pub struct Machines(RefCell<Option<Rc<Machine>>>);

/// One engine and what is loaded into it.
pub(crate) struct Machine {
    lua: Lua,
    gauge: Rc<Gauge>,
    loaded: RefCell<HashMap<u64, Rc<Loaded>>>,
    idle: RefCell<Vec<Handles>>,
    worn: Cell<bool>,
}

/// A script's hooks in its own environment.
struct Loaded {
    script: Weak<Script>,
    on_request: Option<Function>,
    on_response: Option<Function>,
}

impl Machines {
    /// Runs one hook. For the time of it, the script has the exchange's head, and `response` where there is one.
    pub async fn run(&self, script: &Arc<Script>, hook: Hook, ex: &mut Exchange, response: Option<&mut Response>) -> Result<Ran, Failure> {
        let machine = self.machine().map_err(|it| Failure { trip: None, text: it.to_string() })?;
        machine.run(script, hook, ex, response).await
    }

    fn machine(&self) -> mlua::Result<Rc<Machine>> {
        let mut now = self.0.borrow_mut();
        match &*now {
            Some(it) if !it.worn.get() => Ok(it.clone()),
            // Runs that wait meanwhile keep the old one until they end.
            _ => Ok(now.insert(Rc::new(Machine::new()?)).clone()),
        }
    }
}

impl Machine {
    pub fn new() -> mlua::Result<Self> {
        let (lua, gauge) = (Lua::new(), Gauge::new());
        sandbox::close(&lua, &gauge)?;
        budget::watch(&lua, &gauge);
        Ok(Self { lua, gauge, loaded: RefCell::default(), idle: RefCell::default(), worn: Cell::new(false) })
    }

    /// Runs the outermost part of a script, which gives its table.
    pub fn evaluate(&self, script: &Script, modules: Modules) -> Result<Table, Broken> {
        let make = || {
            let environment = sandbox::environment(&self.lua, script, &self.gauge, modules)?;
            let it = self.lua.load(&script.code[..]).set_mode(ChunkMode::Binary).set_name(format!("={}", script.name));
            match it.set_environment(environment).eval::<Value>()? {
                Value::Table(it) => Ok(it),
                other => Err(mlua::Error::runtime(format_args!(
                    "{}: a script returns a table of functions, this one returns {}; end it with `return M`",
                    script.name,
                    match other.type_name() {
                        "nil" => "nothing",
                        "integer" => "number",
                        it => it,
                    }
                ))),
            }
        };
        budget::at_once(&self.lua, &self.gauge, script.limits.time, script.limits.memory, make)
    }

    fn loaded(&self, script: &Arc<Script>) -> Result<Rc<Loaded>, Broken> {
        if let Some(it) = self.loaded.borrow().get(&script.id) {
            return Ok(it.clone());
        }
        let code = Arc::downgrade(script);
        let modules: Modules = Rc::new(move |name| {
            let script = code.upgrade();
            script.and_then(|it| it.modules.get(name).cloned()).ok_or_else(|| {
                mlua::Error::runtime(format_args!(
                    "module '{name}' was not required when the script was loaded; require it outside of functions"
                ))
            })
        });
        let table = self.evaluate(script, modules)?;
        let hook = |name: &str| table.get::<Option<Function>>(name).map_err(Broken::Error);
        let it = Rc::new(Loaded { script: Arc::downgrade(script), on_request: hook("on_request")?, on_response: hook("on_response")? });
        let mut all = self.loaded.borrow_mut();
        // What no route has any more.
        all.retain(|_, it| it.script.strong_count() > 0);
        all.insert(script.id, it.clone());
        Ok(it)
    }

    async fn run(
        self: &Rc<Self>,
        script: &Arc<Script>,
        hook: Hook,
        ex: &mut Exchange,
        response: Option<&mut Response>,
    ) -> Result<Ran, Failure> {
        let started = Instant::now();
        let loaded = self.loaded(script).map_err(|it| self.failure(script, it))?;
        let function = match hook {
            Hook::Request => &loaded.on_request,
            Hook::Response => &loaded.on_response,
        };
        let Some(function) = function else { return Ok(Ran { answer: None, took: Duration::ZERO, memory: self.lua.used_memory() }) };
        let broken = |it: mlua::Error| self.failure(script, Broken::Error(it));
        let idle = self.idle.borrow_mut().pop();
        let handles = match idle {
            Some(it) => it,
            None => Handles::new(&self.lua, &self.gauge).map_err(broken)?,
        };
        let request = ex.id.to_str().unwrap_or_default().to_owned();
        let lent = handles.lend(ex, response);
        let thread = self.lua.create_thread(function.clone()).map_err(broken)?;
        let inner = match hook {
            Hook::Request => thread.into_async::<Value>((&handles.req, &handles.ctx)),
            Hook::Response => thread.into_async::<Value>((&handles.req, &handles.res, &handles.ctx)),
        };
        let mut run = Budgeted {
            lua: self.lua.clone(),
            gauge: self.gauge.clone(),
            inner: inner.map_err(broken)?,
            time: script.limits.time.saturating_sub(started.elapsed()),
            memory: script.limits.memory,
            request,
        };
        let outcome = (&mut run).await;
        let took = script.limits.time.saturating_sub(run.time);
        drop(run);
        drop(lent);
        let answer = match outcome {
            Ok(Value::Nil) => None,
            Ok(Value::UserData(it)) if it.is::<Answer>() => Some(it.borrow_mut::<Answer>().map_err(broken)?.take()),
            Ok(other) => {
                let message =
                    format!("{}: a hook returns nothing or ctx.respond(…), this one returned a {}", script.name, other.type_name());
                return Err(broken(mlua::Error::runtime(message)));
            }
            Err(it) => return Err(self.failure(script, it)),
        };
        let mut idle = self.idle.borrow_mut();
        if idle.len() < MOST_IDLE {
            idle.push(handles);
        }
        let memory = self.lua.used_memory();
        if memory > MOST_MEMORY {
            let _ = self.lua.gc_collect();
            self.worn.set(self.lua.used_memory() > MOST_MEMORY);
        }
        Ok(Ran { answer, took, memory })
    }

    /// What a script left behind that overdrew a budget goes with its environment.
    fn failure(&self, script: &Script, it: Broken) -> Failure {
        match it {
            Broken::Error(it) => Failure { trip: None, text: it.to_string() },
            Broken::Trip(trip) => {
                self.loaded.borrow_mut().remove(&script.id);
                if trip == Trip::Memory {
                    let _ = self.lua.gc_collect();
                }
                Failure { trip: Some(trip), text: format!("{}: {trip}", script.name) }
            }
        }
    }
}
