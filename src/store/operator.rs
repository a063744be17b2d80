//! What an operator writes into a thread between its runs.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::idempotency::{self, IdempotencyKey};
use super::ledger::{self, NewRequest, Recorded};
use super::rows::At;
use super::threads::{self, LoadedSteps};
use super::{Conflict, Store, StoreError, loaded};
use crate::domain::id::{StepId, TenantId, ThreadId};
use crate::domain::step::{ContextStep, Step, StepContent};
use crate::domain::thread::Thread;

/// A write of one step that belongs to no run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorWrite {
    /// The step's id.
    pub step_id: StepId,
    /// Marks the write.
    pub op_id: Uuid,
    /// The `(revision, head_seq)` of the thread that the caller saw, where they say.
    pub seen: Option<(i64, i64)>,
    /// The moment.
    pub now: DateTime<Utc>,
    /// The key the request came with.
    pub key: Option<IdempotencyKey>,
}

/// Appends a step to a thread on which no run is active, and records the requests that were sent for it.
/// `None` when there is no such thread.
///
/// # Errors
/// [`Conflict::ThreadBusy`] while a run is active on the thread, [`Conflict::Stale`] when the caller
/// saw something else.
pub async fn append(
    store: &Store,
    tenant: &TenantId,
    id: ThreadId,
    (content, requests): (StepContent, Vec<Arc<NewRequest>>),
    write: OperatorWrite,
) -> Result<Option<Step>, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, write.key.as_ref(), write.step_id.uuid().into()).await?;
    let Some(thread) = open(&mut tx, tenant, id, write.seen).await? else { return Ok(None) };
    let thread = insert(&mut tx, tenant, thread, content.clone(), &write).await?;
    let step_seq = Some(thread.head_seq);
    let recorded = |request| Recorded { request, step_seq };
    let requests: Vec<Recorded> = requests.into_iter().map(recorded).collect();
    ledger::insert(&mut tx, tenant, id, &requests).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Some(Step {
        id: write.step_id,
        seq: thread.head_seq,
        thread_id: id,
        run_id: None,
        turn: 0,
        attempt: 0,
        content,
        request: None,
        created_at: write.now,
    }))
}

/// Whether [`append`] would write now. `false` when there is no such thread.
///
/// # Errors
/// As those of [`append`].
pub async fn may_append(
    store: &Store,
    tenant: &TenantId,
    id: ThreadId,
    seen: Option<(i64, i64)>,
) -> Result<bool, StoreError> {
    // Dropped without a commit: nothing is written, and nothing stays locked.
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    Ok(open(&mut tx, tenant, id, seen).await?.is_some())
}

/// Sets a block of context, or withdraws it, on a thread on which no run is active; answers the thread
/// as it then is. What the block says already is not said again. `None` when there is no such thread.
///
/// # Errors
/// As those of [`append`].
pub async fn set_context(
    store: &Store,
    tenant: &TenantId,
    id: ThreadId,
    block: ContextStep,
    write: OperatorWrite,
) -> Result<Option<Thread>, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    let Some(thread) = open(&mut tx, tenant, id, write.seen).await? else { return Ok(None) };
    if said(&mut tx, tenant, &thread, &block).await? == block.text {
        return Ok(Some(thread));
    }
    let content = StepContent::Context(block);
    let thread = insert(&mut tx, tenant, thread, content, &write).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Some(thread))
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

/// What a block says in the memory of a thread; `None` when it is not there.
async fn said(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: &Thread,
    block: &ContextStep,
) -> Result<Option<String>, StoreError> {
    let last = sqlx::query_scalar!(
        // The block of a fork may have been set in steps that it shares.
        r#"SELECT s.content::text AS "content!"
             FROM (SELECT 1::bigint AS from_seq, 9223372036854775807 AS through_seq,
                          $2::uuid AS source_id
                    UNION ALL
                   SELECT from_seq, through_seq, source_id
                     FROM thread_segment
                    WHERE tenant_id = $1
                      AND thread_id = $2) g
             JOIN step s
               ON s.tenant_id = $1
              AND s.thread_id = g.source_id
              AND s.seq >= greatest($3, g.from_seq)
              AND s.seq <= g.through_seq
            WHERE s.kind = 'context'
              AND s.content ->> 'id' = $4
            ORDER BY s.seq DESC
            LIMIT 1"#,
        tenant.as_str(),
        thread.id.uuid(),
        thread.memory_from,
        block.id.as_str()
    )
    .fetch_optional(tx)
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "step", id: &thread.id };
    match at.json_opt("content", last.as_deref())? {
        Some(StepContent::Context(step)) => Ok(step.text),
        _ => Ok(None),
    }
}

/// Writes a step behind the last one; answers the thread as it then is.
async fn insert(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: Thread,
    content: StepContent,
    write: &OperatorWrite,
) -> Result<Thread, StoreError> {
    let seq = thread.head_seq + 1;
    let &OperatorWrite { step_id, op_id, seen: _, now, key: _ } = write;
    // What is inserted is placed as a document's steps are, whose first one is 1.
    let content = content.moved_by(-thread.head_seq).into_owned();
    let steps = LoadedSteps { ids: vec![step_id], contents: vec![content], op_id };
    loaded::insert_steps(tx, tenant, (thread.id, seq), &steps, now).await?;
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
