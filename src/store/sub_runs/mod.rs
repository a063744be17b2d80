//! Sub-runs: accepted with the call that starts them, and told of to it when they end.
//!
//! Both happen in the transaction that writes the cause, so no crash comes between. Locks are taken in one
//! order, also across the runs of a family: the row of the parent, then the thread, then the run on it.

mod sweep;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::accept::accept_sub_run;
use super::rows::to_json;
use super::runs::NewRun;
use super::{Store, StoreError};
use crate::domain::id::{AgentId, CallId, KeyId, RunId, TenantId, ThreadId};
use crate::domain::run::{RunFacts, RunStatus};
use crate::domain::sub_run::{Parent, answer_of, id_taken};
use crate::domain::wait::CallAnswer;

pub use sweep::{abandoned, orphans, tell, untold};

/// Accepts the sub-runs beside the append that says that their calls wait for them. It is their parent's key
/// that they count against, and what the parent has budgets for they have too. Answers which of them were
/// not started.
pub(super) async fn start<'a>(
    tx: &mut PgConnection,
    tenant: &TenantId,
    sub_runs: &'a [NewRun],
) -> Result<Vec<&'a Parent>, StoreError> {
    let mut refused = Vec::new();
    for new in sub_runs {
        let Some(parent) = &new.run.parent else { continue };
        if is_taken(tx, tenant, new.run.id).await? {
            refused.push(parent);
        } else {
            start_one(tx, tenant, (parent, new)).await?;
        }
    }
    Ok(refused)
}

/// Whether there is a run of this id. Callers choose ids, and they see that of a call that waits for a
/// decision before its sub-run starts.
async fn is_taken(
    tx: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
) -> Result<bool, StoreError> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
                  SELECT FROM run WHERE tenant_id = $1 AND run_id = $2) AS "taken!""#,
        tenant.as_str(),
        run.uuid()
    )
    .fetch_one(tx)
    .await
    .map_err(StoreError::of_read)
}

