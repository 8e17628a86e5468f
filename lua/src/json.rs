//! JSON as scripts see it: null and empty lists stay what they are, no digit is lost, members keep their order.
use bytes::Bytes;
use contract::json::{JsonOptions, JsonRef, JsonView, Kind, push_f64, push_string};
use mlua::{AnyUserData, Error, Lua, MetaMethod, Result, Table, UserData, UserDataMethods, Value};

use crate::budget::Gauge;

/// How deep a value that a script builds may be nested.
const MOST_DEEP: usize = 128;
/// The most bytes that one call encodes.
const MOST_BYTES: usize = 16 << 20;
/// Names of what a machine keeps for itself.
const LIST: &str = "allium.list";
const ORDER: &str = "allium.order";

/// A number whose digits a double cannot hold.
pub(crate) struct Exact(pub Box<str>);

impl UserData for Exact {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |lua, it, ()| lua.create_string(it.0.as_bytes()));
        methods.add_meta_method(MetaMethod::Eq, |_, it, other: AnyUserData| Ok(other.borrow::<Exact>().is_ok_and(|other| other.0 == it.0)));
        methods.add_method("tonumber", |_, it, ()| Ok(it.0.parse::<f64>().ok()));
    }
}

/// Makes what all scripts of a machine share.
pub(crate) fn install(lua: &Lua) -> Result<()> {
    let list = lua.create_table()?;
    list.raw_set("__metatable", "list")?;
    list.set_readonly(true);
    lua.set_named_registry_value(LIST, list)?;
    let (order, weak) = (lua.create_table()?, lua.create_table()?);
    weak.raw_set("__mode", "k")?;
    order.set_metatable(Some(weak))?;
    lua.set_named_registry_value(ORDER, order)
}

/// Marks a table as a list: an empty one is then `[]`.
pub(crate) fn list(lua: &Lua, it: Table) -> Result<Table> {
    if it.has_metatable() && it.metatable() != lua.named_registry_value::<Option<Table>>(LIST)? {
        return Err(Error::runtime("allium.json.array: the table has a metatable of its own"));
    }
    it.set_metatable(Some(lua.named_registry_value(LIST)?))?;
    Ok(it)
}

/// An integer of any length.
pub(crate) fn integer(text: &str) -> Result<Exact> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let good = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    match good && text.len() <= 1000 {
        true => Ok(Exact(text.into())),
        false => Err(Error::runtime("allium.json.integer: write it as digits, such as \"9007199254740993\"")),
    }
}

/// Text becomes a value.
pub(crate) fn decode(lua: &Lua, text: Bytes, depth: usize) -> Result<Value> {
    let view = JsonView::parse_with(text, &JsonOptions { max_depth: depth, ..JsonOptions::default() })
        .map_err(|it| Error::runtime(format_args!("not JSON: {it}")))?;
    value(lua, view.root())
}

/// One value of a document.
pub(crate) fn value(lua: &Lua, it: JsonRef<'_>) -> Result<Value> {
    Shelves { lua, list: lua.named_registry_value(LIST)?, order: lua.named_registry_value(ORDER)? }.value(it)
}

struct Shelves<'a> {
    lua: &'a Lua,
    list: Table,
    order: Table,
}

impl Shelves<'_> {
    /// As deep as the parser let the document be.
    fn value(&self, it: JsonRef<'_>) -> Result<Value> {
        Ok(match it.kind() {
            Kind::Null => Value::NULL,
            Kind::Bool => Value::Boolean(it.as_bool().unwrap_or_default()),
            Kind::Number => number(self.lua, it.as_number().unwrap_or("0"))?,
            Kind::String => Value::String(self.lua.create_string(it.as_str().unwrap_or_default().as_bytes())?),
            Kind::Array => {
                let table = self.lua.create_table_with_capacity(it.len(), 0)?;
                for (at, it) in it.items().enumerate() {
                    table.raw_set(at + 1, self.value(it)?)?;
                }
                table.set_metatable(Some(self.list.clone()))?;
                Value::Table(table)
            }
            Kind::Object => {
                let table = self.lua.create_table_with_capacity(0, it.len())?;
                let keys = self.lua.create_table_with_capacity(it.len(), 0)?;
                for (key, it) in it.members() {
                    let key = self.lua.create_string(key.as_str().unwrap_or_default().as_bytes())?;
                    keys.raw_push(&key)?;
                    table.raw_set(key, self.value(it)?)?;
                }
                self.order.raw_set(&table, keys)?;
                Value::Table(table)
            }
        })
    }
}

