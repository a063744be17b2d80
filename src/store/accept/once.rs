//! One try to accept a run (C0): what is on record before a caller is answered.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use crate::domain::agent::AgentSpec;
use crate::domain::budget::{BudgetOwner, BudgetPeriod};
use crate::domain::event::{EventData, EventName};
use crate::domain::format::RunFormat;
use crate::domain::id::{AgentId, KeyId, RunId, SkillId, StepId, TenantId, ThreadId, WebhookId};
use crate::domain::limits::QUEUED_PER_TENANT;
use crate::domain::run::{OnBusy, OnDisconnect, Run};
use crate::domain::schedule::Firing;
use crate::domain::step::StepContent;
use crate::domain::sub_run::Parent;
use crate::domain::thread::Thread;
use crate::store::budget::{NewBudget, Sharing};
use crate::store::idempotency::{IdempotencyKey, interval};
use crate::store::rows::{to_json, to_json_opt};
use crate::store::runs::{get, insert_event};
use crate::store::thread_queue::{self, Busy};
use crate::store::{Store, StoreError, budget, idempotency, refusal, skills, sub_runs, threads};

/// What a run is accepted with.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// The run as accepted.
    pub run: Run,
    /// The definition of an inline agent; `None` when the run names a stored one.
    pub inline_agent: Option<AgentSpec>,
    /// The versions of the agent's skills that it is pinned to.
    pub skills: Vec<(SkillId, i32)>,
    /// The thread, when the run starts a new one.
    pub new_thread: Option<Thread>,
    /// Whether a model is to see nothing of the thread's history.
    pub reset: bool,
    /// The run's own step limit.
    pub max_steps: Option<u32>,
    /// How long the run may take, by the database's clock.
    pub timeout: Option<Duration>,
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
    /// The endpoint that is told of it.
    pub webhook: Option<WebhookId>,
    /// The due time of the schedule that starts it.
    pub firing: Option<Firing>,
    /// The caller's key; `None` for the operator's own.
    pub key: Option<KeyId>,
    /// What a worker must know to go on with it.
    pub format: RunFormat,
    /// Whether the price of every model that it may ask is known.
    pub is_priced: bool,
}

/// How a run was received.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    /// It is new.
    Created,
    /// It is new and waits for its thread; so it was asked of the run that is active there.
    Enqueued(Option<RunId>),
    /// The same request was accepted before; this is its run.
    Replayed(Run),
    /// There is no such thread.
    NoSuchThread,
    /// The tenant has as many runs waiting as it may.
    QueueFull,
    /// There is no such endpoint.
    NoSuchWebhook,
    /// Somebody else has started a run for this due time, or the schedule was changed.
    NotDue,
    /// A budget that it shares is used up.
    BudgetExhausted,
    /// A budget counts money, and what the run costs is not known.
    Unpriced,
}

/// Accepts a run, unless the answer is lost.
pub(super) async fn accept(
    store: &Store,
    tenant: &TenantId,
    new: &NewRun,
) -> Result<Accepted, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    if let Some(key) = &new.idempotency
        && let Some(before) = idempotency::claim(&mut tx, tenant, key, new.run.id.uuid()).await?
    {
        drop(tx);
        let run = get(store, tenant, RunId::from(before)).await?;
        return Ok(run.map_or(Accepted::NoSuchThread, Accepted::Replayed));
    }
    if let Some(refusal) = refusal::of(&mut tx, tenant, new).await? {
        return Ok(refusal);
    }
    let Some(place) = place(&mut tx, tenant, new).await? else {
        return Ok(Accepted::NoSuchThread);
    };
    if is_queue_full(&mut tx, tenant).await? {
        return Ok(Accepted::QueueFull);
    }
    let shares_budget = match shared(&mut tx, tenant, new).await? {
        Ok(shares_budget) => shares_budget,
        Err(refusal) => return Ok(refusal),
    };
    insert(&mut tx, tenant, new, (&place, shares_budget)).await?;
    let accepted = match &place {
        Place::OnThread(task_seq) => {
            begin(&mut tx, tenant, new, *task_seq).await?;
            Accepted::Created
        }
        Place::InQueue(busy) => enqueue(&mut tx, tenant, new, busy).await?,
    };
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(accepted)
}

