//! Messages to runs that are under way: added by callers, and taken by the append that begins a turn.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

use super::idempotency::{self, IdempotencyKey, Led};
use super::rows::At;
use super::{Store, StoreError, patience};
use crate::domain::id::{RunId, TenantId};
use crate::domain::run::RunStatus;
use crate::domain::run_message::{RunMessage, Voice, WAITING_PER_RUN};

/// How a message was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// It waits for the run's next turn.
    Waits(RunMessage),
    /// There is no such run.
    NoSuchRun,
    /// The run has ended like this.
    Ended(RunStatus),
    /// The run is in its closing turn, after which none follows.
    Closing(RunStatus),
    /// As many wait as may.
    Full,
}

/// Adds a message to a run that has a turn before it: one that is queued, running or interrupted, and
/// not in its closing turn.
///
/// # Errors
/// When the database does not take it.
pub async fn add(
    store: &Store,
    tenant: &TenantId,
    run_id: RunId,
    (voice, text, key): (Voice, String, Option<&IdempotencyKey>),
    now: DateTime<Utc>,
) -> Result<Added, StoreError> {
    let say = |is_repeated| {
        let said = (voice, text.clone());
        async move {
            if is_repeated && let Some(there) = find(store, tenant, run_id, (&said, now)).await? {
                return Ok(Added::Waits(there));
            }
            let Some(key) = key else {
                return try_add((store, store.api()), tenant, run_id, said, now).await;
            };
            let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
            let added = try_add((store, &mut *tx), tenant, run_id, said, now).await?;
            if let Added::Waits(message) = &added {
                let number = i32::try_from(message.number).ok();
                let led = Led { id: run_id.uuid(), number };
                idempotency::hold(&mut tx, tenant, Some(key), led).await?;
                tx.commit().await.map_err(StoreError::of_write)?;
            }
            Ok(added)
        }
    };
    patience::settled(say).await.answer
}

