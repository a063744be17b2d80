//! Erasure: threads and runs with all that is stored of them. What is left is a tombstone, by which an id
//! is known not to come back.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::threads::{self, refuse_if_busy};
use super::{Conflict, Store, StoreError, forks, runs};
use crate::domain::id::{RunId, TenantId, ThreadId};

/// What can be erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erased {
    /// A thread.
    Thread(ThreadId),
    /// A run.
    Run(RunId),
}

impl Erased {
    /// What it is.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Thread(_) => "thread",
            Self::Run(_) => "run",
        }
    }

    const fn uuid(self) -> Uuid {
        match self {
            Self::Thread(id) => id.uuid(),
            Self::Run(id) => id.uuid(),
        }
    }
}

/// Whether a thread or a run was erased.
///
/// # Errors
/// When the database does not answer.
pub async fn was_erased(
    store: &Store,
    tenant: &TenantId,
    what: Erased,
) -> Result<bool, StoreError> {
    is_erased(store.api(), tenant, what).await
}

pub(super) async fn is_erased(
    executor: impl PgExecutor<'_>,
    tenant: &TenantId,
    what: Erased,
) -> Result<bool, StoreError> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
                  SELECT 1 FROM tombstone WHERE tenant_id = $1 AND kind = $2 AND id = $3) AS "is!""#,
        tenant.as_str(),
        what.kind(),
        what.uuid()
    )
    .fetch_one(executor)
    .await
    .map_err(StoreError::of_read)
}

/// Erases a thread with all that belongs to it; `false` when there is and was no such thread.
///
/// That is its runs, its history, its ledger, what endpoints were to be told of it, the idempotency keys that
/// lead to it, and what its sub-runs left.
///
/// # Errors
/// [`super::Conflict::ThreadBusy`] while a run is active on it, or one of its sub-runs;
/// [`Conflict::InUse`] while forks share its steps.
pub async fn thread(
    store: &Store,
    tenant: &TenantId,
    id: ThreadId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    if threads::lock(&mut tx, tenant, id).await?.is_none() {
        return is_erased(&mut *tx, tenant, Erased::Thread(id)).await;
    }
    refuse_if_busy(&mut tx, tenant, id).await?;
    refuse_if_shared(&mut tx, tenant, id).await?;
    let below = threads_below(&mut tx, tenant, (id, None)).await?;
    bury_threads(&mut tx, tenant, &[&[id], below.as_slice()].concat(), now).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(true)
}

/// The threads that were made for the sub-runs of a locked thread, or of one run on it, and for what those
/// started in turn, locked. One that others have gone on with stays, with all that is below it.
///
/// # Errors
/// [`Conflict::ThreadBusy`] while a run is active on one of them.
pub(super) async fn threads_below(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (thread, run): (ThreadId, Option<RunId>),
) -> Result<Vec<ThreadId>, StoreError> {
    let (mut found, mut level, mut run) = (Vec::new(), vec![thread.uuid()], run);
    // Each thread stands below one other, so that this comes to an end.
    while !level.is_empty() {
        level = level_below(tx, tenant, &level, run.take()).await?;
        for thread in level.iter().copied().map(ThreadId::from) {
            found.extend(threads::lock(tx, tenant, thread).await?.map(|thread| thread.id));
        }
    }
    for thread in &found {
        refuse_if_busy(tx, tenant, *thread).await?;
    }
    Ok(found)
}

async fn level_below(
    tx: &mut PgConnection,
    tenant: &TenantId,
    threads: &[Uuid],
    run: Option<RunId>,
) -> Result<Vec<Uuid>, StoreError> {
    sqlx::query_scalar!(
        "SELECT DISTINCT r.thread_id
           FROM run p
           JOIN run r
             ON r.tenant_id = p.tenant_id
            AND r.parent_run_id = p.run_id
            AND r.thread_id <> p.thread_id
          WHERE p.tenant_id = $1
            AND p.thread_id = ANY ($2)
            AND ($3::uuid IS NULL OR p.run_id = $3)
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
          ORDER BY r.thread_id",
        tenant.as_str(),
        threads,
        run.map(RunId::uuid)
    )
    .fetch_all(tx)
    .await
    .map_err(StoreError::of_read)
}

