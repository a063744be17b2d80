//! Messages to runs that are under way: added by callers, and taken by the append that begins a turn.

use chrono::{DateTime, Utc};

use super::rows::At;
use super::{Store, StoreError};
use crate::domain::id::{RunId, TenantId};
use crate::domain::run::RunStatus;
use crate::domain::run_message::{RunMessage, Voice, WAITING_PER_RUN};

/// A message as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// The message.
    pub message: RunMessage,
    /// `seq` of the step that it has become; `None` while it waits.
    pub step_seq: Option<i64>,
}

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
                AND status IN ('queued', 'running', 'interrupted')
                -- An interrupted run has another turn before it even then.
                AND (NOT closing OR status = 'interrupted')
                AND n_messages - n_messages_taken < $3
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
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_write)?;
    let Some(number) = number else { return why_not(store, tenant, run_id).await };
    let at = At { table: "run_message", id: &run_id };
    let number = at.count("number", number)?;
    Ok(Added::Waits(RunMessage { run_id, number, voice, text, created_at: now }))
}

/// Why a run took no message.
async fn why_not(store: &Store, tenant: &TenantId, id: RunId) -> Result<Added, StoreError> {
    let row = sqlx::query!(
        "SELECT status, closing
           FROM run
          WHERE tenant_id = $1
            AND run_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let Some(row) = row else { return Ok(Added::NoSuchRun) };
    let status = At { table: "run", id: &id }.label("status", &row.status)?;
    Ok(match status {
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => Added::Ended(status),
        RunStatus::Queued | RunStatus::Running if row.closing => Added::Closing(status),
        RunStatus::Queued | RunStatus::Running | RunStatus::Interrupted => Added::Full,
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
    let found = of_run(store, tenant, id, after).await?;
    Ok(found.into_iter().map(|stored| stored.message).collect())
}

/// The messages of a run that have a number after this one, in order.
pub(super) async fn of_run(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    after: u32,
) -> Result<Vec<StoredMessage>, StoreError> {
    let rows = sqlx::query!(
        "SELECT number, voice, text, created_at, step_seq
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
            let message = RunMessage {
                run_id: id,
                number: at.count("number", row.number)?,
                voice: at.label("voice", &row.voice)?,
                text: row.text,
                created_at: row.created_at,
            };
            Ok(StoredMessage { message, step_seq: row.step_seq })
        })
        .collect()
}
