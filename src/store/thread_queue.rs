//! Runs that wait for their thread: accepted while another is active there, and let on one by one.
//!
//! The order of steps is that of the thread, so the task of such a run stands in the run until it is its
//! turn. Whoever ends a run looks for the next one; the sweep looks for what a crash left behind.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::accept::{TaskStepOf, insert_task, start_memory_at};
use super::rows::At;
use super::steer::{self, Wish};
use super::{Store, StoreError, threads};
use crate::domain::id::{RunId, StepId, TenantId, ThreadId};
use crate::domain::run::OnBusy;
use crate::domain::step::StepContent;

/// The task of a run that waits: the step it becomes, and whether the thread's memory starts afresh.
pub(super) type WaitingTask = ((StepId, StepContent), bool);

/// How many threads or runs one sweep deals with.
const SWEPT_AT_ONCE: i64 = 100;

/// Who keeps a thread busy.
pub(super) struct Busy {
    /// The run that is active, locked.
    active: Option<RunId>,
    /// The first and the last place of those that wait.
    places: Option<(i64, i64)>,
}

impl Busy {
    /// Where a run comes that waits now. One for whose sake the active run ends comes first.
    pub(super) const fn place_of(&self, on_busy: OnBusy) -> i64 {
        match (on_busy, self.places) {
            (_, None) => 0,
            (OnBusy::Reject | OnBusy::Enqueue, Some((_, last))) => last.saturating_add(1),
            (OnBusy::Interrupt | OnBusy::Rollback, Some((first, _))) => first.saturating_sub(1),
        }
    }
}

