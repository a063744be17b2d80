//! The store against a real Postgres.

pub(crate) mod journal;
mod lease;
mod ledger;
mod schema;
