//! The store against a real Postgres.

mod journal;
mod lease;
mod ledger;
mod schema;
