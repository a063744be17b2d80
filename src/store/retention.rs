//! Retention: what is old enough is forgotten, a portion at a time. A thread is as old as what last
//! happened on it, and one with an active run is not old.

use std::time::Duration;

use sqlx::PgConnection;

use super::chores::Mark;
use super::idempotency::interval;
use super::rows::At;
use super::{Conflict, Store, StoreError, erasure, forks};
use crate::domain::id::{TenantId, ThreadId};

/// How many rows a portion looks at.
const PORTION: i64 = 1_000;

/// The next portion of a way through all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portion {
    /// Threads of it that were old when they were looked at.
    pub old: Vec<(TenantId, ThreadId)>,
    /// Where the next portion begins; `None` when this was the last one.
    pub next: Option<Mark>,
}

/// Looks at the next portion of threads. With `with_bodies` only those count whose ledger still holds
/// bodies.
///
/// # Errors
/// When the database does not answer.
pub async fn look(
    store: &Store,
    from: &Mark,
    age: Duration,
    with_bodies: bool,
) -> Result<Portion, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT t.tenant_id, t.thread_id,
                  (t.updated_at < now() - $3::interval
                   AND NOT EXISTS (
                       SELECT 1
                         FROM run r
                        WHERE r.tenant_id = t.tenant_id
                          AND r.thread_id = t.thread_id
                          AND (r.finished_at IS NULL OR r.finished_at >= now() - $3::interval))
                   AND (NOT $4 OR EXISTS (
                       SELECT 1
                         FROM model_request q
                        WHERE q.tenant_id = t.tenant_id
                          AND q.thread_id = t.thread_id
                          AND (q.head IS NOT NULL OR q.response IS NOT NULL)))) AS "is_old!"
             FROM thread t
            WHERE (t.tenant_id, t.thread_id) > ($1, $2::uuid)
            ORDER BY t.tenant_id, t.thread_id
            LIMIT $5"#,
        from.tenant,
        from.thread,
        interval(age),
        with_bodies,
        PORTION
    )
    .fetch_all(store.system().worker())
    .await
    .map_err(StoreError::of_read)?;
    let is_last = i64::try_from(rows.len()).unwrap_or(PORTION) < PORTION;
    let mut portion = Portion { old: Vec::new(), next: None };
    for row in rows {
        let thread = ThreadId::from(row.thread_id);
        let tenant = TenantId::parse(&row.tenant_id)
            .map_err(|_| At { table: "thread", id: &thread }.wrong("tenant_id"))?;
        portion.next = (!is_last).then(|| Mark::behind(&tenant, thread));
        if row.is_old {
            portion.old.push((tenant, thread));
        }
    }
    Ok(portion)
}

/// Deletes a thread if it is still old, with what its sub-runs left. `false` when it is not.
///
/// # Errors
/// When the database does not take it.
pub async fn forget_thread(
    store: &Store,
    tenant: &TenantId,
    thread: ThreadId,
    age: Duration,
) -> Result<bool, StoreError> {
    let mut tx = store.worker().begin().await.map_err(StoreError::of_read)?;
    if !lock_old(&mut tx, tenant, thread, age).await? {
        return Ok(false);
    }
    // A thread is as old as the forks that share its steps.
    if !forks::made_of(&mut tx, tenant, thread, 1).await?.is_empty() {
        return Ok(false);
    }
    let below = match erasure::threads_below(&mut tx, tenant, (thread, None)).await {
        Err(StoreError::Conflict(Conflict::ThreadBusy { .. })) => return Ok(false),
        below => below?,
    };
    erasure::remove_threads(&mut tx, tenant, &[&[thread], below.as_slice()].concat()).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(true)
}

/// Drops the bodies of the requests of a thread, and of what came back, if it is still old. Hashes and
/// figures stay. All of them go at once, so that none is left that is made of one that is gone.
///
/// # Errors
/// When the database does not take it.
pub async fn forget_bodies(
    store: &Store,
    tenant: &TenantId,
    thread: ThreadId,
    age: Duration,
) -> Result<bool, StoreError> {
    let mut tx = store.worker().begin().await.map_err(StoreError::of_read)?;
    if !lock_old(&mut tx, tenant, thread, age).await? {
        return Ok(false);
    }
    sqlx::query!(
        "UPDATE model_request
            SET head = NULL, head_encoding = NULL, head_shared = 0, conversation = NULL,
                conversation_encoding = NULL, conversation_shared = 0, spans = NULL, base_id = NULL,
                response = NULL, response_encoding = NULL
          WHERE tenant_id = $1
            AND thread_id = $2
            AND (head IS NOT NULL OR response IS NOT NULL)",
        tenant.as_str(),
        thread.uuid()
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(true)
}

/// Locks a thread against a run that would start or go on, if it is old.
async fn lock_old(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
    age: Duration,
) -> Result<bool, StoreError> {
    // Nobody is waited for: whoever has the thread is doing something with it, so it is not old.
    let locked = sqlx::query_scalar!(
        "SELECT thread_id
           FROM thread
          WHERE tenant_id = $1
            AND thread_id = $2
            FOR UPDATE SKIP LOCKED",
        tenant.as_str(),
        thread.uuid()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    if locked.is_none() {
        return Ok(false);
    }
    // Only a statement that begins behind the lock sees what was committed before it.
    sqlx::query_scalar!(
        r#"SELECT t.updated_at < now() - $3::interval
                  AND NOT EXISTS (
                      SELECT 1
                        FROM run r
                       WHERE r.tenant_id = t.tenant_id
                         AND r.thread_id = t.thread_id
                         AND (r.finished_at IS NULL OR r.finished_at >= now() - $3::interval))
                  AS "is_old!"
             FROM thread t
            WHERE t.tenant_id = $1
              AND t.thread_id = $2"#,
        tenant.as_str(),
        thread.uuid(),
        interval(age)
    )
    .fetch_one(tx)
    .await
    .map_err(StoreError::of_read)
}

/// Deletes old deliveries, at most 1,000; how many.
///
/// # Errors
/// When the database does not take it.
pub async fn forget_deliveries(store: &Store, age: Duration) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM webhook_delivery
          WHERE (tenant_id, webhook_id, run_id, event_seq) IN (
                SELECT tenant_id, webhook_id, run_id, event_seq
                  FROM webhook_delivery
                 WHERE created_at < now() - $1::interval
                 ORDER BY created_at
                 LIMIT $2)",
        interval(age),
        PORTION
    )
    .execute(store.system().worker())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected())
}
