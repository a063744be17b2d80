//! Postgres: the only layer with SQL.

mod error;

pub use error::{Conflict, StoreError};
