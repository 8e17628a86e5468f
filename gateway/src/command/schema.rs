//! `allium schema`: what editors check and complete with.
use serde_json::Value;

use super::{exit::Exit, line::Schema, terminal::Terminal, world::Given};

pub fn schema(it: &Schema, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    let schema = match it.settings {
        true => crate::settings::json_schema(),
        false => of_definitions(given),
    };
    terminal.print(format!("{schema:#}\n"))?;
    Ok(Exit::Well)
}

/// The JSON Schema of definitions, with the plugins of this build.
pub fn of_definitions(given: &Given) -> Value {
    let plugins: Vec<(&str, &str, Value)> = given.plugins.iter().map(|it| (it.name, it.about, Value::from((it.schema)()))).collect();
    schemas::json_schema(&plugins)
}
