//! The store against a real Postgres.

pub(crate) mod journal;
pub(crate) mod lease;
mod ledger;
mod pool;
mod queues;
mod schema;
mod wall;
