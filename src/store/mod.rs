//! Postgres: the only layer with SQL. One file an aggregate; statements are checked against the
//! migrated schema when they are compiled.
//!
//! Every function takes the tenant, and every key starts with it. Reads and writes of callers use one
//! pool, workers another, and heartbeats and cancels a third, so that a busy API cannot starve a
//! lease. No connection leaves this layer, so none can be held across a network wait. Where row-level
//! security is on, these connections see one tenant at a time, and what the server does for all of them
//! has pools of its own.
#![expect(clippy::cognitive_complexity, reason = "the expansion of the query macros is counted")]

mod accept;
pub mod agents;
pub mod answers;
pub mod backlog;
pub mod budget;
pub mod chores;
pub mod deltas;
pub mod embedded;
pub mod erasure;
pub mod events;
pub mod forks;
pub mod hints;
pub mod idempotency;
pub mod journal;
pub mod keys;
pub mod lease;
pub mod ledger;
pub mod mcp_servers;
pub mod memory_items;
pub mod messages;
pub mod operator;
pub mod outbox;
pub mod pins;
pub mod redaction;
pub mod retention;
mod run_row;
pub mod runs;
pub mod schedules;
pub mod scope;
pub mod secret_uses;
pub mod secrets;
pub mod skills;
pub mod steer;
pub mod steps;
pub mod sub_runs;
pub mod thread_queue;
pub mod threads;
pub mod usage;
pub mod vacuum;
pub mod webhooks;

mod error;
mod gated;
mod loaded;
mod patience;
mod pool;
mod refusal;
mod rows;
pub mod wall;

pub use error::{Conflict, StoreError};
pub use pool::{HINT_CONNECTIONS, PoolSettings, Store, probe};
pub use wall::Wall;
