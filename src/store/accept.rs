//! Accepting runs (C0): what is on record before a caller is answered.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::idempotency::IdempotencyKey;
use super::rows::{to_json, to_json_opt};
use super::runs::{get, insert_event};
use super::thread_queue::{self, Busy, Displaced};
use super::{Store, StoreError, idempotency, threads};
use crate::domain::agent::AgentSpec;
use crate::domain::event::{EventData, EventName};
use crate::domain::id::{AgentId, RunId, StepId, TenantId, ThreadId};
use crate::domain::limits::QUEUED_PER_TENANT;
use crate::domain::run::{OnBusy, OnDisconnect, Run};
use crate::domain::step::StepContent;
use crate::domain::thread::Thread;

/// What a run is accepted with.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// The run as accepted.
    pub run: Run,
    /// The definition of an inline agent; `None` when the run names a stored one.
    pub inline_agent: Option<AgentSpec>,
    /// The thread, when the run starts a new one.
    pub new_thread: Option<Thread>,
    /// Whether a model is to see nothing of the thread's history.
    pub reset: bool,
    /// The run's own step limit.
    pub max_steps: Option<u32>,
    /// When the run must have ended.
    pub deadline_at: Option<DateTime<Utc>>,
    /// What is done when the thread has an active run.
    pub on_busy: OnBusy,
    /// What becomes of it when its client goes away.
    pub on_disconnect: OnDisconnect,
    /// The task step's id and content.
    pub task: (StepId, StepContent),
    /// Marks the write.
    pub op_id: Uuid,
    /// The key the request came with.
    pub idempotency: Option<IdempotencyKey>,
}

/// How a run was received.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    /// It is new.
    Created,
    /// It is new and waits for its thread; so it was asked of the run that is active there.
    Enqueued(Option<Displaced>),
    /// The same request was accepted before; this is its run.
    Replayed(Run),
    /// There is no such thread.
    NoSuchThread,
    /// The tenant has as many runs waiting as it may.
    QueueFull,
}

/// Accepts a run (C0): idempotency key, run, task step and first event in one transaction.
///
/// # Errors
/// [`super::Conflict::ThreadBusy`], [`super::Conflict::IdTaken`] and
/// [`super::Conflict::IdempotencyKeyReused`].
pub async fn accept(
    store: &Store,
    tenant: &TenantId,
    new: &NewRun,
) -> Result<Accepted, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    if let Some(key) = &new.idempotency
        && let Some(before) = idempotency::claim(&mut tx, tenant, key, new.run.id.uuid()).await?
    {
        drop(tx);
        let run = get(store, tenant, before).await?;
        return Ok(run.map_or(Accepted::NoSuchThread, Accepted::Replayed));
    }
    let task_seq = if let Some(thread) = &new.new_thread {
        threads::insert(&mut tx, tenant, thread).await?;
        1
    } else {
        let Some(thread) = threads::lock(&mut tx, tenant, new.run.thread_id).await? else {
            return Ok(Accepted::NoSuchThread);
        };
        if new.on_busy == OnBusy::Reject {
            threads::refuse_if_busy(&mut tx, tenant, thread.id).await?;
        } else if let Some(busy) = thread_queue::look(&mut tx, tenant, thread.id).await? {
            return enqueue(tx, tenant, new, &busy).await;
        }
        if new.reset {
            start_memory_at(&mut tx, tenant, thread.id, thread.head_seq + 1).await?;
        }
        thread.head_seq + 1
    };
    if is_queue_full(&mut tx, tenant).await? {
        return Ok(Accepted::QueueFull);
    }
    insert(&mut tx, tenant, new, Place::OnThread(task_seq)).await?;
    let (run, thread, now) = (new.run.id, new.run.thread_id, new.run.created_at);
    let step = TaskStepOf { run, thread, seq: task_seq, task: &new.task, op_id: new.op_id, now };
    insert_task(&mut tx, tenant, &step, 2).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Accepted::Created)
}

/// Accepts a run that waits for its thread, which is locked.
async fn enqueue(
    mut tx: Transaction<'_, Postgres>,
    tenant: &TenantId,
    new: &NewRun,
    busy: &Busy,
) -> Result<Accepted, StoreError> {
    if is_queue_full(&mut tx, tenant).await? {
        return Ok(Accepted::QueueFull);
    }
    let place = busy.place_of(new.on_busy);
    insert(&mut tx, tenant, new, Place::InQueue(place)).await?;
    let now = new.run.created_at;
    let displaced = thread_queue::displace(&mut tx, tenant, (busy, new.on_busy), now).await?;
    thread_queue::admit(&mut tx, tenant, new.run.thread_id, now).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Accepted::Enqueued(displaced))
}