/// Accepts a sub-run on a thread of its own. Its parent was let in, so no queue is too full for it and no
/// budget too empty: it waits for room as its parent would.
pub(in crate::store) async fn accept_sub_run(
    tx: &mut PgConnection,
    tenant: &TenantId,
    new: &NewRun,
    is_budgeted: bool,
) -> Result<(), StoreError> {
    if let Some(thread) = &new.new_thread {
        threads::insert(tx, tenant, thread).await?;
    }
    let sharing = Sharing { key: new.key, agent: new.run.agent_id, thread: new.run.thread_id };
    let shares_budget = is_budgeted || budget::shared(tx, tenant, sharing).await?.any;
    insert(tx, tenant, new, (&Place::OnThread(1), shares_budget)).await?;
    begin(tx, tenant, new, 1).await
}

/// Where the task of a new run goes.
enum Place {
    /// On its thread, as the step with this `seq`.
    OnThread(i64),
    /// Into the run, until it is its turn: the thread is busy.
    InQueue(Busy),
}

/// Where the task of a new run goes, on a thread that is locked; `None` when there is no such thread.
async fn place(
    tx: &mut PgConnection,
    tenant: &TenantId,
    new: &NewRun,
) -> Result<Option<Place>, StoreError> {
    if let Some(thread) = &new.new_thread {
        threads::insert(tx, tenant, thread).await?;
        return Ok(Some(Place::OnThread(1)));
    }
    if new.on_busy.displaces() {
        sub_runs::lock_parents_on(&mut *tx, tenant, new.run.thread_id).await?;
    }
    let Some(thread) = threads::lock(&mut *tx, tenant, new.run.thread_id).await? else {
        return Ok(None);
    };
    if new.on_busy == OnBusy::Reject {
        threads::refuse_if_busy(&mut *tx, tenant, thread.id).await?;
    } else if let Some(busy) = thread_queue::look(&mut *tx, tenant, thread.id).await? {
        return Ok(Some(Place::InQueue(busy)));
    }
    // A worker appends without the lock of the thread. Only what is read after the thread was seen to be
    // free is sure to be its end.
    let Some(thread) = threads::lock(&mut *tx, tenant, thread.id).await? else { return Ok(None) };
    if new.reset {
        start_memory_at(tx, tenant, thread.id, thread.head_seq + 1).await?;
    }
    Ok(Some(Place::OnThread(thread.head_seq + 1)))
}

/// Whether a run shares budgets, or why it is refused for their sake.
async fn shared(
    tx: &mut PgConnection,
    tenant: &TenantId,
    new: &NewRun,
) -> Result<Result<bool, Accepted>, StoreError> {
    let sharing = Sharing { key: new.key, agent: new.run.agent_id, thread: new.run.thread_id };
    let shared = budget::shared(tx, tenant, sharing).await?;
    if shared.is_used_up {
        return Ok(Err(Accepted::BudgetExhausted));
    }
    if (shared.counts_cost || new.run.budget.cost.is_some()) && !new.is_priced {
        return Ok(Err(Accepted::Unpriced));
    }
    Ok(Ok(shared.any))
}

/// Puts the task of a run on its thread.
async fn begin(
    tx: &mut PgConnection,
    tenant: &TenantId,
    new: &NewRun,
    seq: i64,
) -> Result<(), StoreError> {
    let (run, thread, now) = (new.run.id, new.run.thread_id, new.run.created_at);
    let step = TaskStepOf { run, thread, seq, task: &new.task, op_id: new.op_id, now };
    insert_task(tx, tenant, &step, 2).await
}

