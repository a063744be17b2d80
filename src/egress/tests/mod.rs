//! Tests of the door.

mod policy;
