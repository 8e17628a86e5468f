//! The Apps that may call, whichever snapshot is served.
use std::sync::Arc;

use arc_swap::ArcSwap;
use contract::caller::{Apps, Directory};

/// The Apps of the snapshot that is served.
///
/// It is apart from the routes, so that a key that is added or withdrawn holds at once, everywhere, without a route being built anew.
#[derive(Default)]
pub struct AppBook(ArcSwap<Directory>);

impl AppBook {
    /// From now on, these.
    pub fn publish(&self, directory: &Arc<Directory>) {
        self.0.store(directory.clone());
    }
}

impl Apps for AppBook {
    fn now(&self) -> Arc<Directory> {
        self.0.load_full()
    }
}
