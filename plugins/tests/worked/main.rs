//! The plugins that docs/PLUGIN.md shows: they compile, and do what it says.
mod in_flight;
mod maintenance;
