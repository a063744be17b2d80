//! Accepting a run so that a caller who heard nothing, and one whose server died, find it once.

mod once;

use super::{Store, StoreError, patience};
use crate::domain::id::TenantId;

pub use once::{Accepted, NewRun};
pub(super) use once::{TaskStepOf, accept_sub_run, insert_task, start_memory_at};

/// Accepts a run (C0): idempotency key, run, task step and first event in one transaction.
///
/// Where the answer is lost, the run is accepted again under the same ids: that waits for the first
/// try, and collides with it if it happened.
///
/// # Errors
/// [`super::Conflict::ThreadBusy`], [`super::Conflict::IdTaken`] and
/// [`super::Conflict::IdempotencyKeyReused`].
pub async fn accept(
    store: &Store,
    tenant: &TenantId,
    new: &NewRun,
) -> Result<Accepted, StoreError> {
    let settled = patience::settled(|_| once::accept(store, tenant, new)).await;
    match settled.answer {
        Err(StoreError::OutcomeUnknown(error)) => Err(StoreError::OutcomeUnknown(error)),
        Ok(accepted @ (Accepted::Created | Accepted::Enqueued(_))) => Ok(accepted),
        _ if settled.is_repeated && is_there(store, tenant, new).await? => Ok(Accepted::Created),
        answer => answer,
    }
}

/// Whether this very run was accepted. Its task stays as it was written, while workers move the rest; until
/// it is a step, nobody has had the run.
async fn is_there(store: &Store, tenant: &TenantId, new: &NewRun) -> Result<bool, StoreError> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
                  SELECT 1
                    FROM step
                   WHERE tenant_id = $1
                     AND run_id = $2
                     AND op_id = $3
                   UNION ALL
                  SELECT 1
                    FROM run
                   WHERE tenant_id = $1
                     AND run_id = $2
                     AND op_id = $3) AS "there!""#,
        tenant.as_str(),
        new.run.id.uuid(),
        new.op_id
    )
    .fetch_one(store.api())
    .await
    .map_err(StoreError::of_read)
}
