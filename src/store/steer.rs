//! How callers steer runs: cancel, interrupt, resume.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::rows::to_json_opt;
use super::runs::{insert_event, read};
use super::{Conflict, Store, StoreError, budget, patience, sub_runs, thread_queue, threads};
use crate::domain::event::{EventData, EventName};
use crate::domain::id::{RunId, TenantId};
use crate::domain::run::{Run, RunFailure, RunStatus, Stopped};
use crate::domain::thread::Thread;

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
    steer(store, tenant, id, &Wish::Cancel, now).await
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
    steer(store, tenant, id, &Wish::Interrupt, now).await
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
    steer(store, tenant, id, &Wish::Resume, now).await
}

/// Ends a run whose time was over before it was its turn on its thread. Any other is left alone.
///
/// # Errors
/// When the database does not take it.
pub async fn time_out(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    failure: RunFailure,
    now: DateTime<Utc>,
) -> Result<Steered, StoreError> {
    steer(store, tenant, id, &Wish::TimeOut(Box::new(failure)), now).await
}

/// What is wished of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// To end.
    Cancel,
    /// To stop at the next boundary.
    Interrupt,
    /// To go on.
    Resume,
    /// To end if it still waits for its thread.
    TimeOut(Box<RunFailure>),
}

impl Wish {
    /// Whether a run stands as it does when the wish has come true.
    const fn is_true_of(&self, status: RunStatus) -> bool {
        match self {
            Self::Cancel => matches!(status, RunStatus::Cancelled),
            Self::Interrupt => matches!(status, RunStatus::Interrupted),
            Self::Resume => matches!(status, RunStatus::Queued | RunStatus::Running),
            Self::TimeOut(_) => matches!(status, RunStatus::Failed),
        }
    }
}

async fn steer(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    wish: &Wish,
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
    wish: &Wish,
    now: DateTime<Utc>,
) -> Result<Steered, StoreError> {
    // Nothing of this stands behind the API's other callers.
    let mut tx = store.critical().begin().await.map_err(StoreError::of_read)?;
    let Some(run) = read(&mut *tx, tenant, id).await? else { return Ok(Steered::NoSuchRun) };
    let thread = run.thread_id;
    if let Some(parent) = &run.parent {
        sub_runs::lock_parent(&mut tx, tenant, parent).await?;
    }
    // Locks are taken in one order everywhere: the parent, the thread, then the run.
    let on = threads::lock(&mut tx, tenant, thread).await?;
    let Some(locked) = lock(&mut tx, tenant, id).await? else { return Ok(Steered::NoSuchRun) };
    if *wish == Wish::Resume && locked.0.facts.status == RunStatus::Interrupted {
        threads::refuse_if_busy(&mut tx, tenant, thread).await?;
        let last = locked.1.seq - 1;
        let goes_on = |on: Thread| on.head_seq == last && on.memory_from <= last;
        if !locked.1.is_enqueued && !on.is_some_and(goes_on) {
            return Err(StoreError::Conflict(Conflict::Stale));
        }
    }
    let steered = carry_out(&mut tx, tenant, locked, wish, now).await?;
    if matches!(steered, Steered::Done(_)) {
        // The thread may be free now, or this be the run that it is free for.
        thread_queue::admit(&mut tx, tenant, thread, now).await?;
    }
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(steered)
}

