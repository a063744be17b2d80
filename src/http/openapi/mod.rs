//! The OpenAPI document.

pub(crate) mod unions;
