//! The store against a real Postgres.

mod journal;
mod lease;
mod schema;
