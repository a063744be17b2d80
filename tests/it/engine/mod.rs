//! The engine against a real Postgres and fake peers.

mod accept;
mod budgets;
mod captured;
mod commits;
mod context_window;
pub(crate) mod crash;
mod database;
mod drain;
mod fallbacks;
mod forks;
mod ledger;
mod ledger_growth;
mod memory;
mod messages;
mod model_keys;
mod observations;
mod requests;
mod retries;
mod server;
mod shared_bytes;
mod skills;
mod steer;
mod zombie;
