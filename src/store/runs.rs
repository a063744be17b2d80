//! Runs as callers see them: accepted, read, listed.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::types::PgInterval;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

pub use super::accept::accept;
use super::budget::{NewBudget, Sharing};
pub(super) use super::events::insert as insert_event;
use super::idempotency::{IdempotencyKey, interval};
use super::rows::{At, labels, to_json, to_json_opt};
use super::run_row::RunRow;
use super::{Store, StoreError, budget, idempotency, refusal, threads};
use crate::domain::agent::AgentSpec;
use crate::domain::budget::{BudgetOwner, BudgetPeriod};
use crate::domain::event::{EventData, EventName};
use crate::domain::id::{AgentId, KeyId, RunId, StepId, TenantId, ThreadId, WebhookId};
use crate::domain::limits::QUEUED_PER_TENANT;
use crate::domain::page::{ListFilter, Page, PageRequest};
use crate::domain::run::{Run, RunStatus};
use crate::domain::schedule::Firing;
use crate::domain::step::{InputPart, StepContent};
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
    /// How long the run may take, by the database's clock.
    pub timeout: Option<Duration>,
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
    /// Whether the price of every model that it may ask is known.
    pub is_priced: bool,
}

/// How a run was received.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    /// It is new.
    Created,
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
pub(super) async fn accept_once(
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
    if let Some(refusal) = refusal::of(&mut tx, tenant, new).await? {
        return Ok(refusal);
    }
    let task_seq = if let Some(thread) = &new.new_thread {
        threads::insert(&mut tx, tenant, thread).await?;
        1
    } else {
        let Some(thread) = threads::lock(&mut tx, tenant, new.run.thread_id).await? else {
            return Ok(Accepted::NoSuchThread);
        };
        threads::refuse_if_busy(&mut tx, tenant, thread.id).await?;
        if new.reset {
            start_memory_at(&mut tx, tenant, thread.id, thread.head_seq + 1).await?;
        }
        thread.head_seq + 1
    };
    if is_queue_full(&mut tx, tenant).await? {
        return Ok(Accepted::QueueFull);
    }
    let (key, thread) = (new.key, new.run.thread_id);
    let sharing = Sharing { key, agent: new.run.agent_id, thread };
    let shared = budget::shared(&mut tx, tenant, sharing).await?;
    if shared.is_used_up {
        return Ok(Accepted::BudgetExhausted);
    }
    if (shared.counts_cost || new.run.budget.cost.is_some()) && !new.is_priced {
        return Ok(Accepted::Unpriced);
    }
    insert(&mut tx, tenant, new, (task_seq, shared.any)).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Accepted::Created)
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

async fn start_memory_at(
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
    (task_seq, shares_budget): (i64, bool),
) -> Result<(), StoreError> {
    let run = &new.run;
    let own = Some(&run.budget).filter(|budget| !budget.is_empty());
    let is_budgeted = shares_budget || !run.budget.bounds().is_empty();
    sqlx::query!(
        "INSERT INTO run (tenant_id, run_id, thread_id, agent_id, agent_version, inline_agent, status,
                          max_steps, deadline_at, next_seq, next_event_seq, available_at, op_id,
                          metadata, created_at, webhook_id, memory_from, budgeted, budget, key_id)
         VALUES ($1, $2, $3, $4, $5, ($6::text)::json, 'queued', $7, now() + $8::interval, $9, 3, now(), $10,
                 ($11::text)::json, $12, $13,
                 (SELECT memory_from FROM thread WHERE tenant_id = $1 AND thread_id = $3), $14,
                 ($15::text)::json, $16)",
        tenant.as_str(),
        run.id.uuid(),
        run.thread_id.uuid(),
        run.agent_id.map(AgentId::uuid),
        run.agent_version,
        to_json_opt(new.inline_agent.as_ref())?,
        new.max_steps.map(|n| i32::try_from(n).unwrap_or(i32::MAX)),
        new.timeout.map(interval) as Option<PgInterval>,
        task_seq + 1,
        new.op_id,
        to_json(&run.metadata)?,
        run.created_at,
        new.webhook.map(WebhookId::uuid),
        is_budgeted,
        to_json_opt(own)?,
        new.key.map(KeyId::uuid)
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    if own.is_some() {
        let new = NewBudget { period: BudgetPeriod::Total, bounds: run.budget };
        budget::write(tx, tenant, BudgetOwner::Run(run.id), &new).await?;
    }
    sqlx::query!(
        "INSERT INTO step (tenant_id, thread_id, seq, step_id, run_id, turn, attempt, kind, op_id,
                           epoch, content, created_at)
         VALUES ($1, $2, $3, $4, $5, 0, 0, $6, $7, 0, ($8::text)::json, $9)",
        tenant.as_str(),
        run.thread_id.uuid(),
        task_seq,
        new.task.0.uuid(),
        run.id.uuid(),
        new.task.1.kind().label(),
        new.op_id,
        to_json(&new.task.1)?,
        run.created_at
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    let event = (EventName::RunCreated, EventData::Run(run.facts.clone()));
    insert_event(tx, tenant, (run.id, 1), &event, run.created_at).await?;
    let event = (EventName::StepRecorded, EventData::Step { step_seq: task_seq, turn: 0 });
    insert_event(tx, tenant, (run.id, 2), &event, run.created_at).await
}