/// A number, as a double where that holds every digit.
pub(crate) fn number(lua: &Lua, text: &str) -> Result<Value> {
    let digits = text.split(['e', 'E']).next().unwrap_or(text).bytes().filter(u8::is_ascii_digit).skip_while(|it| *it == b'0').count();
    match text.parse::<f64>() {
        // Fifteen digits survive a double, and so does every integer below 2^53.
        Ok(it)
            if it.is_finite()
                && (digits <= 15 || text.parse::<i64>().is_ok_and(|it| it.unsigned_abs() <= 1 << 53))
                && (it != 0.0 || digits == 0) =>
        {
            Ok(Value::Number(it))
        }
        _ => Ok(Value::UserData(lua.create_userdata(Exact(text.into()))?)),
    }
}

/// A value becomes text.
pub(crate) fn encode(lua: &Lua, gauge: &Gauge, it: &Value) -> Result<Vec<u8>> {
    let mut writer =
        Writer { gauge, order: lua.named_registry_value(ORDER)?, list: lua.named_registry_value(LIST)?, out: Vec::new(), count: 0 };
    writer.write(it, 0)?;
    Ok(writer.out)
}

struct Writer<'a> {
    gauge: &'a Gauge,
    order: Table,
    list: Table,
    out: Vec<u8>,
    count: u32,
}

