//! One request, top to bottom.
pub mod arrive;
pub mod ids;