async fn is_queue_full(tx: &mut PgConnection, tenant: &TenantId) -> Result<bool, StoreError> {
    let limit = i64::from(QUEUED_PER_TENANT);
    let n_queued = sqlx::query_scalar!(
        r#"SELECT count(*) AS "n!"
             FROM (SELECT FROM run
                    WHERE tenant_id = $1
                      AND status = 'queued'
                    LIMIT $2) AS waiting"#,
        tenant.as_str(),
        limit
    )
    .fetch_one(tx)
    .await
    .map_err(StoreError::of_read)?;
    Ok(n_queued >= limit)
}

pub(super) async fn start_memory_at(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
    seq: i64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE thread
            SET memory_from = $3, revision = revision + 1
          WHERE tenant_id = $1
            AND thread_id = $2",
        tenant.as_str(),
        thread.uuid(),
        seq
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Where the task of a new run goes.
enum Place {
    /// On its thread, as the step with this `seq`.
    OnThread(i64),
    /// Into the run, until it is its turn, which is this one.
    InQueue(i64),
}

async fn insert(
    tx: &mut PgConnection,
    tenant: &TenantId,
    new: &NewRun,
    place: Place,
) -> Result<(), StoreError> {
    let run = &new.run;
    let (next_seq, next_event_seq, queue_place) = match place {
        Place::OnThread(task_seq) => (task_seq + 1, 3, None),
        // Where its steps begin is known when they do.
        Place::InQueue(place) => (2, 2, Some(place)),
    };
    let waiting = (&new.task, new.reset);
    sqlx::query!(
        "INSERT INTO run (tenant_id, run_id, thread_id, agent_id, agent_version, inline_agent, status,
                          max_steps, deadline_at, next_seq, next_event_seq, available_at, op_id,
                          metadata, created_at, on_busy, on_disconnect, queue_place, enqueued_task)
         VALUES ($1, $2, $3, $4, $5, ($6::text)::json, 'queued', $7, $8, $9, $10,
                 CASE WHEN $15::bigint IS NULL THEN now() ELSE 'infinity' END, $11,
                 ($12::text)::json, $13, $14, $16, $15, ($17::text)::json)",
        tenant.as_str(),
        run.id.uuid(),
        run.thread_id.uuid(),
        run.agent_id.map(AgentId::uuid),
        run.agent_version,
        to_json_opt(new.inline_agent.as_ref())?,
        new.max_steps.map(|n| i32::try_from(n).unwrap_or(i32::MAX)),
        new.deadline_at,
        next_seq,
        next_event_seq,
        new.op_id,
        to_json(&run.metadata)?,
        run.created_at,
        new.on_busy.label(),
        queue_place,
        new.on_disconnect.label(),
        to_json_opt(queue_place.map(|_| &waiting))?
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    let event = (EventName::RunCreated, EventData::Run(run.facts.clone()));
    insert_event(tx, tenant, (run.id, 1), &event, run.created_at).await
}

/// A task that becomes a step.
pub(super) struct TaskStepOf<'a> {
    /// The run.
    pub(super) run: RunId,
    /// Its thread, which is locked.
    pub(super) thread: ThreadId,
    /// Its place there.
    pub(super) seq: i64,
    /// Its id and what it says.
    pub(super) task: &'a (StepId, StepContent),
    /// Marks the write.
    pub(super) op_id: Uuid,
    /// The moment.
    pub(super) now: DateTime<Utc>,
}

/// Appends the task of a run to its thread, and tells of it by the event with this `seq`.
pub(super) async fn insert_task(
    tx: &mut PgConnection,
    tenant: &TenantId,
    step: &TaskStepOf<'_>,
    event_seq: i64,
) -> Result<(), StoreError> {
    let (id, content) = step.task;
    sqlx::query!(
        "INSERT INTO step (tenant_id, thread_id, seq, step_id, run_id, turn, attempt, kind, op_id,
                           epoch, content, created_at)
         VALUES ($1, $2, $3, $4, $5, 0, 0, $6, $7, 0, ($8::text)::json, $9)",
        tenant.as_str(),
        step.thread.uuid(),
        step.seq,
        id.uuid(),
        step.run.uuid(),
        content.kind().label(),
        step.op_id,
        to_json(content)?,
        step.now
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    let event = (EventName::StepRecorded, EventData::Step { step_seq: step.seq, turn: 0 });
    insert_event(tx, tenant, (step.run, event_seq), &event, step.now).await
}
