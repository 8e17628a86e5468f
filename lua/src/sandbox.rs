//! What a script finds around it: the engine's harmless libraries, read-only, and an environment of its own.
use std::{cell::RefCell, collections::HashMap, rc::Rc};

use mlua::{Function, Lua, MultiValue, Table, Value, chunk::ChunkMode};

use crate::{budget::Gauge, library, machine::Modules, script::Script};

/// Globals that reach beyond a script, load code, or look into others' functions.
const TAKEN: &[&str] =
    &["getfenv", "setfenv", "loadstring", "load", "require", "newproxy", "debug", "collectgarbage", "print", "_G", "_VERSION"];

/// Coroutines tell when they run within each other, because there a run cannot be paused;
/// and functions that would loop inside the engine without end are bounded.
const PRELUDE: &str = r#"
local enter, leave, string, table, coroutine = ...
local resume, create, rep, move = coroutine.resume, coroutine.create, string.rep, table.move
coroutine.resume = function(co, ...)
  enter()
  return leave(resume(co, ...))
end
local function result(ok, ...)
  if not ok then error((...), 0) end
  return ...
end
coroutine.wrap = function(f)
  local co = create(f)
  return function(...) return result(coroutine.resume(co, ...)) end
end
local pcall = pcall
local function handled(handler, ok, ...)
  if ok then return true, ... end
  return false, handler(...)
end
-- The engine's own calls the handler on top of the error, where a run cannot be ended.
xpcall = function(f, handler, ...) return handled(handler, pcall(f, ...)) end
string.rep = function(s, n, ...)
  if s == "" then return "" end
  return rep(s, n, ...)
end
table.move = function(a, f, e, t, ...)
  if type(f) == "number" and type(e) == "number" and e - f > 1000000 then error("table.move: more than a million items", 2) end
  return move(a, f, e, t, ...)
end
"#;

/// Makes a fresh engine harmless. What is set here is shared by all scripts of a thread, and none of them can change it.
pub(crate) fn close(lua: &Lua, gauge: &Rc<Gauge>) -> mlua::Result<()> {
    let globals = lua.globals();
    for name in TAKEN {
        globals.raw_set(*name, Value::Nil)?;
    }
    // Randomness is one stream for all scripts of a thread: nobody may wind it back.
    globals.get::<Table>("math")?.raw_set("randomseed", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    globals.raw_set("unpack", globals.get::<Table>("table")?.get::<Function>("unpack")?)?;
    let depth = gauge.clone();
    let enter = lua.create_function(move |_, ()| {
        depth.depth.set(depth.depth.get() + 1);
        Ok(())
    })?;
    let depth = gauge.clone();
    let leave = lua.create_function(move |_, all: MultiValue| {
        depth.depth.set(depth.depth.get().saturating_sub(1));
        Ok(all)
    })?;
    let library = |name: &str| globals.get::<Table>(name);
    lua.load(PRELUDE).set_name("=[prelude]").call::<()>((enter, leave, library("string")?, library("table")?, library("coroutine")?))?;
    library::install(lua)?;
    lua.sandbox(true)
}

/// The globals of one script.
pub(crate) fn environment(lua: &Lua, script: &Script, gauge: &Rc<Gauge>, modules: Modules) -> mlua::Result<Table> {
    let environment = lua.create_table()?;
    let meta = lua.create_table()?;
    meta.raw_set("__index", lua.globals())?;
    meta.raw_set("__metatable", false)?;
    meta.set_readonly(true);
    environment.set_metatable(Some(meta))?;
    environment.raw_set("_G", &environment)?;
    let (allium, print) = library::of_script(lua, script, gauge)?;
    environment.raw_set("allium", allium)?;
    environment.raw_set("print", print)?;
    let known: RefCell<HashMap<String, Value>> = RefCell::default();
    // Weak would not do: the environment holds the function, and the function only its environment's own tables.
    let inside = environment.clone();
    let require = lua.create_function(move |lua, name: String| {
        if let Some(it) = known.borrow().get(&name) {
            return Ok(it.clone());
        }
        let code = modules(&name)?;
        let path = format!("=lua/{}.lua", name.replace('.', "/"));
        // A module that requires itself sees what Lua 5.1 shows it: `true`.
        known.borrow_mut().insert(name.clone(), Value::Boolean(true));
        let outcome = lua.load(&code[..]).set_mode(ChunkMode::Binary).set_name(path).set_environment(inside.clone()).eval::<Value>();
        let value = match outcome {
            Ok(Value::Nil) => Value::Boolean(true),
            Ok(it) => it,
            Err(it) => {
                known.borrow_mut().remove(&name);
                return Err(it);
            }
        };
        known.borrow_mut().insert(name, value.clone());
        Ok(value)
    })?;
    environment.raw_set("require", require)?;
    Ok(environment)
}