/// Does what is wished of a run that is locked, as its thread is, or leaves it to a worker.
pub(super) async fn carry_out(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (mut run, next): (Run, Next),
    wish: &Wish,
    now: DateTime<Utc>,
) -> Result<Steered, StoreError> {
    // Open calls are closed by the machine, so a run that was given back with some needs a worker.
    let needs_worker = match run.facts.status {
        RunStatus::Running | RunStatus::RequiresAction => true,
        RunStatus::Queued => {
            has_open_calls(tx, tenant, run.id).await? || budget::holds(tx, tenant, run.id).await?
        }
        _ => false,
    };
    if needs_worker && matches!(wish, Wish::Cancel | Wish::Interrupt) {
        request(tx, tenant, run.id, *wish == Wish::Cancel, now).await?;
        return Ok(Steered::Requested(run));
    }
    let event = match (wish, run.facts.status) {
        (Wish::Cancel, RunStatus::Queued) => EventName::RunCancelled,
        (Wish::Interrupt, RunStatus::Queued) => EventName::RunInterrupted,
        (Wish::TimeOut(_), RunStatus::Queued) if next.is_enqueued => EventName::RunFailed,
        (Wish::Resume, RunStatus::Interrupted) => EventName::RunResumed,
        _ => return Ok(Steered::Refused(run)),
    };
    let facts = &mut run.facts;
    (facts.status, facts.finished_at) = match event {
        EventName::RunCancelled => (RunStatus::Cancelled, Some(now)),
        EventName::RunInterrupted => (RunStatus::Interrupted, Some(now)),
        EventName::RunFailed => (RunStatus::Failed, Some(now)),
        _ => (RunStatus::Queued, None),
    };
    // What it waited for may still be there until a worker tells that it goes on.
    facts.requires_action = None;
    if let Wish::TimeOut(failure) = wish {
        facts.failure = Some((**failure).clone());
    }
    if *wish == Wish::Cancel {
        // Nobody is at it, but it may have been given back in the middle of a turn.
        let is_open = next.has_open_turn;
        let turns_aborted = is_open.then_some(facts.turn).into_iter().collect();
        facts.stopped = Some(Stopped { turns_aborted, ..Stopped::default() });
    }
    // A run that no worker ever had begins as any other does.
    let goes_on = event == EventName::RunResumed && run.facts.started_at.is_some();
    set_status(tx, tenant, &run, goes_on).await?;
    let data = (event, EventData::Run(run.facts.clone()));
    insert_event(tx, tenant, (run.id, next.event_seq), &data, now).await?;
    if let Some(parent) = &run.parent {
        sub_runs::answer(tx, tenant, parent, (&run.facts, now)).await?;
    }
    Ok(Steered::Done(run))
}

/// What the next append to a run must be, and what its row says beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    seq: i64,
    event_seq: i64,
    /// Whether it waits for its thread, or ended before it was its turn.
    is_enqueued: bool,
    /// Whether a turn began that has no reply yet.
    has_open_turn: bool,
}

pub(super) async fn lock(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<(Run, Next)>, StoreError> {
    let next = sqlx::query!(
        r#"SELECT next_seq, next_event_seq, enqueued_task IS NOT NULL AS "is_enqueued!",
                  turn > 0 AND NOT resumed AND NOT EXISTS (
                      SELECT
                        FROM step s
                       WHERE s.tenant_id = run.tenant_id
                         AND s.run_id = run.run_id
                         AND s.kind = 'action'
                         AND s.turn = run.turn) AS "has_open_turn!"
             FROM run
            WHERE tenant_id = $1
              AND run_id = $2
              FOR UPDATE"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    let Some(next) = next else { return Ok(None) };
    let run = read(&mut *tx, tenant, id).await?;
    let next = Next {
        seq: next.next_seq,
        event_seq: next.next_event_seq,
        is_enqueued: next.is_enqueued,
        has_open_turn: next.has_open_turn,
    };
    Ok(run.map(|run| (run, next)))
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
    is_cancel: bool,
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
        is_cancel,
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
                interrupt_requested_at = NULL,
                -- A run that waits for its thread is let on, and only then to be claimed.
                available_at = CASE WHEN enqueued_task IS NULL THEN now() ELSE 'infinity' END,
                claims_since_progress = 0,
                requires_action = NULL,
                failure = ($6::text)::json,
                stopped = ($7::text)::json,
                next_event_seq = next_event_seq + 1
          WHERE tenant_id = $1
            AND run_id = $2",
        tenant.as_str(),
        run.id.uuid(),
        run.facts.status.label(),
        run.facts.finished_at,
        resumed,
        to_json_opt(run.facts.failure.as_ref())?,
        to_json_opt(run.facts.stopped.as_ref())?
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}
