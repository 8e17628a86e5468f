//! What is wrong with settings, by the way to the value.

/// One fault, before anybody knows in which line it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// A JSON Pointer.
    pub pointer: String,
    pub code: &'static str,
    /// It holds, but is most likely not what was meant.
    pub warning: bool,
    pub message: String,
    pub help: Option<String>,
}

/// Faults as they are found.
#[derive(Debug, Default)]
pub struct Faults {
    pub list: Vec<Found>,
}

impl Faults {
    /// A fault: the gateway does not start.
    pub fn error(&mut self, pointer: &str, message: impl Into<String>) -> &mut Found {
        self.push(pointer, false, message.into())
    }

    /// A doubt: the gateway starts and says so.
    pub fn warning(&mut self, pointer: &str, message: impl Into<String>) -> &mut Found {
        self.push(pointer, true, message.into())
    }

    fn push(&mut self, pointer: &str, warning: bool, message: String) -> &mut Found {
        let at = self.list.len();
        self.list.push(Found { pointer: pointer.to_owned(), code: "bad-setting", warning, message, help: None });
        &mut self.list[at]
    }
}

impl Found {
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    pub fn code(&mut self, code: &'static str) -> &mut Self {
        self.code = code;
        self
    }
}