async fn start_one(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (parent, new): (&Parent, &NewRun),
) -> Result<(), StoreError> {
    let parent = sqlx::query!(
        "SELECT key_id, budgeted FROM run WHERE tenant_id = $1 AND run_id = $2",
        tenant.as_str(),
        parent.run.uuid()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    // Without its parent the append beside it writes nothing, and so neither is it.
    let Some(parent) = parent else { return Ok(()) };
    let new = NewRun { key: parent.key_id.map(KeyId::from), ..new.clone() };
    accept_sub_run(tx, tenant, &new, parent.budgeted).await
}

/// Answers a call whose sub-run was not started since another run has its id.
pub(super) async fn refuse(
    tx: &mut PgConnection,
    tenant: &TenantId,
    parent: &Parent,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let answer = CallAnswer::Failed { error: id_taken() };
    put(tx, tenant, parent, (&answer, false, now)).await
}

/// Locks the parents of the sub-runs on a thread. Whoever may end what is active there needs that ahead of
/// the thread.
pub(super) async fn lock_parents_on(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
) -> Result<(), StoreError> {
    sqlx::query!(
        "SELECT
           FROM run p
          WHERE p.tenant_id = $1
            AND p.run_id IN (
                SELECT r.parent_run_id
                  FROM run r
                 WHERE r.tenant_id = $1
                   AND r.thread_id = $2
                   AND r.parent_run_id IS NOT NULL)
          ORDER BY p.run_id
            FOR UPDATE OF p",
        tenant.as_str(),
        thread.uuid()
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_read)?;
    Ok(())
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
/// waits becomes available. One that is to end is not told that others were ended for it.
pub(super) async fn answer(
    tx: &mut PgConnection,
    tenant: &TenantId,
    parent: &Parent,
    (facts, now): (&RunFacts, DateTime<Utc>),
) -> Result<(), StoreError> {
    match answer_of(facts) {
        Some(answer) => {
            let is_cancelled = facts.status == RunStatus::Cancelled;
            put(tx, tenant, parent, (&answer, is_cancelled, now)).await
        }
        None => Ok(()),
    }
}

async fn put(
    tx: &mut PgConnection,
    tenant: &TenantId,
    parent: &Parent,
    (answer, is_cancelled, now): (&CallAnswer, bool, DateTime<Utc>),
) -> Result<(), StoreError> {
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
                AND NOT ($6 AND p.cancel_requested_at IS NOT NULL)
          RETURNING call.tenant_id, call.run_id, call.call_id, call.attempt
         )
         INSERT INTO call_answer (tenant_id, run_id, call_id, waits_for, attempt, answer, created_at)
         SELECT tenant_id, run_id, call_id, 'sub_runs', attempt, ($4::text)::json, $5 FROM told",
        tenant.as_str(),
        parent.run.uuid(),
        parent.call.0,
        to_json(answer)?,
        now,
        is_cancelled
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Asks for the end of the sub-runs of calls that are given up, and of all that these have started in turn,
/// beside the append that gives the calls up: none of them takes another step. One whose first end was told
/// goes on as it likes.
pub(super) async fn give_up(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (parent, calls): (RunId, &[CallId]),
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let runs = given_up_runs(tx, tenant, parent, calls).await?;
    if runs.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE run
            SET cancel_requested_at = $3,
                -- One that waits does not see a wish unless a worker takes it.
                status = CASE WHEN status = 'requires_action' THEN 'queued' ELSE status END,
                wake_at = NULL,
                available_at = CASE WHEN enqueued_task IS NULL THEN least(available_at, now())
                                    ELSE available_at END
          WHERE tenant_id = $1
            AND run_id = ANY ($2)
            AND status IN ('queued', 'running', 'requires_action')
            AND cancel_requested_at IS NULL",
        tenant.as_str(),
        &runs,
        now
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// The sub-runs of calls that are given up, with all that these have started, locked from the top down, as
/// whoever ends one of them does.
async fn given_up_runs(
    tx: &mut PgConnection,
    tenant: &TenantId,
    parent: RunId,
    calls: &[CallId],
) -> Result<Vec<Uuid>, StoreError> {
    let calls: Vec<String> = calls.iter().map(|call| call.0.clone()).collect();
    sqlx::query_scalar!(
        "WITH RECURSIVE given_up AS (
             SELECT r.tenant_id, r.run_id
               FROM run r
              WHERE r.tenant_id = $1
                AND r.parent_run_id = $2
                AND r.parent_call_id = ANY ($3)
                AND r.status IN ('queued', 'running', 'requires_action')
                AND NOT EXISTS (
                    SELECT
                      FROM call_answer a
                     WHERE a.tenant_id = r.tenant_id
                       AND a.run_id = r.parent_run_id
                       AND a.call_id = r.parent_call_id
                       AND a.waits_for = 'sub_runs')
              UNION
             SELECT r.tenant_id, r.run_id
               FROM run r
               JOIN given_up g
                 ON g.tenant_id = r.tenant_id
                AND g.run_id = r.parent_run_id
              WHERE r.tenant_id = $1
                AND r.status IN ('queued', 'running', 'requires_action')
                AND NOT EXISTS (
                    SELECT
                      FROM call_answer a
                     WHERE a.tenant_id = r.tenant_id
                       AND a.run_id = r.parent_run_id
                       AND a.call_id = r.parent_call_id
                       AND a.waits_for = 'sub_runs')
         )
         SELECT r.run_id
           FROM run r
          WHERE r.tenant_id = $1
            AND r.run_id IN (SELECT g.run_id FROM given_up g)
          ORDER BY cardinality(r.ancestors), r.run_id
            FOR UPDATE",
        tenant.as_str(),
        parent.uuid(),
        &calls
    )
    .fetch_all(&mut *tx)
    .await
    .map_err(StoreError::of_read)
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