/// The message whose answer was lost, if it was added. The run's row lock is waited for: whoever holds
/// it may be adding it.
async fn find(
    store: &Store,
    tenant: &TenantId,
    run_id: RunId,
    ((voice, text), now): (&(Voice, String), DateTime<Utc>),
) -> Result<Option<RunMessage>, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    sqlx::query!(
        "SELECT 1 AS one FROM run WHERE tenant_id = $1 AND run_id = $2 FOR UPDATE",
        tenant.as_str(),
        run_id.uuid()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    let number = sqlx::query_scalar!(
        "SELECT number
           FROM run_message
          WHERE tenant_id = $1
            AND run_id = $2
            AND created_at = $3
            AND text = $4",
        tenant.as_str(),
        run_id.uuid(),
        now,
        text
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    let Some(number) = number else { return Ok(None) };
    let number = At { table: "run_message", id: &run_id }.count("number", number)?;
    Ok(Some(RunMessage { run_id, number, voice: *voice, text: text.clone(), created_at: now }))
}

async fn try_add(
    (store, executor): (&Store, impl PgExecutor<'_>),
    tenant: &TenantId,
    run_id: RunId,
    (voice, text): (Voice, String),
    now: DateTime<Utc>,
) -> Result<Added, StoreError> {
    let number = sqlx::query_scalar!(
        // The update waits for a worker's append and then reads the row anew, so that a message is
        // either known to whoever begins a turn or ends the run, or refused.
        "WITH counted AS (
             UPDATE run
                SET n_messages = n_messages + 1
              WHERE tenant_id = $1
                AND run_id = $2
                AND status IN ('queued', 'running', 'requires_action', 'interrupted')
                -- A run that is interrupted, or asked to go on, has another turn before it even then.
                AND (NOT closing OR resumed OR status = 'interrupted')
                AND n_messages - n_messages_taken < $3
                -- A run whose thread went on without it cannot be resumed any more.
                AND (status <> 'interrupted' OR enqueued_task IS NOT NULL OR NOT EXISTS (
                    SELECT
                      FROM step s
                     WHERE s.tenant_id = run.tenant_id
                       AND s.thread_id = run.thread_id
                       AND s.seq >= run.next_seq))
          RETURNING tenant_id, run_id, n_messages
         )
         INSERT INTO run_message (tenant_id, run_id, number, voice, text, created_at)
         SELECT tenant_id, run_id, n_messages, $4, $5, $6
           FROM counted
      RETURNING number",
        tenant.as_str(),
        run_id.uuid(),
        i32::try_from(WAITING_PER_RUN).unwrap_or(i32::MAX),
        voice.label(),
        text,
        now
    )
    .fetch_optional(executor)
    .await
    .map_err(StoreError::of_write)?;
    let Some(number) = number else { return why_not(store, tenant, run_id).await };
    let at = At { table: "run_message", id: &run_id };
    let number = at.count("number", number)?;
    Ok(Added::Waits(RunMessage { run_id, number, voice, text, created_at: now }))
}

/// A message of a run by its number.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    run_id: RunId,
    number: i32,
) -> Result<Option<RunMessage>, StoreError> {
    let row = sqlx::query!(
        "SELECT voice, text, created_at
           FROM run_message
          WHERE tenant_id = $1
            AND run_id = $2
            AND number = $3",
        tenant.as_str(),
        run_id.uuid(),
        number
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let Some(row) = row else { return Ok(None) };
    let at = At { table: "run_message", id: &run_id };
    Ok(Some(RunMessage {
        run_id,
        number: at.count("number", number)?,
        voice: at.label("voice", &row.voice)?,
        text: row.text,
        created_at: row.created_at,
    }))
}

/// Why a run took no message.
async fn why_not(store: &Store, tenant: &TenantId, id: RunId) -> Result<Added, StoreError> {
    let row = sqlx::query!(
        r#"SELECT status, closing, resumed, n_messages - n_messages_taken >= $3 AS "is_full!"
           FROM run
          WHERE tenant_id = $1
            AND run_id = $2"#,
        tenant.as_str(),
        id.uuid(),
        i32::try_from(WAITING_PER_RUN).unwrap_or(i32::MAX)
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let Some(row) = row else { return Ok(Added::NoSuchRun) };
    let status = At { table: "run", id: &id }.label("status", &row.status)?;
    Ok(match status {
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => Added::Ended(status),
        RunStatus::Interrupted if !row.is_full => Added::Ended(status),
        RunStatus::Queued | RunStatus::Running | RunStatus::RequiresAction
            if row.closing && !row.resumed =>
        {
            Added::Closing(status)
        }
        RunStatus::Queued
        | RunStatus::Running
        | RunStatus::RequiresAction
        | RunStatus::Interrupted => Added::Full,
    })
}

/// The messages of a run that have a number after this one and have not entered it yet, in order.
///
/// # Errors
/// When the database does not answer.
pub async fn waiting(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    after: u32,
) -> Result<Vec<RunMessage>, StoreError> {
    let rows = sqlx::query!(
        "SELECT number, voice, text, created_at
           FROM run_message
          WHERE tenant_id = $1
            AND run_id = $2
            AND number > $3
          ORDER BY number",
        tenant.as_str(),
        id.uuid(),
        i32::try_from(after).unwrap_or(i32::MAX)
    )
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "run_message", id: &id };
    rows.into_iter()
        .map(|row| {
            Ok(RunMessage {
                run_id: id,
                number: at.count("number", row.number)?,
                voice: at.label("voice", &row.voice)?,
                text: row.text,
                created_at: row.created_at,
            })
        })
        .collect()
}

/// The numbers of the messages that have entered a run, by `seq` of the step that they have become,
/// which holds their text.
pub(super) async fn heard(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<BTreeMap<i64, u32>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT number, step_seq AS "step_seq!"
             FROM run_message
            WHERE tenant_id = $1
              AND run_id = $2
              AND step_seq IS NOT NULL"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "run_message", id: &id };
    rows.into_iter().map(|row| Ok((row.step_seq, at.count("number", row.number)?))).collect()
}