impl Writer<'_> {
    fn write(&mut self, it: &Value, depth: usize) -> Result<()> {
        self.count += 1;
        if self.count.is_multiple_of(256) {
            // A small table that stands in itself many times becomes a long text.
            self.gauge.check()?;
        }
        if self.out.len() > MOST_BYTES {
            return Err(Error::runtime("json: more than 16MiB"));
        }
        if depth > MOST_DEEP {
            return Err(Error::runtime("json: nested deeper than 128, or a table that contains itself"));
        }
        match it {
            Value::Nil => self.out.extend_from_slice(b"null"),
            it if it.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(it) => self.out.extend_from_slice(if *it { b"true" } else { b"false" }),
            Value::Integer(it) => self.out.extend_from_slice(it.to_string().as_bytes()),
            Value::Number(it) if it.is_finite() => match it.fract() == 0.0 && it.abs() <= 9_007_199_254_740_992.0 {
                true => self.out.extend_from_slice((*it as i64).to_string().as_bytes()),
                false => push_f64(*it, &mut self.out),
            },
            Value::Number(_) => return Err(Error::runtime("json: not a number, or infinite")),
            Value::String(it) => self.text(it)?,
            Value::Table(it) => self.table(it, depth)?,
            Value::UserData(it) => match it.borrow::<Exact>() {
                Ok(it) => self.out.extend_from_slice(it.0.as_bytes()),
                Err(_) => return Err(Error::runtime("json: an object of the gateway is no JSON")),
            },
            other => return Err(Error::runtime(format_args!("json: a {} is no JSON", other.type_name()))),
        }
        Ok(())
    }

    fn text(&mut self, it: &mlua::LuaString) -> Result<()> {
        let bytes = it.as_bytes();
        let text = std::str::from_utf8(&bytes).map_err(|_| Error::runtime("json: a text that is not UTF-8"))?;
        push_string(text, &mut self.out);
        Ok(())
    }

    fn table(&mut self, it: &Table, depth: usize) -> Result<()> {
        let length = it.raw_len();
        let mut others: Vec<mlua::LuaString> = Vec::new();
        let mut counted = 0usize;
        it.for_each(|key: Value, _: Value| {
            counted += 1;
            match key {
                Value::String(it) => others.push(it),
                Value::Integer(at) if at >= 1 && at as usize <= length => (),
                Value::Number(at) if at.fract() == 0.0 && at >= 1.0 && at as usize <= length => (),
                _ => return Err(Error::runtime("json: a list has a hole, or a key is neither a text nor a place in a list")),
            }
            Ok(())
        })?;
        let marked = it.metatable().is_some_and(|it| it == self.list);
        if length > 0 && !others.is_empty() || marked && !others.is_empty() {
            return Err(Error::runtime("json: a table is either a list or an object, not both"));
        }
        if length > 0 && counted != length {
            return Err(Error::runtime("json: a list has a hole"));
        }
        if marked || length > 0 {
            self.out.push(b'[');
            for at in 1..=length {
                if at > 1 {
                    self.out.push(b',');
                }
                self.write(&it.raw_get::<Value>(at)?, depth + 1)?;
            }
            self.out.push(b']');
            return Ok(());
        }
        self.out.push(b'{');
        let mut first = true;
        let known: Option<Table> = self.order.raw_get(it)?;
        if let Some(known) = known {
            let mut seen = std::collections::HashSet::new();
            for key in known.sequence_values::<mlua::LuaString>() {
                let key = key?;
                let value: Value = it.raw_get(&key)?;
                if !value.is_nil() && seen.insert(key.as_bytes().to_vec()) {
                    self.member(&mut first, &key, &value, depth)?;
                }
            }
            others.retain(|it| !seen.contains(&*it.as_bytes()));
        }
        others.sort_by_cached_key(|it| it.as_bytes().to_vec());
        for key in &others {
            let value: Value = it.raw_get(key)?;
            self.member(&mut first, key, &value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn member(&mut self, first: &mut bool, key: &mlua::LuaString, value: &Value, depth: usize) -> Result<()> {
        if !std::mem::take(first) {
            self.out.push(b',');
        }
        self.text(key)?;
        self.out.push(b':');
        self.write(value, depth + 1)
    }
}

/// What the gateway knows, as a script sees it.
pub(crate) fn from_gateway(lua: &Lua, it: &contract::Value) -> Result<Value> {
    use contract::Value as Known;
    Ok(match it {
        Known::Null => Value::Nil,
        Known::Bool(it) => Value::Boolean(*it),
        Known::Number(it) => number(lua, it)?,
        Known::Text(it) => Value::String(lua.create_string(it.as_bytes())?),
        Known::Json(it) => value(lua, it.as_ref())?,
        Known::List(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for it in items {
                let it = from_gateway(lua, it)?;
                table.raw_push(if it.is_nil() { Value::NULL } else { it })?;
            }
            Value::Table(list(lua, table)?)
        }
        Known::Map(members) => {
            let table = lua.create_table_with_capacity(0, members.len())?;
            for (key, it) in members {
                table.raw_set(&**key, from_gateway(lua, it)?)?;
            }
            Value::Table(table)
        }
    })
}

/// What a script gives the gateway to keep.
pub(crate) fn to_gateway(lua: &Lua, gauge: &Gauge, it: &Value) -> Result<contract::Value> {
    use contract::Value as Known;
    Ok(match it {
        Value::Nil => Known::Null,
        Value::Boolean(it) => Known::Bool(*it),
        Value::String(it) => Known::Text(it.to_str().map_err(|_| Error::runtime("a text that is not UTF-8"))?.as_ref().into()),
        it => {
            let text = encode(lua, gauge, it)?;
            match it {
                Value::Integer(_) | Value::Number(_) | Value::UserData(_) => Known::Number(String::from_utf8_lossy(&text).into()),
                _ if it.is_null() => Known::Null,
                _ => {
                    let options = JsonOptions { max_depth: MOST_DEEP + 1, ..JsonOptions::default() };
                    let view = JsonView::parse_with(text, &options).map_err(|it| Error::runtime(format_args!("json: {it}")))?;
                    Known::Json(view.into())
                }
            }
        }
    })
}
