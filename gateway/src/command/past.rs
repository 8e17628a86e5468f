//! The history of the settings' folder of definitions, for the commands that look at it.
use std::path::Path;

use schemas::Document;

use super::{
    exit::Exit,
    files,
    terminal::Terminal,
    world::{self, Given},
};
use crate::{
    reload::{
        self,
        history::{Entry, History},
    },
    source::change::Changes,
};

/// The history of the settings' folder of definitions.
pub struct Past {
    pub world: world::Known,
    pub history: History,
    pub changes: Changes,
}

impl Past {
    /// As the settings say.
    pub fn of(given: &Given, terminal: &Terminal) -> Result<Self, Exit> {
        let world = given.settings().require(terminal)?;
        let Some(loaded) = &world.loaded else { return Err(Exit::Found) };
        let dir = &loaded.settings.definitions.dir;
        let keep = reload::keep(&loaded.folder, dir);
        let (history, changes) = (History::new(&keep), Changes::new(loaded.path(dir), keep));
        Ok(Self { world, history, changes })
    }

    /// Where definitions are, as messages name it.
    pub fn dir(&self) -> &Path {
        &self.world.dir
    }

    /// A state by its number or revision.
    pub fn entry(&self, state: &str, terminal: &Terminal) -> Result<Entry, Exit> {
        let found = self.history.find(state).map_err(|why| unusable(&why, terminal))?;
        found.ok_or_else(|| {
            terminal.error(&format!("there is no state {state:?}; `allium history` shows those that are kept"));
            Exit::Found
        })
    }

    /// What a state defines.
    pub fn documents(&self, state: &str, terminal: &Terminal) -> Result<Vec<Document>, Exit> {
        let entry = self.entry(state, terminal)?;
        self.documents_of(&entry, terminal)
    }

    /// What this state defines.
    pub fn documents_of(&self, entry: &Entry, terminal: &Terminal) -> Result<Vec<Document>, Exit> {
        let inputs = self.history.inputs(entry, self.dir()).map_err(|why| unusable(&why, terminal))?;
        files::definitions(inputs, terminal, Exit::Unusable)
    }
}

/// Tells that the history is of no use.
pub fn unusable(why: &std::io::Error, terminal: &Terminal) -> Exit {
    terminal.error(&format!("the history cannot be used: {why}"));
    Exit::Unusable
}
