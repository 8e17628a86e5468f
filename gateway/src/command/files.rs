//! Files of definitions by themselves, without settings: what `fmt`, `diff` and `convert` look at.
use std::{
    ffi::OsString,
    fs,
    io::{self, Read, Write},
    path::Path,
};

use schemas::{Document, Input, MAX_FILE, Options, render};

use super::{exit::Exit, terminal::Terminal};

/// Whether a path stands for standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// All of standard input.
pub fn stdin(terminal: &Terminal) -> Result<Vec<u8>, Exit> {
    let mut bytes = Vec::new();
    // One byte more than a file may have: loading says that it is too large.
    io::stdin().lock().take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(|fault| {
        terminal.error(&format!("standard input cannot be read: {fault}"));
        Exit::Unusable
    })?;
    Ok(bytes)
}

/// The definitions of a folder or file, unread.
pub fn inputs(path: &Path, terminal: &Terminal) -> Result<Vec<Input>, Exit> {
    let found = schemas::folder::collect(path);
    if found.faults.is_empty() {
        return Ok(found.inputs);
    }
    terminal.tell(&render::text(&found.faults, terminal.err.on));
    Err(Exit::Unusable)
}

/// What these files define; an end with `exit` where they have faults. Plugins' configs are not looked at.
pub fn definitions(inputs: Vec<Input>, terminal: &Terminal, exit: Exit) -> Result<Vec<Document>, Exit> {
    let loaded = schemas::load(inputs, &Options::default());
    if loaded.has_errors() {
        terminal.tell(&render::text(&loaded.faults, terminal.err.on));
        return Err(exit);
    }
    Ok(loaded.documents)
}

/// Writes a file whole or not at all; what a link leads to is written, not the link. Permissions stay.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = match path.canonicalize() {
        Ok(it) => it,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(fault) => return Err(fault),
    };
    let before = fs::metadata(&path).ok();
    if before.as_ref().is_some_and(|it| !it.is_file()) {
        // A pipe or a device is written to, a folder is refused by the system.
        return fs::OpenOptions::new().write(true).open(&path)?.write_all(bytes);
    }
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
        if let Some(it) = before {
            file.set_permissions(it.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
