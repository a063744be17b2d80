//! Sub-runs: accepted with the call that starts them, and told of to it when they end.
//!
//! Both happen in the transaction that writes the cause, so no crash comes between. Locks are taken in one
//! order, also across the runs of a family: the row of the parent, then the thread, then the run on it.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::accept::accept_sub_run;
use super::rows::{At, to_json};
use super::runs::{NewRun, read};
use super::{Store, StoreError};
use crate::domain::id::{AgentId, KeyId, RunId, TenantId, ThreadId};
use crate::domain::run::RunFacts;
use crate::domain::sub_run::{Parent, answer_of, id_taken};
use crate::domain::wait::CallAnswer;

/// How many sub-runs one sweep deals with.
const SWEPT_AT_ONCE: i64 = 100;

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
    put(tx, tenant, parent, (&CallAnswer::Failed { error: id_taken() }, now)).await
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
/// waits becomes available.
pub(super) async fn answer(
    tx: &mut PgConnection,
    tenant: &TenantId,
    parent: &Parent,
    (facts, now): (&RunFacts, DateTime<Utc>),
) -> Result<(), StoreError> {
    match answer_of(facts) {
        Some(answer) => put(tx, tenant, parent, (&answer, now)).await,
        None => Ok(()),
    }
}

async fn put(
    tx: &mut PgConnection,
    tenant: &TenantId,
    parent: &Parent,
    (answer, now): (&CallAnswer, DateTime<Utc>),
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
          RETURNING call.tenant_id, call.run_id, call.call_id, call.attempt
         )
         INSERT INTO call_answer (tenant_id, run_id, call_id, waits_for, attempt, answer, created_at)
         SELECT tenant_id, run_id, call_id, 'sub_runs', attempt, ($4::text)::json, $5 FROM told",
        tenant.as_str(),
        parent.run.uuid(),
        parent.call.0,
        to_json(answer)?,
        now
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

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
    .fetch_all(store.worker())
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
    .fetch_all(store.worker())
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
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    rows.into_iter().map(|row| placed(&row.tenant_id, row.thread_id)).collect()
}
