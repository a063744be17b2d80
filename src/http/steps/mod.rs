//! Steps.
pub(super) mod view;
