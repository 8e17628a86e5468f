//! `allium.*`: what scripts may ask of the gateway.
use std::{
    rc::Rc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use mlua::{Error, Function, Lua, LuaString, MultiValue, Result, Table, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};
use ring::{digest, hmac, rand::SecureRandom};

use crate::{budget::Gauge, json, script::Script};

/// RFC 3986's unreserved characters stand as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The longest line that a script writes into the log.
const MOST_LOG: usize = 4096;

/// Where the shared part is kept.
const SHARED: &str = "allium.shared";

/// Makes the part that all scripts of a machine share; it has no state.
pub(crate) fn install(lua: &Lua) -> Result<()> {
    json::install(lua)?;
    let it = lua.create_table()?;
    it.raw_set("base64", pair(lua, |lua, it| lua.create_string(STANDARD.encode(&*it.as_bytes())), |it| STANDARD.decode(it).ok())?)?;
    it.raw_set(
        "base64url",
        pair(lua, |lua, it| lua.create_string(URL_SAFE_NO_PAD.encode(&*it.as_bytes())), |it| URL_SAFE_NO_PAD.decode(it).ok())?,
    )?;
    it.raw_set("hex", pair(lua, |lua, it| lua.create_string(hex(&it.as_bytes())), unhex)?)?;
    it.raw_set(
        "url",
        pair(
            lua,
            |lua, it| lua.create_string(percent_encode(&it.as_bytes(), ENCODED).to_string()),
            |it| Some(percent_decode(it).collect()),
        )?,
    )?;
    it.raw_set("sha256", lua.create_function(|lua, it: LuaString| lua.create_string(digest::digest(&digest::SHA256, &it.as_bytes())))?)?;
    it.raw_set(
        "hmac",
        lua.create_function(|lua, (key, text, name): (LuaString, LuaString, Option<LuaString>)| {
            let algorithm = match name.as_ref().map(|it| it.as_bytes().to_vec()).as_deref() {
                None | Some(b"sha256") => hmac::HMAC_SHA256,
                Some(b"sha1") => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
                Some(b"sha384") => hmac::HMAC_SHA384,
                Some(b"sha512") => hmac::HMAC_SHA512,
                _ => return Err(Error::runtime("allium.hmac: sha1, sha256, sha384 or sha512")),
            };
            lua.create_string(hmac::sign(&hmac::Key::new(algorithm, &key.as_bytes()), &text.as_bytes()))
        })?,
    )?;
    it.raw_set("uuid", lua.create_function(|lua, ()| lua.create_string(uuid()?))?)?;
    it.raw_set("now", lua.create_function(|_, ()| Ok(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()))?)?;
    lua.set_named_registry_value(SHARED, it)
}

fn pair(
    lua: &Lua,
    encode: impl Fn(&Lua, LuaString) -> Result<LuaString> + 'static,
    decode: impl Fn(&[u8]) -> Option<Vec<u8>> + 'static,
) -> Result<Table> {
    let it = lua.create_table()?;
    it.raw_set("encode", lua.create_function(move |lua, text: LuaString| encode(lua, text))?)?;
    // What cannot be decoded is nil: it came from a client.
    it.raw_set(
        "decode",
        lua.create_function(move |lua, text: LuaString| decode(&text.as_bytes()).map(|it| lua.create_string(it)).transpose())?,
    )?;
    it.set_readonly(true);
    Ok(it)
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|it| [DIGITS[usize::from(it >> 4)], DIGITS[usize::from(it & 15)]]).map(char::from).collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |it: u8| char::from(it).to_digit(16).map(|it| it as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// A random one, of version 4.
fn uuid() -> Result<String> {
    let mut bytes = [0u8; 16];
    ring::rand::SystemRandom::new().fill(&mut bytes).map_err(|_| Error::runtime("allium.uuid: the system has no randomness"))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    Ok([&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
}

/// `allium` and `print` of one script.
pub(crate) fn of_script(lua: &Lua, script: &Script, gauge: &Rc<Gauge>) -> Result<(Table, Function)> {
    let it = lua.create_table()?;
    lua.named_registry_value::<Table>(SHARED)?.for_each(|key: Value, value: Value| it.raw_set(key, value))?;
    let log = lua.create_table()?;
    for level in ["error", "warn", "info", "debug"] {
        let (journal, gauge) = (script.journal.clone(), gauge.clone());
        log.raw_set(
            level,
            lua.create_function(move |_, all: MultiValue| {
                journal(level, &gauge.request.borrow(), &line(&all)?);
                Ok(())
            })?,
        )?;
    }
    let print = log.raw_get("info")?;
    log.set_readonly(true);
    it.raw_set("log", log)?;

    let cache = lua.create_table()?;
    let known = script.cache.clone();
    cache.raw_set(
        "get",
        lua.create_function(move |lua, key: LuaString| {
            known.get(&key.as_bytes(), Instant::now()).map(|it| lua.create_string(it)).transpose()
        })?,
    )?;
    let known = script.cache.clone();
    cache.raw_set(
        "set",
        lua.create_function(move |_, (key, value, ttl): (LuaString, LuaString, f64)| {
            if !(ttl > 0.0 && ttl <= 86_400.0 * 30.0) {
                return Err(Error::runtime("allium.cache.set: the time to live is given in seconds, up to 30 days"));
            }
            let value = Bytes::copy_from_slice(&value.as_bytes());
            Ok(known.set(&key.as_bytes(), value, Duration::from_secs_f64(ttl), Instant::now()))
        })?,
    )?;
    let known = script.cache.clone();
    cache.raw_set(
        "delete",
        lua.create_function(move |_, key: LuaString| {
            known.delete(&key.as_bytes());
            Ok(())
        })?,
    )?;
    cache.set_readonly(true);
    it.raw_set("cache", cache)?;

    let own = lua.create_table()?;
    own.raw_set("null", Value::NULL)?;
    own.raw_set("array", lua.create_function(|lua, it: Option<Table>| json::list(lua, it.map_or_else(|| lua.create_table(), Ok)?))?)?;
    own.raw_set("integer", lua.create_function(|_, text: String| json::integer(&text))?)?;
    own.raw_set("decode", lua.create_function(|lua, text: LuaString| json::decode(lua, Bytes::copy_from_slice(&text.as_bytes()), 128))?)?;
    let mine = gauge.clone();
    own.raw_set("encode", lua.create_function(move |lua, it: Value| lua.create_string(json::encode(lua, &mine, &it)?))?)?;
    own.set_readonly(true);
    it.raw_set("json", own)?;
    it.set_readonly(true);
    Ok((it, print))
}

fn line(all: &MultiValue) -> Result<String> {
    let mut text = String::new();
    for it in all {
        if !text.is_empty() {
            text.push(' ');
        }
        match it {
            Value::String(it) => text.push_str(&String::from_utf8_lossy(&it.as_bytes()[..it.as_bytes().len().min(MOST_LOG)])),
            Value::Nil => text.push_str("nil"),
            Value::Boolean(it) => text.push_str(if *it { "true" } else { "false" }),
            Value::Integer(it) => text.push_str(&it.to_string()),
            Value::Number(it) => text.push_str(&it.to_string()),
            other => text.push_str(other.type_name()),
        }
        if text.len() > MOST_LOG {
            text.truncate((0..=MOST_LOG).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0));
            break;
        }
    }
    Ok(text)
}
