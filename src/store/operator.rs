//! What an operator writes into a thread between its runs.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::threads::{self, LoadedSteps};
use super::{Conflict, Store, StoreError};
use crate::domain::id::{StepId, TenantId, ThreadId};
use crate::domain::step::{Step, StepContent};
use crate::domain::thread::Thread;

/// A step that belongs to no run.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorStep {
    /// Its id.
    pub id: StepId,
    /// What it says.
    pub content: StepContent,
    /// Marks the write.
    pub op_id: Uuid,
    /// The `(revision, head_seq)` of the thread that the caller saw, where they say.
    pub seen: Option<(i64, i64)>,
}

/// Appends a step to a thread on which no run is active. `None` when there is no such thread.
///
/// # Errors
/// [`Conflict::ThreadBusy`] while a run is active on the thread, [`Conflict::Stale`] when the caller
/// saw something else.
pub async fn append(
    store: &Store,
    tenant: &TenantId,
    id: ThreadId,
    new: OperatorStep,
    now: DateTime<Utc>,
) -> Result<Option<Step>, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    let Some(thread) = open(&mut tx, tenant, id, new.seen).await? else { return Ok(None) };
    let content = new.content.clone();
    let step_id = new.id;
    let thread = write(&mut tx, tenant, thread, new, now).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Some(Step {
        id: step_id,
        seq: thread.head_seq,
        thread_id: id,
        run_id: None,
        turn: 0,
        attempt: 0,
        content,
        created_at: now,
    }))
}

/// Locks a thread that may be written to.
async fn open(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: ThreadId,
    seen: Option<(i64, i64)>,
) -> Result<Option<Thread>, StoreError> {
    let Some(thread) = threads::lock(tx, tenant, id).await? else { return Ok(None) };
    if seen.is_some_and(|seen| seen != (thread.revision, thread.head_seq)) {
        return Err(StoreError::Conflict(Conflict::Stale));
    }
    threads::refuse_if_busy(tx, tenant, id).await?;
    Ok(Some(thread))
}

/// Writes a step behind the last one; answers the thread as it then is.
async fn write(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: Thread,
    new: OperatorStep,
    now: DateTime<Utc>,
) -> Result<Thread, StoreError> {
    let seq = thread.head_seq + 1;
    let OperatorStep { id, content, op_id, seen: _ } = new;
    let steps = LoadedSteps { ids: vec![id], contents: vec![content], op_id };
    threads::insert_steps(tx, tenant, (thread.id, seq), &steps, now).await?;
    sqlx::query!(
        "UPDATE thread
            SET revision = revision + 1, updated_at = $3
          WHERE tenant_id = $1
            AND thread_id = $2",
        tenant.as_str(),
        thread.id.uuid(),
        now
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(Thread { head_seq: seq, revision: thread.revision + 1, updated_at: now, ..thread })
}
