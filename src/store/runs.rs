//! Runs as callers see them: read, listed.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

pub use super::accept::{Accepted, NewRun, accept};
pub(super) use super::events::insert as insert_event;
use super::rows::{At, labels};
use super::run_row::RunRow;
use super::thread_queue::WaitingTask;
use super::{Store, StoreError};
use crate::domain::id::{AgentId, RunId, TenantId, ThreadId};
use crate::domain::page::{ListFilter, Page, PageRequest};
use crate::domain::run::{OnDisconnect, Run, RunStatus};
use crate::domain::step::{InputPart, StepContent};

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
        r#"SELECT run_id, thread_id, agent_id, agent_version, parent_call_id, ancestors, status, stop_reason, answer,
                  output::text AS output, failure::text AS failure,
                  requires_action::text AS requires_action, stopped::text AS stopped, turn, attempt, n_steps,
                  usage_input, usage_output, usage_cache_read, usage_cache_write, usage_reasoning, cost,
                  budget::text AS budget,
                  redactions::text AS "redactions!", unavailable_servers::text AS unavailable_servers,
                  metadata::text AS "metadata!", created_at, started_at, finished_at
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
    let content = match content {
        Some(content) => Some(at.json("content", &content)?),
        None => waiting_task(store, tenant, id).await?.map(|((_, content), _)| content),
    };
    Ok(content.and_then(|content| match content {
        StepContent::Task(task) => Some(task.parts),
        _ => None,
    }))
}

/// The task of a run that waits for its thread, or ended before it was its turn.
async fn waiting_task(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<WaitingTask>, StoreError> {
    let task = sqlx::query_scalar!(
        "SELECT enqueued_task::text AS task
           FROM run
          WHERE tenant_id = $1
            AND run_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "run", id: &id };
    at.json_opt("enqueued_task", task.flatten().as_deref())
}

/// What becomes of a run when its client goes away; `None` when there is no such run.
///
/// # Errors
/// When the database does not answer.
pub async fn on_disconnect(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<OnDisconnect>, StoreError> {
    let policy = sqlx::query_scalar!(
        "SELECT on_disconnect FROM run WHERE tenant_id = $1 AND run_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.critical())
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "run", id: &id };
    at.label_opt("on_disconnect", policy.as_deref())
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
    /// Only sub-runs of this run.
    pub parent: Option<RunId>,
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
        r#"SELECT run_id, thread_id, agent_id, agent_version, parent_call_id, ancestors, status, stop_reason, answer,
                  output::text AS output, failure::text AS failure,
                  requires_action::text AS requires_action, stopped::text AS stopped, turn, attempt, n_steps,
                  usage_input, usage_output, usage_cache_read, usage_cache_write, usage_reasoning, cost,
                  budget::text AS budget,
                  redactions::text AS "redactions!", unavailable_servers::text AS unavailable_servers,
                  metadata::text AS "metadata!", created_at, started_at, finished_at
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
              AND ($11::uuid IS NULL OR parent_run_id = $11)
            ORDER BY created_at DESC, run_id DESC
            LIMIT $12"#,
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
        filter.parent.map(RunId::uuid),
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let runs: Result<Vec<Run>, _> = rows.into_iter().map(Run::try_from).collect();
    Ok(Page::of(runs?, page.limit, |run| (run.created_at, run.id)))
}