/// Has a run wait for its thread, which is locked, or asks the active one to end for its sake.
async fn enqueue(
    tx: &mut PgConnection,
    tenant: &TenantId,
    new: &NewRun,
    busy: &Busy,
) -> Result<Accepted, StoreError> {
    let now = new.run.created_at;
    let displaced = thread_queue::displace(tx, tenant, (busy, new.on_busy), now).await?;
    thread_queue::admit(tx, tenant, new.run.thread_id, now).await?;
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

pub(in crate::store) async fn start_memory_at(
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

async fn insert(
    tx: &mut PgConnection,
    tenant: &TenantId,
    new: &NewRun,
    (place, shares_budget): (&Place, bool),
) -> Result<(), StoreError> {
    let run = &new.run;
    let (next_seq, next_event_seq, queue_place) = match place {
        Place::OnThread(task_seq) => (task_seq + 1, 3, None),
        // Where its steps begin is known when they do.
        Place::InQueue(busy) => (2, 2, Some(busy.place_of(new.on_busy))),
    };
    let waiting = (&new.task, new.reset);
    let own = Some(&run.budget).filter(|budget| !budget.is_empty());
    let parent = run.parent.as_ref();
    let ancestors = parent.map(Parent::ancestors).unwrap_or_default();
    let ancestors: Vec<Uuid> = ancestors.into_iter().map(RunId::uuid).collect();
    sqlx::query!(
        "INSERT INTO run (tenant_id, run_id, thread_id, agent_id, agent_version, inline_agent, status,
                          max_steps, deadline_at, next_seq, next_event_seq, available_at, op_id,
                          metadata, created_at, webhook_id, memory_from, budgeted, budget, key_id,
                          on_busy, on_disconnect, queue_place, enqueued_task, parent_run_id,
                          parent_call_id, ancestors, format, ancestor_owners)
         VALUES ($1, $2, $3, $4, $5, ($6::text)::json, 'queued', $7, now() + $8::interval, $9, $10,
                 CASE WHEN $20::bigint IS NULL THEN now() ELSE 'infinity' END, $11,
                 ($12::text)::json, $13, $14,
                 CASE WHEN $20 IS NULL
                      THEN (SELECT memory_from FROM thread WHERE tenant_id = $1 AND thread_id = $3) END,
                 $15, ($16::text)::json, $17, $18, $19, $20, ($21::text)::json, $22, $23, $24, $25,
                 coalesce((SELECT array_remove(ancestor_owners || thread_id || agent_id, NULL)
                             FROM run
                            WHERE tenant_id = $1 AND run_id = $22), '{}'))",
        tenant.as_str(),
        run.id.uuid(),
        run.thread_id.uuid(),
        run.agent_id.map(AgentId::uuid),
        run.agent_version,
        to_json_opt(new.inline_agent.as_ref())?,
        new.max_steps.map(|n| i32::try_from(n).unwrap_or(i32::MAX)),
        new.timeout.map(interval) as Option<PgInterval>,
        next_seq,
        next_event_seq,
        new.op_id,
        to_json(&run.metadata)?,
        run.created_at,
        new.webhook.map(WebhookId::uuid),
        shares_budget || !run.budget.bounds().is_empty(),
        to_json_opt(own)?,
        new.key.map(KeyId::uuid),
        new.on_busy.label(),
        new.on_disconnect.label(),
        queue_place,
        to_json_opt(queue_place.map(|_| &waiting))?,
        parent.map(|parent| parent.run.uuid()),
        parent.map(|parent| parent.call.0.as_str()),
        &ancestors,
        // What a worker must know to end it: that its parent is to be told.
        parent.map_or(new.format, |_| new.format.max(RunFormat::Family)).number()
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    write_budget(tx, tenant, run).await?;
    skills::pin(&mut *tx, tenant, run.id, &new.skills).await?;
    let event = (EventName::RunCreated, EventData::Run(run.facts.clone()));
    insert_event(tx, tenant, (run.id, 1), &event, run.created_at).await
}

/// Writes the budget that a run brings, if it does.
async fn write_budget(
    tx: &mut PgConnection,
    tenant: &TenantId,
    run: &Run,
) -> Result<(), StoreError> {
    if run.budget.is_empty() {
        return Ok(());
    }
    let new = NewBudget { period: BudgetPeriod::Total, bounds: run.budget };
    budget::write(tx, tenant, BudgetOwner::Run(run.id), &new).await
}

/// A task that becomes a step.
pub(in crate::store) struct TaskStepOf<'a> {
    /// The run.
    pub(in crate::store) run: RunId,
    /// Its thread, which is locked.
    pub(in crate::store) thread: ThreadId,
    /// Its place there.
    pub(in crate::store) seq: i64,
    /// Its id and what it says.
    pub(in crate::store) task: &'a (StepId, StepContent),
    /// Marks the write.
    pub(in crate::store) op_id: Uuid,
    /// The moment.
    pub(in crate::store) now: DateTime<Utc>,
}

/// Appends the task of a run to its thread, and tells of it by the event with this `seq`.
pub(in crate::store) async fn insert_task(
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
