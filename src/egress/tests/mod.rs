//! Tests of the door.

mod peer;
mod policy;