/// Who keeps a thread busy that is locked; `None` when nobody does.
pub(super) async fn look(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
) -> Result<Option<Busy>, StoreError> {
    // With the row locked the run cannot end before the one that waits is on record: who ends it looks
    // for that.
    let active = sqlx::query_scalar!(
        "SELECT run_id
           FROM run
          WHERE tenant_id = $1
            AND thread_id = $2
            AND status IN ('queued', 'running', 'requires_action')
            AND enqueued_task IS NULL
            FOR UPDATE",
        tenant.as_str(),
        thread.uuid()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    let places = sqlx::query!(
        "SELECT min(queue_place) AS first, max(queue_place) AS last
           FROM run
          WHERE tenant_id = $1
            AND thread_id = $2
            AND status = 'queued'
            AND enqueued_task IS NOT NULL",
        tenant.as_str(),
        thread.uuid()
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    let busy = Busy { active: active.map(RunId::from), places: places.first.zip(places.last) };
    Ok((busy.active.is_some() || busy.places.is_some()).then_some(busy))
}

/// Asks the active run to end, where that is how the one that waits wants it. Answers which run that is. Its
/// parent, if it has one, is locked: that comes before the thread.
pub(super) async fn displace(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (busy, on_busy): (&Busy, OnBusy),
    now: DateTime<Utc>,
) -> Result<Option<RunId>, StoreError> {
    let Some(run) = busy.active.filter(|_| on_busy.displaces()) else { return Ok(None) };
    let is_cancelled = on_busy == OnBusy::Rollback;
    let wish = if is_cancelled { Wish::Cancel } else { Wish::Interrupt };
    let Some(locked) = steer::lock(tx, tenant, run).await? else { return Ok(None) };
    steer::carry_out(tx, tenant, locked, &wish, now).await?;
    if is_cancelled {
        sqlx::query!(
            "UPDATE run SET rolled_back_at = $3 WHERE tenant_id = $1 AND run_id = $2",
            tenant.as_str(),
            run.uuid(),
            now
        )
        .execute(tx)
        .await
        .map_err(StoreError::of_write)?;
    }
    Ok(Some(run))
}

/// Lets the next run on that waits for a thread, if none is active there. Answers which.
///
/// # Errors
/// When the database does not take it.
pub async fn admit_next(
    store: &Store,
    tenant: &TenantId,
    thread: ThreadId,
    now: DateTime<Utc>,
) -> Result<Option<RunId>, StoreError> {
    let waits = sqlx::query_scalar!(
        r#"SELECT EXISTS (
                  SELECT 1
                    FROM run
                   WHERE tenant_id = $1
                     AND thread_id = $2
                     AND status = 'queued'
                     AND enqueued_task IS NOT NULL) AS "waits!""#,
        tenant.as_str(),
        thread.uuid()
    )
    .fetch_one(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    if !waits {
        return Ok(None);
    }
    let mut tx = store.worker().begin().await.map_err(StoreError::of_read)?;
    let admitted = admit(&mut tx, tenant, thread, now).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(admitted)
}

/// The same in a transaction that may have locked the thread already.
pub(super) async fn admit(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
    now: DateTime<Utc>,
) -> Result<Option<RunId>, StoreError> {
    if threads::lock(tx, tenant, thread).await?.is_none() {
        return Ok(None);
    }
    let row = sqlx::query!(
        r#"SELECT r.run_id, r.op_id, r.next_event_seq, r.enqueued_task::text AS "task!"
             FROM run r
            WHERE r.tenant_id = $1
              AND r.thread_id = $2
              AND r.status = 'queued'
              AND r.enqueued_task IS NOT NULL
              AND NOT EXISTS (
                  SELECT
                    FROM run active
                   WHERE active.tenant_id = r.tenant_id
                     AND active.thread_id = r.thread_id
                     AND active.status IN ('queued', 'running', 'requires_action')
                     AND active.enqueued_task IS NULL)
            ORDER BY r.queue_place
            LIMIT 1
              FOR UPDATE OF r"#,
        tenant.as_str(),
        thread.uuid()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    let Some(row) = row else { return Ok(None) };
    // Read after the thread was seen to be free: a worker appends without its lock.
    let Some(free) = threads::lock(tx, tenant, thread).await? else { return Ok(None) };
    let (run, seq) = (RunId::from(row.run_id), free.head_seq + 1);
    let at = At { table: "run", id: &run };
    let (task, resets): WaitingTask = at.json("enqueued_task", &row.task)?;
    if resets {
        start_memory_at(tx, tenant, thread, seq).await?;
    }
    begin_at(tx, tenant, run, seq).await?;
    let step = TaskStepOf { run, thread, seq, task: &task, op_id: row.op_id, now };
    insert_task(tx, tenant, &step, row.next_event_seq).await?;
    Ok(Some(run))
}

/// Makes a run the active one of its thread, with its task at this place.
async fn begin_at(
    tx: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
    seq: i64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE run
            SET enqueued_task = NULL,
                queue_place = NULL,
                available_at = now(),
                next_seq = $3,
                memory_from = (SELECT memory_from
                                 FROM thread t
                                WHERE t.tenant_id = run.tenant_id
                                  AND t.thread_id = run.thread_id),
                next_event_seq = next_event_seq + 1
          WHERE tenant_id = $1
            AND run_id = $2",
        tenant.as_str(),
        run.uuid(),
        seq + 1
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Threads for which runs wait although none is active there.
///
/// # Errors
/// When the database does not answer.
pub async fn stranded(store: &Store) -> Result<Vec<(TenantId, ThreadId)>, StoreError> {
    let rows = sqlx::query!(
        "SELECT DISTINCT r.tenant_id, r.thread_id
           FROM run r
          WHERE r.status = 'queued'
            AND r.enqueued_task IS NOT NULL
            AND NOT EXISTS (
                SELECT
                  FROM run active
                 WHERE active.tenant_id = r.tenant_id
                   AND active.thread_id = r.thread_id
                   AND active.status IN ('queued', 'running', 'requires_action')
                   AND active.enqueued_task IS NULL)
          LIMIT $1",
        SWEPT_AT_ONCE
    )
    .fetch_all(store.system().critical())
    .await
    .map_err(StoreError::of_read)?;
    let places = rows.into_iter().map(|row| {
        let thread = ThreadId::from(row.thread_id);
        let at = At { table: "run", id: &thread };
        let tenant = TenantId::parse(&row.tenant_id).map_err(|_| at.wrong("tenant_id"))?;
        Ok((tenant, thread))
    });
    places.collect()
}

/// Runs whose time was over before it was their turn.
///
/// # Errors
/// When the database does not answer.
pub async fn overdue(store: &Store) -> Result<Vec<(TenantId, RunId)>, StoreError> {
    let rows = sqlx::query!(
        "SELECT tenant_id, run_id
           FROM run
          WHERE status = 'queued'
            AND enqueued_task IS NOT NULL
            AND deadline_at <= now()
          LIMIT $1",
        SWEPT_AT_ONCE
    )
    .fetch_all(store.system().critical())
    .await
    .map_err(StoreError::of_read)?;
    let runs = rows.into_iter().map(|row| {
        let run = RunId::from(row.run_id);
        let at = At { table: "run", id: &run };
        Ok((TenantId::parse(&row.tenant_id).map_err(|_| at.wrong("tenant_id"))?, run))
    });
    runs.collect()
}
