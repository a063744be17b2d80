//! What waits for workers.

use std::time::Duration;

use super::{Store, StoreError};

/// The runs of all tenants that a worker may claim and none has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// How many there are.
    pub n_runs: usize,
    /// How long the one has waited that waits for longest.
    pub longest: Duration,
}

/// What waits now.
///
/// # Errors
/// When the database does not answer.
pub async fn now(store: &Store) -> Result<Backlog, StoreError> {
    let row = sqlx::query!(
        r#"SELECT count(*) AS "n!",
                  coalesce(extract(epoch FROM now() - min(available_at)) * 1000, 0)::bigint
                      AS "longest_ms!"
             FROM run
            WHERE status = 'queued'
              AND available_at <= now()"#
    )
    .fetch_one(store.system().critical())
    .await
    .map_err(StoreError::of_read)?;
    Ok(Backlog {
        n_runs: usize::try_from(row.n).unwrap_or(0),
        longest: Duration::from_millis(u64::try_from(row.longest_ms).unwrap_or(0)),
    })
}
