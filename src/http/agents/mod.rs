//! Stub.
pub(super) mod spec;
