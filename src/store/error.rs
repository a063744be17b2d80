//! What can go wrong in the store, and what constraint names and SQLSTATEs mean.

use crate::domain::id::RunId;

/// A failure of the store.
///
/// `Display` is safe to show to a caller; the database's own words are in the source only.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection became free in time.
    #[error("the database is busy")]
    Busy(#[source] sqlx::Error),
    /// The database cannot be reached or is restarting.
    #[error("the database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// The database has no room left.
    #[error("the database cannot store more")]
    StorageFull(#[source] sqlx::Error),
    /// The connection was lost while a write was under way: it may or may not have happened.
    #[error("the outcome of a write is not known")]
    OutcomeUnknown(#[source] sqlx::Error),
    /// The write collides with what is stored.
    #[error("{0}")]
    Conflict(Conflict),
    /// A stored row does not read as what it must be.
    #[error("a stored {table} does not read: {column} of {id}")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        id: String,
    },
    /// Migrations could not be applied or do not match.
    #[error("the database schema could not be brought up to date")]
    Migration(#[source] sqlx::migrate::MigrateError),
    /// The embedded Postgres could not be started.
    #[error("{0}")]
    Embedded(String),
    /// Anything else: a fault of ours.
    #[error("the database refused a statement")]
    Database(#[source] sqlx::Error),
}

/// What a write collides with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another agent has the name.
    #[error("another agent has this name")]
    AgentNameTaken,
    /// The thread has an active run.
    #[error("the thread has an active run")]
    ThreadBusy {
        /// Which one, where known.
        active_run_id: Option<RunId>,
    },
    /// The id is taken.
    #[error("this id is taken")]
    IdTaken,
}
