//! Documents go in and come out.
