//! Nodes listed in a file that others write; looked at every second.
use std::{collections::BTreeMap, fs, future::Future, net::SocketAddr, os::unix::fs::MetadataExt, path::PathBuf, pin::Pin, time::Duration};

use contract::discovery::{Found, Registry, Roll};
use schemas::{Span, yaml};
use serde::Deserialize;
use tokio::time::sleep;

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// More than any list of nodes.
const MOST: u64 = 16 << 20;

/// A file that lists nodes.
pub struct File {
    pub path: PathBuf,
    /// As its definition names it.
    pub name: Box<str>,
}

/// One of its lines.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    address: SocketAddr,
    #[serde(default = "one")]
    weight: u16,
    #[serde(default)]
    metadata: BTreeMap<Box<str>, Box<str>>,
}

fn one() -> u16 {
    1
}

/// What a file was when it was last looked at; a link's target, as mounted files are.
type Stamp = Option<(i64, i64, u64, u64)>;

impl File {
    /// The nodes, as they are now: a list in YAML or JSON of `{address, weight, metadata}`.
    ///
    /// Errors: it cannot be read, or is no such list; the message names it.
    pub fn read(&self) -> Result<Vec<Found>, String> {
        let failed = |why: String| format!("`{}` {why}", self.name);
        if fs::metadata(&self.path).map_err(|it| failed(format!("cannot be read: {it}")))?.len() > MOST {
            return Err(failed("is larger than 16MiB".to_owned()));
        }
        let text = fs::read_to_string(&self.path).map_err(|it| failed(format!("cannot be read: {it}")))?;
        let read = yaml::read(&text, Span::new(0, text.len()));
        if let Some(fault) = read.faults.first() {
            let line = text.bytes().take(fault.span.start as usize).filter(|it| *it == b'\n').count() + 1;
            return Err(failed(format!("is no YAML, in line {line}: {}", fault.message)));
        }
        // Whoever has no nodes says so: half a file, or none, is not taken for that.
        let root = read.root.ok_or_else(|| failed("is empty; a list without nodes is `[]`".to_owned()))?;
        let lines: Vec<Line> = serde_json::from_str(&root.to_json()).map_err(|it| {
            failed(format!("is no list of nodes, such as `- {{address: \"10.0.0.1:8080\", weight: 1, metadata: {{zone: a}}}}`: {it}"))
        })?;
        let found = |it: Line| {
            let authority =
                it.address.to_string().parse().map_err(|_| failed(format!("has an address that cannot be called: {}", it.address)))?;
            Ok(Found { authority, address: it.address, weight: it.weight.into(), metadata: it.metadata })
        };
        lines.into_iter().map(found).collect()
    }

    fn stamp(&self) -> Stamp {
        fs::metadata(&self.path).ok().map(|it| (it.mtime(), it.mtime_nsec(), it.size(), it.ino()))
    }
}

impl Registry for File {
    fn follow(self: Box<Self>, roll: Roll) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // Before it is read: what is written in between is seen as a change.
            let (mut known, mut told) = (None, None);
            let file = std::sync::Arc::new(*self);
            loop {
                let it = file.clone();
                let looked = tokio::task::spawn_blocking(move || {
                    let stamp = it.stamp();
                    (known.as_ref() != Some(&stamp)).then(|| (stamp, it.read()))
                });
                let Ok(looked) = looked.await else { return };
                if let Some((stamp, read)) = looked {
                    known = Some(stamp);
                    match read {
                        Ok(found) => {
                            told = None;
                            roll.put(found);
                        }
                        // Also where nothing is left of it: whoever writes it may be about to.
                        Err(why) if told.as_ref() != Some(&why) => {
                            roll.tell(&format!("the former nodes stay: {why}"));
                            told = Some(why);
                        }
                        Err(_) => (),
                    }
                }
                tokio::select! {
                    () = sleep(LOOK_EVERY) => (),
                    () = roll.closed() => return,
                }
            }
        })
    }
}
