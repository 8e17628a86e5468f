//! Cases.
fn main(){}
