//! Where the command writes: results to standard output, everything else to standard error.
use std::io::{self, IsTerminal, Write};

use super::exit::Exit;

/// The two streams, and whether each takes colours.
pub struct Terminal {
    /// Standard output takes colours.
    pub out: Paint,
    /// Standard error takes colours.
    pub err: Paint,
    /// Somebody watches standard error.
    pub watched: bool,
}

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Whether text is coloured at all.
    pub on: bool,
}

impl Terminal {
    /// The streams of this process.
    pub fn of_process() -> Self {
        let paint = |terminal: bool| Paint { on: coloured(terminal, |it| std::env::var(it).ok()) };
        let watched = io::stderr().is_terminal();
        Self { out: paint(io::stdout().is_terminal()), err: paint(watched), watched }
    }

    /// Writes a result. A reader that has seen enough, as `head` has, is no fault.
    pub fn print(&self, bytes: impl AsRef<[u8]>) -> Result<(), Exit> {
        let mut out = io::stdout().lock();
        match out.write_all(bytes.as_ref()).and_then(|()| out.flush()) {
            Err(fault) if fault.kind() != io::ErrorKind::BrokenPipe => {
                self.error(&format!("the output cannot be written: {fault}"));
                Err(Exit::Unusable)
            }
            _ => Ok(()),
        }
    }

    /// Writes to whoever called the command; if nobody listens, nobody misses it.
    pub fn tell(&self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// One line that says what went wrong.
    pub fn error(&self, message: &str) {
        self.tell(&format!("{} {}\n", self.err.red("error:"), clean(message)));
    }

    /// One line beside the result.
    pub fn note(&self, message: &str) {
        self.tell(&format!("{} {}\n", self.err.bold("note:"), clean(message)));
    }
}

/// Names of files come from anywhere: none of their characters may steer the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect()
}

impl Paint {
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Source: <https://no-color.org> and <https://bixense.com/clicolors>; a variable that is empty is not set.
fn coloured(terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |it: &str| variable(it).filter(|it| !it.is_empty());
    if set("NO_COLOR").is_some() {
        return false;
    }
    match set("CLICOLOR_FORCE").as_deref() {
        Some("0") | None => terminal && set("CLICOLOR").as_deref() != Some("0") && set("TERM").as_deref() != Some("dumb"),
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        let check = |terminal, variables: &[(&str, &str)], expected| {
            let found = super::coloured(terminal, |name| variables.iter().find(|it| it.0 == name).map(|it| it.1.to_owned()));
            assert_eq!(found, expected, "{terminal} {variables:?}");
        };
        check(true, &[], true);
        check(false, &[], false);
        check(true, &[("NO_COLOR", "1")], false);
        check(true, &[("NO_COLOR", "")], true);
        check(false, &[("CLICOLOR_FORCE", "1")], true);
        check(false, &[("CLICOLOR_FORCE", "0")], false);
        check(true, &[("CLICOLOR", "0")], false);
        check(true, &[("TERM", "dumb")], false);
        check(false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false);
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(super::clean("a\x1b[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
    }
}
