//! Sub-runs: accepted with the call that starts them, and told of to it when they end.
//!
//! Both happen in the transaction that writes the cause, so no crash comes between. Locks are taken in one
//! order: a parent before its sub-run.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::accept::accept_sub_run;
use super::rows::{At, to_json};
use super::runs::NewRun;
use super::{Conflict, Store, StoreError, erasure};
use crate::domain::id::{AgentId, KeyId, RunId, TenantId, ThreadId};
use crate::domain::run::RunFacts;
use crate::domain::sub_run::{Parent, answer_of};

/// How many sub-runs one sweep deals with.
const SWEPT_AT_ONCE: i64 = 100;

/// Accepts a sub-run beside the append that says that its call waits for it. It is its parent's key that it
/// counts against, and what the parent has budgets for it has too.
pub(super) async fn start(
    tx: &mut PgConnection,
    tenant: &TenantId,
    new: &NewRun,
) -> Result<(), StoreError> {
    let parent = sqlx::query!(
        "SELECT key_id, budgeted FROM run WHERE tenant_id = $1 AND run_id = $2",
        tenant.as_str(),
        new.run.parent.as_ref().map(|parent| parent.run.uuid())
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    // Without its parent the append beside it writes nothing, and so neither is it.
    let Some(parent) = parent else { return Ok(()) };
    let new = NewRun { key: parent.key_id.map(KeyId::from), ..new.clone() };
    accept_sub_run(tx, tenant, &new, parent.budgeted).await
}

/// Locks the parent of a sub-run that is about to end.
pub(super) async fn lock_parent(
    tx: &mut PgConnection,
    tenant: &TenantId,
    parent: &Parent,
) -> Result<(), StoreError> {
    sqlx::query!(
        "SELECT FROM run WHERE tenant_id = $1 AND run_id = $2 FOR UPDATE",
        tenant.as_str(),
        parent.run.uuid()
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_read)?;
    Ok(())
}

/// Answers the call of a sub-run that has ended, if it still waits: the first end counts. A parent that
/// waits becomes available.
pub(super) async fn answer(
    tx: &mut PgConnection,
    tenant: &TenantId,
    parent: &Parent,
    (facts, now): (&RunFacts, DateTime<Utc>),
) -> Result<(), StoreError> {
    let Some(answer) = answer_of(facts) else { return Ok(()) };
    sqlx::query!(
        "WITH call AS (
             SELECT c.tenant_id, c.run_id, c.call_id, c.attempt
               FROM tool_call c
              WHERE c.tenant_id = $1
                AND c.run_id = $2
                AND c.call_id = $3
                AND c.waits_for = 'sub_runs'
                AND NOT EXISTS (
                    SELECT
                      FROM call_answer a
                     WHERE a.tenant_id = c.tenant_id
                       AND a.run_id = c.run_id
                       AND a.call_id = c.call_id
                       AND a.waits_for = 'sub_runs')
         ), told AS (
             UPDATE run p
                SET n_answers = n_answers + 1,
                    -- One that was lost by its worker is not to be hurried.
                    available_at = CASE
                        WHEN p.status = 'requires_action'
                             OR (p.status = 'queued' AND p.requires_action IS NOT NULL) THEN now()
                        ELSE p.available_at END,
                    status = CASE WHEN p.status = 'requires_action' THEN 'queued' ELSE p.status END,
                    wake_at = NULL
               FROM call
              WHERE p.tenant_id = call.tenant_id
                AND p.run_id = call.run_id
                AND p.status IN ('queued', 'running', 'requires_action')
          RETURNING call.tenant_id, call.run_id, call.call_id, call.attempt
         )
         INSERT INTO call_answer (tenant_id, run_id, call_id, waits_for, attempt, answer, created_at)
         SELECT tenant_id, run_id, call_id, 'sub_runs', attempt, ($4::text)::json, $5 FROM told",
        tenant.as_str(),
        parent.run.uuid(),
        parent.call.0,
        to_json(&answer)?,
        now
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Sub-runs that nobody waits for any more and that have not been told so: their call was given up, or their
/// parent was erased. One whose first end was told goes on as it likes.
///
/// # Errors
/// When the database does not answer.
pub async fn abandoned(store: &Store) -> Result<Vec<(TenantId, RunId)>, StoreError> {
    let rows = sqlx::query!(
        "SELECT r.tenant_id, r.run_id
           FROM run r
           LEFT JOIN tool_call c
             ON c.tenant_id = r.tenant_id
            AND c.run_id = r.parent_run_id
            AND c.call_id = r.parent_call_id
          WHERE r.parent_run_id IS NOT NULL
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
        SWEPT_AT_ONCE
    )
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    let runs = rows.into_iter().map(|row| {
        let run = RunId::from(row.run_id);
        let at = At { table: "run", id: &run };
        Ok((TenantId::parse(&row.tenant_id).map_err(|_| at.wrong("tenant_id"))?, run))
    });
    runs.collect()
}

/// Whether a budget counts money that a run of an agent would draw on as a sub-run of this one.
///
/// # Errors
/// When the database does not answer.
pub async fn counts_cost(
    store: &Store,
    tenant: &TenantId,
    parent: RunId,
    agent: AgentId,
) -> Result<bool, StoreError> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
                  SELECT
                    FROM run r
                    JOIN budget b
                      ON b.tenant_id = r.tenant_id
                     AND b.resource = 'cost'
                     AND CASE b.scope
                         WHEN 'tenant' THEN true
                         WHEN 'key' THEN b.owner_id = r.key_id
                         WHEN 'agent' THEN b.owner_id IN ($3, r.agent_id)
                                           OR b.owner_id = ANY (r.ancestor_owners)
                         WHEN 'thread' THEN b.owner_id = r.thread_id
                                            OR b.owner_id = ANY (r.ancestor_owners)
                         WHEN 'run' THEN b.owner_id = r.run_id OR b.owner_id = ANY (r.ancestors)
                         ELSE false END
                   WHERE r.tenant_id = $1
                     AND r.run_id = $2) AS "counts!""#,
        tenant.as_str(),
        parent.uuid(),
        agent.uuid()
    )
    .fetch_one(store.worker())
    .await
    .map_err(StoreError::of_read)
}

/// Erases the threads of sub-runs whose parent was erased: what was said there came of it. One that is in
/// use, or that others have gone on with, stays. Answers how many.
///
/// # Errors
/// When the database does not take it.
pub async fn erase_orphans(store: &Store, now: DateTime<Utc>) -> Result<u64, StoreError> {
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
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    let mut n_erased = 0;
    for row in rows {
        let thread = ThreadId::from(row.thread_id);
        let at = At { table: "run", id: &thread };
        let tenant = TenantId::parse(&row.tenant_id).map_err(|_| at.wrong("tenant_id"))?;
        match erasure::thread(store, &tenant, thread, now).await {
            Ok(_) => n_erased += 1,
            // Somebody was faster, and has gone on with it.
            Err(StoreError::Conflict(Conflict::ThreadBusy { .. } | Conflict::InUse { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n_erased)
}
