//! Postgres: the only layer with SQL.

pub mod embedded;
mod error;

pub use error::{Conflict, StoreError};