/// A run.
///
/// # Errors
/// When the database does not answer.
pub async fn get(store: &Store, tenant: &TenantId, id: RunId) -> Result<Option<Run>, StoreError> {
    read(store.api(), tenant, id).await
}

pub(super) async fn read(
    executor: impl PgExecutor<'_>,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<Run>, StoreError> {
    sqlx::query_as!(
        RunRow,
        r#"SELECT run_id, thread_id, agent_id, agent_version, status, stop_reason, answer,
                  output::text AS output, failure::text AS failure,
                  requires_action::text AS requires_action, turn, attempt, n_steps,
                  usage_input, usage_output, usage_cache_read, usage_cache_write, usage_reasoning, cost,
                  budget::text AS budget,
                  redactions::text AS "redactions!", metadata::text AS "metadata!", created_at, started_at, finished_at
             FROM run
            WHERE tenant_id = $1
              AND run_id = $2"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(executor)
    .await
    .map_err(StoreError::of_read)?
    .map(Run::try_from)
    .transpose()
}

/// What a run was asked; `None` when there is no such run.
///
/// # Errors
/// When the database does not answer.
pub async fn input(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<Vec<InputPart>>, StoreError> {
    let content = sqlx::query_scalar!(
        r#"SELECT content::text AS "content!"
             FROM step
            WHERE tenant_id = $1
              AND run_id = $2
              AND kind = 'task'
            ORDER BY seq
            LIMIT 1"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "step", id: &id };
    match content.map(|content| at.json("content", &content)).transpose()? {
        Some(StepContent::Task(task)) => Ok(Some(task.parts)),
        Some(_) | None => Ok(None),
    }
}

/// Which runs are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only with this status.
    pub status: Option<RunStatus>,
    /// Only of this agent.
    pub agent: Option<AgentId>,
    /// Only on this thread.
    pub thread: Option<ThreadId>,
    /// What narrows every list.
    pub common: ListFilter,
}

/// The place of a run in a list: when it was created, and its id.
pub type RunKey = (DateTime<Utc>, RunId);

/// A tenant's runs, newest first.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    filter: &RunFilter,
    page: &PageRequest<RunKey>,
) -> Result<Page<Run, RunKey>, StoreError> {
    let after = page.after.as_ref();
    let (keys, values) = labels(&filter.common.metadata);
    let rows = sqlx::query_as!(
        RunRow,
        r#"SELECT run_id, thread_id, agent_id, agent_version, status, stop_reason, answer,
                  output::text AS output, failure::text AS failure,
                  requires_action::text AS requires_action, turn, attempt, n_steps,
                  usage_input, usage_output, usage_cache_read, usage_cache_write, usage_reasoning, cost,
                  budget::text AS budget,
                  redactions::text AS "redactions!", metadata::text AS "metadata!", created_at, started_at, finished_at
             FROM run
            WHERE tenant_id = $1
              AND ($2::timestamptz IS NULL OR (created_at, run_id) < ($2, $3::uuid))
              AND ($4::text IS NULL OR status = $4)
              AND ($5::uuid IS NULL OR agent_id = $5)
              AND ($6::uuid IS NULL OR thread_id = $6)
              AND ($7::timestamptz IS NULL OR created_at > $7)
              AND ($8::timestamptz IS NULL OR created_at < $8)
              AND NOT EXISTS (
                  SELECT 1 FROM unnest($9::text[], $10::text[]) AS wanted(key, value)
                   WHERE (metadata ->> wanted.key) IS DISTINCT FROM wanted.value)
            ORDER BY created_at DESC, run_id DESC
            LIMIT $11"#,
        tenant.as_str(),
        after.map(|key| key.0),
        after.map(|key| key.1.uuid()),
        filter.status.map(RunStatus::label),
        filter.agent.map(AgentId::uuid),
        filter.thread.map(ThreadId::uuid),
        filter.common.created_after,
        filter.common.created_before,
        &keys,
        &values,
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let runs: Result<Vec<Run>, _> = rows.into_iter().map(Run::try_from).collect();
    Ok(Page::of(runs?, page.limit, |run| (run.created_at, run.id)))
}
