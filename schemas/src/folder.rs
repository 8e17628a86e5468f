//! The definitions of a folder.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Mutex,
};

use crate::{
    fault::Fault,
    load::{Input, MAX_FILE},
};

/// The endings of definitions.
pub const ENDINGS: [&str; 4] = ["yaml", "yml", "json", "binpb"];

/// What a folder holds.
#[derive(Debug, Default)]
pub struct Folder {
    /// The files, in the order of their paths.
    pub inputs: Vec<Input>,
    /// Files and folders that cannot be read.
    pub faults: Vec<Fault>,
}

/// Reads the definitions of a folder and all folders in it, or one file. Names that begin with a dot are skipped, which
/// leaves out the insides of a Kubernetes volume (`..data`, `..2026_…`); links are followed, a circle of links once.
pub fn collect(path: &Path) -> Folder {
    let (paths, faults) = self::paths(path);
    let mut folder = Folder { inputs: Vec::new(), faults };
    if !path.is_dir() {
        return match read(path) {
            Some(Ok(input)) => Folder { inputs: vec![input], ..folder },
            Some(Err(fault)) => Folder { faults: vec![*fault], ..folder },
            None => Folder {
                faults: vec![Fault::of_file(path.to_string_lossy().into_owned(), "unreadable", "there is no such file or folder")],
                ..folder
            },
        };
    }
    let next = Mutex::new(paths.iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(paths.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(paths.len().div_ceil(64)).max(1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let batch: Vec<(usize, &PathBuf)> =
                        next.lock().unwrap_or_else(std::sync::PoisonError::into_inner).by_ref().take(64).collect();
                    if batch.is_empty() {
                        return;
                    }
                    let read: Vec<_> = batch.into_iter().filter_map(|(at, path)| Some((at, read(path)?))).collect();
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(read);
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    for (_, result) in done {
        match result {
            Ok(input) => folder.inputs.push(input),
            Err(fault) => folder.faults.push(*fault),
        }
    }
    folder
}

/// The paths of the files that [`collect`] reads, and what cannot be searched. Of a file it is that file.
pub fn paths(path: &Path) -> (Vec<PathBuf>, Vec<Fault>) {
    let (mut paths, mut faults) = (Vec::new(), Vec::new());
    match path.is_dir() {
        true => walk(path, &mut HashSet::new(), &mut paths, &mut faults),
        false => paths.push(path.to_owned()),
    }
    (paths, faults)
}

fn walk(folder: &Path, seen: &mut HashSet<PathBuf>, paths: &mut Vec<PathBuf>, faults: &mut Vec<Fault>) {
    let told = |error: io::Error| {
        Fault::of_file(folder.to_string_lossy().into_owned(), "unreadable", format!("the folder cannot be read: {error}"))
    };
    match fs::canonicalize(folder) {
        Ok(real) => {
            if !seen.insert(real) {
                return;
            }
        }
        Err(error) => return faults.push(told(error)),
    }
    let entries = match fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, io::Error>>) {
        Ok(entries) => entries,
        Err(error) => return faults.push(told(error)),
    };
    let mut inside: Vec<PathBuf> =
        entries.iter().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")).map(fs::DirEntry::path).collect();
    inside.sort();
    for path in inside {
        // Follows links. What is gone by now, or a link to nothing, is not there.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).unwrap_or_default();
        if metadata.is_dir() {
            walk(&path, seen, paths, faults);
        } else if metadata.is_file() && ENDINGS.contains(&ending.as_str()) {
            paths.push(path);
        }
    }
}

/// None where the file went away between looking and reading, as editors and volumes do it.
fn read(path: &Path) -> Option<Result<Input, Box<Fault>>> {
    let name = path.to_string_lossy().into_owned();
    let large = fs::metadata(path).is_ok_and(|metadata| metadata.len() > MAX_FILE as u64);
    if large {
        return Some(Err(Box::new(Fault::of_file(name, "too-large", "the file is larger than 16 MiB"))));
    }
    match fs::read(path) {
        Ok(bytes) => Some(Ok(Input::new(name, bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(Box::new(Fault::of_file(name, "unreadable", format!("the file cannot be read: {error}"))))),
    }
}
