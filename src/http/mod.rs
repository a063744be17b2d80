//! HTTP: endpoints, problems, streams. The only layer that names axum.

pub mod extract;
pub mod limits;
pub mod openapi;
pub mod problem;
