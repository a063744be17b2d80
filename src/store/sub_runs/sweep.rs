//! What the sweep finds of sub-runs: ends that nobody was told of, those that nobody waits for any more, and
//! what is left of those whose parents were erased.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{answer, lock_parent};
use crate::domain::id::{RunId, TenantId, ThreadId};
use crate::store::rows::At;
use crate::store::runs::read;
use crate::store::{Store, StoreError};

/// How many sub-runs one sweep deals with.
const SWEPT_AT_ONCE: i64 = 100;

/// Sub-runs that have ended and whose calls were not told so: whoever ended them was a server of a version
/// that knows nothing of parents.
///
/// # Errors
/// When the database does not answer.
pub async fn untold(store: &Store) -> Result<Vec<(TenantId, RunId)>, StoreError> {
    let rows = sqlx::query!(
        "SELECT r.tenant_id, r.run_id
           FROM tool_call c
           JOIN run p
             ON p.tenant_id = c.tenant_id
            AND p.run_id = c.run_id
            AND p.status IN ('queued', 'running', 'requires_action')
           JOIN run r
             ON r.tenant_id = c.tenant_id
            AND r.parent_run_id = c.run_id
            AND r.parent_call_id = c.call_id
          WHERE c.waits_for = 'sub_runs'
            AND r.status NOT IN ('queued', 'running', 'requires_action')
            AND NOT EXISTS (
                SELECT
                  FROM call_answer a
                 WHERE a.tenant_id = c.tenant_id
                   AND a.run_id = c.run_id
                   AND a.call_id = c.call_id
                   AND a.waits_for = 'sub_runs')
          LIMIT $1",
        SWEPT_AT_ONCE
    )
    .fetch_all(store.system().worker())
    .await
    .map_err(StoreError::of_read)?;
    rows.into_iter().map(|row| placed(&row.tenant_id, row.run_id)).collect()
}

/// Tells the call of a sub-run that it has ended.
///
/// # Errors
/// When the database does not take it.
pub async fn tell(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut tx = store.worker().begin().await.map_err(StoreError::of_read)?;
    let Some(run) = read(&mut *tx, tenant, run).await? else { return Ok(()) };
    let Some(parent) = &run.parent else { return Ok(()) };
    lock_parent(&mut tx, tenant, parent).await?;
    answer(&mut tx, tenant, parent, (&run.facts, now)).await?;
    tx.commit().await.map_err(StoreError::of_write)
}

/// Sub-runs, of one run or of all, that nobody waits for any more and that have not been told so.
///
/// Their call was given up, or their parent was erased. One whose first end was told goes on as it likes.
///
/// # Errors
/// When the database does not answer.
pub async fn abandoned(
    store: &Store,
    of: Option<(&TenantId, RunId)>,
) -> Result<Vec<(TenantId, RunId)>, StoreError> {
    let (tenant, parent) = of.unzip();
    let rows = sqlx::query!(
        "SELECT r.tenant_id, r.run_id
           FROM run r
           LEFT JOIN tool_call c
             ON c.tenant_id = r.tenant_id
            AND c.run_id = r.parent_run_id
            AND c.call_id = r.parent_call_id
          WHERE r.parent_run_id IS NOT NULL
            AND ($2::text IS NULL OR r.tenant_id = $2)
            AND ($3::uuid IS NULL OR r.parent_run_id = $3)
            AND r.status IN ('queued', 'running', 'requires_action')
            AND r.cancel_requested_at IS NULL
            AND (c.call_id IS NULL OR c.state = 'ended')
            AND NOT EXISTS (
                SELECT
                  FROM call_answer a
                 WHERE a.tenant_id = r.tenant_id
                   AND a.run_id = r.parent_run_id
                   AND a.call_id = r.parent_call_id
                   AND a.waits_for = 'sub_runs')
          LIMIT $1",
        SWEPT_AT_ONCE,
        tenant.map(TenantId::as_str),
        parent.map(RunId::uuid)
    )
    .fetch_all(store.system().worker())
    .await
    .map_err(StoreError::of_read)?;
    rows.into_iter().map(|row| placed(&row.tenant_id, row.run_id)).collect()
}

fn placed<T: From<Uuid> + std::fmt::Display>(
    tenant: &str,
    id: Uuid,
) -> Result<(TenantId, T), StoreError> {
    let id = T::from(id);
    let at = At { table: "run", id: &id };
    Ok((TenantId::parse(tenant).map_err(|_| at.wrong("tenant_id"))?, id))
}

/// The threads of sub-runs whose parent was erased: what was said there came of it. One that is in use, or
/// that others have gone on with, stays.
///
/// # Errors
/// When the database does not answer.
pub async fn orphans(store: &Store) -> Result<Vec<(TenantId, ThreadId)>, StoreError> {
    let rows = sqlx::query!(
        "SELECT r.tenant_id, r.thread_id
           FROM run r
           JOIN tombstone t
             ON t.tenant_id = r.tenant_id
            AND t.kind = 'run'
            AND t.id = r.parent_run_id
          WHERE r.parent_run_id IS NOT NULL
            AND r.status NOT IN ('queued', 'running', 'requires_action')
            AND NOT EXISTS (
                SELECT
                  FROM run other
                 WHERE other.tenant_id = r.tenant_id
                   AND other.thread_id = r.thread_id
                   AND other.run_id <> r.run_id)
            AND NOT EXISTS (
                SELECT
                  FROM thread_segment g
                 WHERE g.tenant_id = r.tenant_id
                   AND g.source_id = r.thread_id)
          LIMIT $1",
        SWEPT_AT_ONCE
    )
    .fetch_all(store.system().worker())
    .await
    .map_err(StoreError::of_read)?;
    rows.into_iter().map(|row| placed(&row.tenant_id, row.thread_id)).collect()
}