/// Deletes locked threads and leaves their tombstones, and those of their runs.
async fn bury_threads(
    tx: &mut PgConnection,
    tenant: &TenantId,
    threads: &[ThreadId],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let ids = uuids(threads);
    sqlx::query!(
        "INSERT INTO tombstone (tenant_id, kind, id, thread_id, n_steps, erased_at)
         SELECT tenant_id, 'run', run_id, thread_id, 0, $3::timestamptz
           FROM run
          WHERE tenant_id = $1
            AND thread_id = ANY ($2)
          UNION ALL
         SELECT $1, 'thread', erased.id, erased.id, 0, $3
           FROM unnest($2::uuid[]) AS erased(id)",
        tenant.as_str(),
        &ids,
        now
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    remove_threads(tx, tenant, threads).await
}

fn uuids(threads: &[ThreadId]) -> Vec<Uuid> {
    threads.iter().map(|thread| thread.uuid()).collect()
}

/// Threads that are named when they keep another one from being erased.
const MAX_REFERENCES: i64 = 20;

/// Refuses to take steps away from the forks of a locked thread.
async fn refuse_if_shared(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: ThreadId,
) -> Result<(), StoreError> {
    let references = forks::made_of(tx, tenant, id, MAX_REFERENCES).await?;
    if references.is_empty() {
        Ok(())
    } else {
        Err(StoreError::Conflict(Conflict::InUse { references }))
    }
}

/// Deletes locked threads and what no foreign key leads to.
pub(super) async fn remove_threads(
    tx: &mut PgConnection,
    tenant: &TenantId,
    threads: &[ThreadId],
) -> Result<(), StoreError> {
    let ids = uuids(threads);
    sqlx::query!(
        "DELETE FROM idempotency i
          USING (SELECT run_id AS id FROM run WHERE tenant_id = $1 AND thread_id = ANY ($2)
                  UNION ALL
                 SELECT step_id FROM step
                  WHERE tenant_id = $1 AND thread_id = ANY ($2) AND run_id IS NULL
                  UNION ALL
                 SELECT unnest($2::uuid[])) AS gone
          WHERE i.tenant_id = $1
            AND i.run_id = gone.id",
        tenant.as_str(),
        &ids
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    sqlx::query!(
        "DELETE FROM thread WHERE tenant_id = $1 AND thread_id = ANY ($2)",
        tenant.as_str(),
        &ids
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Erases a run that has ended, with its steps and what its sub-runs left; `false` when there is and was no
/// such run.
///
/// The bodies of later requests on its thread repeat what was said in it, so they go too; their hashes stay.
///
/// # Errors
/// [`super::Conflict::ThreadBusy`] while it, or another run on its thread, is active,
/// [`Conflict::InUse`] while forks share the steps of its thread.
pub async fn run(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    let found = runs::read(&mut *tx, tenant, id).await?.map(|run| run.thread_id);
    // Locks are taken in one order everywhere: the thread, then the run.
    let thread = match found {
        Some(thread) => threads::lock(&mut tx, tenant, thread).await?.map(|thread| thread.id),
        None => None,
    };
    let Some(thread) = thread else {
        return is_erased(&mut *tx, tenant, Erased::Run(id)).await;
    };
    refuse_if_busy(&mut tx, tenant, thread).await?;
    refuse_if_shared(&mut tx, tenant, thread).await?;
    let below = threads_below(&mut tx, tenant, (thread, Some(id))).await?;
    bury_threads(&mut tx, tenant, &below, now).await?;
    forget_later_bodies(&mut tx, tenant, (thread, id)).await?;
    if !bury_run(&mut tx, tenant, (thread, id), now).await? {
        return is_erased(&mut *tx, tenant, Erased::Run(id)).await;
    }
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(true)
}

/// Drops the bodies of what was sent on a thread since a run was accepted: its words may be in all of them.
/// Clocks of servers differ, so a request counts as later too when its run has a step behind the first one
/// of this run. Bodies are kept as differences from earlier ones, so from the first on all of them go.
async fn forget_later_bodies(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (thread, run): (ThreadId, RunId),
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE model_request
            SET head = NULL, head_encoding = NULL, head_shared = 0, conversation = NULL,
                conversation_encoding = NULL, conversation_shared = 0, spans = NULL, base_id = NULL
          WHERE tenant_id = $1
            AND thread_id = $2
            AND head IS NOT NULL
            AND request_id >= (
                SELECT q.request_id
                  FROM model_request q
                  JOIN run erased
                    ON erased.tenant_id = q.tenant_id
                   AND erased.run_id = $3
                 WHERE q.tenant_id = $1
                   AND q.thread_id = $2
                   AND (q.run_id = $3
                        OR q.sent_at >= erased.created_at
                        OR EXISTS (
                            SELECT
                              FROM step s
                              JOIN step own
                                ON own.tenant_id = s.tenant_id
                               AND own.thread_id = s.thread_id
                               AND own.seq < s.seq
                             WHERE s.tenant_id = q.tenant_id
                               AND s.run_id = q.run_id
                               AND own.run_id = $3))
                 ORDER BY q.request_id
                 LIMIT 1)",
        tenant.as_str(),
        thread.uuid(),
        run.uuid()
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Deletes a run of a locked thread and leaves its tombstone. `false` when it is not there.
async fn bury_run(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (thread, run): (ThreadId, RunId),
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let buried = sqlx::query!(
        "WITH keys AS (
             DELETE FROM idempotency WHERE tenant_id = $1 AND run_id = $2
         ), gone AS (
             DELETE FROM run
              WHERE tenant_id = $1
                AND run_id = $2
          RETURNING tenant_id, run_id, thread_id, n_steps
         )
         INSERT INTO tombstone (tenant_id, kind, id, thread_id, n_steps, erased_at)
         SELECT tenant_id, 'run', run_id, thread_id, n_steps, $3 FROM gone",
        tenant.as_str(),
        run.uuid(),
        now
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    // Memory that began behind the last step that is left begins with the next one.
    sqlx::query!(
        "UPDATE thread t
            SET revision = revision + 1, updated_at = $3,
                memory_from = least(memory_from, 1 + (
                    SELECT greatest(max(s.seq), t.forked_at, 0)
                      FROM step s
                     WHERE s.tenant_id = t.tenant_id
                       AND s.thread_id = t.thread_id))
          WHERE t.tenant_id = $1
            AND t.thread_id = $2",
        tenant.as_str(),
        thread.uuid(),
        now
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(buried.rows_affected() == 1)
}
