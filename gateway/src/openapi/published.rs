//! One published Api, as the document sees it.
use schemas::v1;
use serde_json::Value;

use super::path::Route;

/// One published Api.
pub struct Published<'a> {
    pub name: &'a str,
    pub version: Option<&'a str>,
    pub api: &'a v1::Api,
    /// Its patterns, in the order in which they were written.
    pub routes: Vec<Route>,
    /// Its rings, outermost first, Presets expanded.
    pub rings: Vec<RingView>,
}

/// What the document says of one ring.
pub struct RingView {
    pub name: Box<str>,
    /// Its config as it was written.
    pub config: Value,
    /// Whether it runs for some requests alone.
    pub sometimes: bool,
    /// Which statuses it answers with itself, such as `401, 403`.
    pub answers: &'static str,
    /// Whether it says who is calling.
    pub authenticates: bool,
}

impl Published<'_> {
    pub fn state(&self) -> &str {
        let lifecycle = self.api.info.as_ref().and_then(|it| it.lifecycle.as_ref());
        lifecycle.and_then(|it| it.state.as_deref()).unwrap_or("active")
    }

    pub fn tags(&self) -> &[String] {
        self.api.info.as_ref().map_or(&[], |it| &it.tags)
    }

    /// `name@version`, as other commands write it.
    pub fn shown(&self) -> String {
        self.version.map_or_else(|| self.name.to_owned(), |it| format!("{}@{it}", self.name))
    }
}
