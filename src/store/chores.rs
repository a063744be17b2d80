//! Chores: work that one replica at a time does, a portion at a time. A row is the lock: whoever moves
//! its due time on has the chore until then, and one who dies with it is replaced after that.

use std::time::Duration;

use uuid::Uuid;

use super::idempotency::interval;
use super::{Store, StoreError};
use crate::domain::id::{TenantId, ThreadId};
use crate::labels;

labels! {
    /// What is done from time to time.
    Chore {
        /// Old threads are deleted.
        Threads = "threads",
        /// The bodies of old requests are dropped.
        Ledger = "ledger",
        /// Old deliveries are deleted.
        Deliveries = "deliveries",
        /// Items that have expired are deleted.
        ExpiredItems = "expired_items",
        /// Deleted items and old versions of others are deleted.
        ItemVersions = "item_versions",
        /// What calls of models took long ago is deleted.
        Usage = "usage",
    }
}

/// How far a chore that goes through all threads has come. The start comes before every thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    pub(super) tenant: String,
    pub(super) thread: Uuid,
}

impl Mark {
    /// Behind a thread.
    pub(super) fn behind(tenant: &TenantId, thread: ThreadId) -> Self {
        Self { tenant: tenant.as_str().to_owned(), thread: thread.uuid() }
    }
}

/// Takes a chore that is due, for so long at most. `None` when it is not due, or somebody has it.
///
/// # Errors
/// When the database does not take it.
pub async fn take(
    store: &Store,
    chore: Chore,
    at_most: Duration,
) -> Result<Option<Mark>, StoreError> {
    let row = sqlx::query!(
        "UPDATE chore
            SET due_at = now() + $2::interval
          WHERE name = $1
            AND due_at <= now()
      RETURNING after_tenant, after_id",
        chore.label(),
        interval(at_most)
    )
    .fetch_optional(store.system().worker())
    .await
    .map_err(StoreError::of_write)?;
    Ok(row.map(|row| Mark { tenant: row.after_tenant, thread: row.after_id }))
}

/// Puts a chore back: how far it has come, and when it goes on.
///
/// # Errors
/// When the database does not take it.
pub async fn put_back(
    store: &Store,
    chore: Chore,
    mark: &Mark,
    pause: Duration,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE chore
            SET due_at = now() + $2::interval, after_tenant = $3, after_id = $4
          WHERE name = $1",
        chore.label(),
        interval(pause),
        mark.tenant,
        mark.thread
    )
    .execute(store.system().worker())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}
