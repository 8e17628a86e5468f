//! Definitions as authors write them: what loads, what is told, what survives being converted and laid out.

mod convert;
mod examples;
mod faults;
mod format;
mod limits;
mod load;
mod plugins;
mod render;
mod schema;
