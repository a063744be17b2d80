//! How callers steer runs: cancel, interrupt, resume.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::runs::{get, insert_event, read};
use super::{Conflict, Store, StoreError, budget, patience, threads};
use crate::domain::event::{EventData, EventName};
use crate::domain::id::{RunId, TenantId};
use crate::domain::run::{Run, RunStatus};

/// How a wish of a caller was received.
#[derive(Debug, Clone, PartialEq)]
pub enum Steered {
    /// There is no such run.
    NoSuchRun,
    /// It cannot be: the run stands like this.
    Refused(Run),
    /// It is done; the run stands like this.
    Done(Run),
    /// The worker of the run, or the next one, does it at the next boundary.
    Requested(Run),
}

/// Asks for the end of a run. One that no worker holds ends at once, unless it has open calls.
///
/// # Errors
/// When the database does not take it.
pub async fn cancel(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    now: DateTime<Utc>,
) -> Result<Steered, StoreError> {
    steer(store, tenant, id, Wish::Cancel, now).await
}

/// Asks for a stop at the next boundary. One that no worker holds stops at once, unless it has open
/// calls.
///
/// # Errors
/// When the database does not take it.
pub async fn interrupt(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    now: DateTime<Utc>,
) -> Result<Steered, StoreError> {
    steer(store, tenant, id, Wish::Interrupt, now).await
}

/// Lets an interrupted run go on, unless its thread went on without it.
///
/// # Errors
/// [`Conflict::ThreadBusy`] when another run is active on the thread, [`Conflict::Stale`] when the
/// thread's history was appended to or replaced since.
pub async fn resume(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    now: DateTime<Utc>,
) -> Result<Steered, StoreError> {
    steer(store, tenant, id, Wish::Resume, now).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Cancel,
    Interrupt,
    Resume,
}

impl Wish {
    /// Whether a run stands as it does when the wish has come true.
    const fn is_true_of(self, status: RunStatus) -> bool {
        match self {
            Self::Cancel => matches!(status, RunStatus::Cancelled),
            Self::Interrupt => matches!(status, RunStatus::Interrupted),
            Self::Resume => matches!(status, RunStatus::Queued | RunStatus::Running),
        }
    }
}

async fn steer(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    wish: Wish,
    now: DateTime<Utc>,
) -> Result<Steered, StoreError> {
    let settled = patience::settled(|_| try_steer(store, tenant, id, wish, now)).await;
    match settled.answer {
        // It came true by a try whose answer was lost.
        Ok(Steered::Refused(run)) if settled.is_repeated && wish.is_true_of(run.facts.status) => {
            Ok(Steered::Done(run))
        }
        answer => answer,
    }
}

async fn try_steer(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    wish: Wish,
    now: DateTime<Utc>,
) -> Result<Steered, StoreError> {
    let Some(thread) = get(store, tenant, id).await?.map(|run| run.thread_id) else {
        return Ok(Steered::NoSuchRun);
    };
    let mut tx = store.critical().begin().await.map_err(StoreError::of_read)?;
    // Locks are taken in one order everywhere: the thread, then the run.
    let head_seq = threads::lock(&mut tx, tenant, thread).await?.map(|thread| thread.head_seq);
    let Some((mut run, next)) = lock(&mut tx, tenant, id).await? else {
        return Ok(Steered::NoSuchRun);
    };
    // Open calls are closed by the machine, so a run that was given back with some needs a worker.
    let needs_worker = match run.facts.status {
        RunStatus::Running | RunStatus::RequiresAction => true,
        RunStatus::Queued => {
            has_open_calls(&mut tx, tenant, id).await? || budget::holds(&mut tx, tenant, id).await?
        }
        _ => false,
    };
    if needs_worker && wish != Wish::Resume {
        request(&mut tx, tenant, id, wish, now).await?;
        tx.commit().await.map_err(StoreError::of_write)?;
        return Ok(Steered::Requested(run));
    }
    let event = match (wish, run.facts.status) {
        (Wish::Cancel, RunStatus::Queued) => EventName::RunCancelled,
        (Wish::Interrupt, RunStatus::Queued) => EventName::RunInterrupted,
        (Wish::Resume, RunStatus::Interrupted) => {
            threads::refuse_if_busy(&mut tx, tenant, thread).await?;
            if head_seq != Some(next.seq - 1) {
                return Err(StoreError::Conflict(Conflict::Stale));
            }
            EventName::RunResumed
        }
        _ => return Ok(Steered::Refused(run)),
    };
    run.facts.requires_action = None;
    (run.facts.status, run.facts.finished_at) = match event {
        EventName::RunCancelled => (RunStatus::Cancelled, Some(now)),
        EventName::RunInterrupted => (RunStatus::Interrupted, Some(now)),
        _ => (RunStatus::Queued, None),
    };
    // A run that no worker ever had begins as any other does.
    let goes_on = event == EventName::RunResumed && run.facts.started_at.is_some();
    set_status(&mut tx, tenant, &run, goes_on).await?;
    let data = (event, EventData::Run(run.facts.clone()));
    insert_event(&mut tx, tenant, (id, next.event_seq), &data, now).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Steered::Done(run))
}

/// What the next append to a run must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Next {
    seq: i64,
    event_seq: i64,
}

async fn lock(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<(Run, Next)>, StoreError> {
    let next = sqlx::query!(
        "SELECT next_seq, next_event_seq
           FROM run
          WHERE tenant_id = $1
            AND run_id = $2
            FOR UPDATE",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    let Some(next) = next else { return Ok(None) };
    let run = read(tx, tenant, id).await?;
    Ok(run.map(|run| (run, Next { seq: next.next_seq, event_seq: next.next_event_seq })))
}

async fn has_open_calls(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: RunId,
) -> Result<bool, StoreError> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
                  SELECT 1
                    FROM tool_call
                   WHERE tenant_id = $1
                     AND run_id = $2
                     AND state <> 'ended') AS "open!""#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_one(tx)
    .await
    .map_err(StoreError::of_read)
}

async fn request(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: RunId,
    wish: Wish,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE run
            SET cancel_requested_at = CASE WHEN $3 THEN coalesce(cancel_requested_at, $4)
                                           ELSE cancel_requested_at END,
                interrupt_requested_at = CASE WHEN $3 THEN interrupt_requested_at
                                              ELSE coalesce(interrupt_requested_at, $4) END,
                -- A run that waits does not see a wish unless a worker takes it.
                status = CASE WHEN status = 'requires_action' THEN 'queued' ELSE status END,
                wake_at = NULL,
                available_at = least(available_at, now())
          WHERE tenant_id = $1
            AND run_id = $2",
        tenant.as_str(),
        id.uuid(),
        wish == Wish::Cancel,
        now
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

async fn set_status(
    tx: &mut PgConnection,
    tenant: &TenantId,
    run: &Run,
    resumed: bool,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE run
            SET status = $3,
                finished_at = $4,
                resumed = $5,
                requires_action = NULL,
                interrupt_requested_at = NULL,
                available_at = now(),
                claims_since_progress = 0,
                next_event_seq = next_event_seq + 1
          WHERE tenant_id = $1
            AND run_id = $2",
        tenant.as_str(),
        run.id.uuid(),
        run.facts.status.label(),
        run.facts.finished_at,
        resumed
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}
