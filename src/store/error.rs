//! What can go wrong in the store, and what constraint names and SQLSTATEs mean.

use sqlx::error::DatabaseError;

use crate::domain::id::{RunId, ThreadId};

/// A failure of the store.
///
/// `Display` is safe to show to a caller; the database's own words are in the source only.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection or lock became free in time.
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
    /// Another MCP server has the name.
    #[error("another MCP server has this name")]
    McpServerNameTaken,
    /// Another skill has the name.
    #[error("another skill has this name")]
    SkillNameTaken,
    /// The thread has an active run.
    #[error("the thread has an active run")]
    ThreadBusy {
        /// Which one, where known.
        active_run_id: Option<RunId>,
    },
    /// Others are made of it.
    #[error("forks share the steps of the thread: delete them first")]
    InUse {
        /// Some of them, where known.
        references: Vec<ThreadId>,
    },
    /// Agents, MCP servers or skills name the secret.
    #[error(
        "agents, MCP servers or skills name the secret: change them first, or say that it is forced"
    )]
    SecretInUse {
        /// Some of them, by their ids.
        references: Vec<String>,
    },
    /// The id is taken.
    #[error("this id is taken")]
    IdTaken,
    /// A request with this idempotency key is still under way.
    #[error("a request with this idempotency key is still being worked on")]
    IdempotencyInProgress,
    /// The idempotency key belongs to another request.
    #[error("this idempotency key was used for another request")]
    IdempotencyKeyReused,
    /// A budget has no room for what is asked for.
    #[error("the budget is used up")]
    BudgetExhausted,
    /// Calls under way have more of a budget set aside than there would be.
    #[error("calls under way have more of this budget set aside: set it again when they are over")]
    BudgetInUse,
    /// What was to be changed is not what the caller saw.
    #[error("it was changed since it was read")]
    Stale,
}

impl StoreError {
    /// Whether the same may work later without anyone's doing.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Busy(_)
            | Self::Unavailable(_)
            | Self::StorageFull(_)
            | Self::OutcomeUnknown(_) => true,
            Self::Conflict(_)
            | Self::Inconsistent { .. }
            | Self::Migration(_)
            | Self::Database(_) => false,
        }
    }

    /// Whether the database gave up the transaction for the sake of another one, so that it may be
    /// done again at once.
    pub(super) fn is_collision(&self) -> bool {
        let Self::Busy(source) = self else { return false };
        let code = source.as_database_error().and_then(DatabaseError::code);
        matches!(code.as_deref(), Some("40001" | "40P01"))
    }

    /// What a failed read means: nothing was changed.
    pub(super) fn of_read(error: sqlx::Error) -> Self {
        match Self::sort(error) {
            Self::OutcomeUnknown(source) => Self::Unavailable(source),
            sorted => sorted,
        }
    }

    /// What a failed write means; a lost connection leaves its outcome unknown.
    pub(super) fn of_write(error: sqlx::Error) -> Self {
        Self::sort(error)
    }

    /// A failure of each kind that comes from the database, which says the words, for tests of layers
    /// that may not name the database.
    #[cfg(test)]
    pub(crate) fn samples(words: &str) -> [Self; 5] {
        let source = || sqlx::Error::Protocol(words.to_owned());
        [
            Self::Busy(source()),
            Self::Unavailable(source()),
            Self::StorageFull(source()),
            Self::OutcomeUnknown(source()),
            Self::Database(source()),
        ]
    }

    fn sort(error: sqlx::Error) -> Self {
        let from_database = error.as_database_error().map(Meaning::of);
        match (from_database, &error) {
            (Some(Meaning::Conflict(conflict)), _) => Self::Conflict(conflict),
            (Some(Meaning::Busy), _) | (_, sqlx::Error::PoolTimedOut) => Self::Busy(error),
            (Some(Meaning::Unavailable), _) | (_, sqlx::Error::PoolClosed) => {
                Self::Unavailable(error)
            }
            (Some(Meaning::Full), _) => Self::StorageFull(error),
            (Some(Meaning::Ambiguous), _)
            | (_, sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed) => Self::OutcomeUnknown(error),
            _ => Self::Database(error),
        }
    }
}

enum Meaning {
    Conflict(Conflict),
    Busy,
    Unavailable,
    Full,
    Ambiguous,
    Other,
}

impl Meaning {
    fn of(error: &dyn DatabaseError) -> Self {
        if let Some(conflict) = error.constraint().and_then(conflict_of) {
            return Self::Conflict(conflict);
        }
        let code = error.code().unwrap_or_default();
        match code.as_ref() {
            "55P03" | "40001" | "40P01" | "53300" => Self::Busy,
            "53100" | "53200" => Self::Full,
            // A statement that the server cancelled for its timeout, or a commit it cannot vouch for.
            "57014" | "40003" => Self::Ambiguous,
            // The last two: the password was changed, and the server has not been told yet.
            "57P01" | "57P02" | "57P03" | "25006" | "28000" | "28P01" => Self::Unavailable,
            code if code.starts_with("08") => Self::Unavailable,
            _ => Self::Other,
        }
    }
}

/// Constraint names are the contract between the schema and this table.
fn conflict_of(constraint: &str) -> Option<Conflict> {
    match constraint {
        "mcp_server_name" => Some(Conflict::McpServerNameTaken),
        "agent_name" => Some(Conflict::AgentNameTaken),
        "skill_name" => Some(Conflict::SkillNameTaken),
        "budget_is_kept" => Some(Conflict::BudgetExhausted),
        "budget_covers_what_is_reserved" => Some(Conflict::BudgetInUse),
        "run_one_active_per_thread" => Some(Conflict::ThreadBusy { active_run_id: None }),
        "memory_item_version_of_call" => Some(Conflict::Stale),
        "thread_segment_source" => Some(Conflict::InUse { references: Vec::new() }),
        "run_pkey" | "thread_pkey" | "agent_pkey" => Some(Conflict::IdTaken),
        _ => None,
    }
}
