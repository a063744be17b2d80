//! Answers to calls that wait for callers: given once, and taken by the worker of the run.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::rows::{At, to_json};
use super::{Store, StoreError, patience, runs};
use crate::domain::id::{CallId, KeyId, RunId, TenantId};
use crate::domain::run::{Run, RunStatus};
use crate::domain::wait::{CallAnswer, GivenAnswer, WaitReason};

/// What a caller answers to calls of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAnswers {
    /// What the calls wait for.
    pub reason: WaitReason,
    /// The answers, one a call.
    pub answers: Vec<(CallId, CallAnswer)>,
    /// Whether the same answer may be given again.
    pub may_repeat: bool,
    /// The key that they came with.
    pub key: Option<KeyId>,
    /// The moment.
    pub now: DateTime<Utc>,
}

/// How answers were received. None counts unless all do.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// They are on record and the run goes on, or they were before; the run stands like this.
    Taken(Run),
    /// There is no such run.
    NoSuchRun,
    /// The run has no such call.
    UnknownCall(CallId),
    /// The call was answered otherwise, or has ended.
    AlreadyAnswered(CallId),
    /// The call does not wait for that; the run stands like this.
    NotWaiting(Run),
}

/// Gives answers to calls that wait. The run is queued again when it waits for them.
///
/// Where it is not known whether the answers are on record, they are given again; those that are found to
/// be there from the try before count as taken.
///
/// # Errors
/// When the database does not take it.
pub async fn give(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    new: &NewAnswers,
) -> Result<Given, StoreError> {
    patience::settled(|is_repeated| try_give(store, tenant, id, (new, is_repeated))).await.answer
}

async fn try_give(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    (new, is_repeated): (&NewAnswers, bool),
) -> Result<Given, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    // Whoever comes second waits here, and finds the answer of the first.
    let Some((status, is_to_end)) = lock(&mut tx, tenant, id).await? else {
        return Ok(Given::NoSuchRun);
    };
    let mut n_new = 0;
    for (call_id, answer) in &new.answers {
        match give_one(&mut tx, tenant, id, (call_id, answer), (new, is_repeated)).await? {
            One::New => n_new += 1,
            One::Repeated => {}
            One::Unknown => return Ok(Given::UnknownCall(call_id.clone())),
            One::Answered => return Ok(Given::AlreadyAnswered(call_id.clone())),
            One::NotWaiting => {
                let run = runs::read(&mut *tx, tenant, id).await?;
                return Ok(run.map_or(Given::NoSuchRun, Given::NotWaiting));
            }
        }
    }
    if n_new > 0 && is_to_end && new.reason == WaitReason::Approval {
        // Nothing that is agreed to now would begin.
        let run = runs::read(&mut *tx, tenant, id).await?;
        return Ok(run.map_or(Given::NoSuchRun, Given::NotWaiting));
    }
    if n_new > 0 {
        wake(&mut tx, tenant, id, (n_new, status)).await?;
    }
    let run = runs::read(&mut *tx, tenant, id).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(run.map_or(Given::NoSuchRun, Given::Taken))
}

/// How a run stands, and whether it is to end.
async fn lock(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<(RunStatus, bool)>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT status, cancel_requested_at IS NOT NULL AS "is_to_end!"
             FROM run
            WHERE tenant_id = $1
              AND run_id = $2
              FOR UPDATE"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(tx)
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "run", id: &id };
    row.map(|row| Ok((at.label("status", &row.status)?, row.is_to_end))).transpose()
}

/// What became of one answer.
enum One {
    New,
    Repeated,
    Unknown,
    Answered,
    NotWaiting,
}

async fn give_one(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: RunId,
    (call_id, answer): (&CallId, &CallAnswer),
    (new, is_repeated): (&NewAnswers, bool),
) -> Result<One, StoreError> {
    let call = sqlx::query!(
        "SELECT waits_for, attempt
           FROM tool_call
          WHERE tenant_id = $1
            AND run_id = $2
            AND call_id = $3",
        tenant.as_str(),
        id.uuid(),
        call_id.as_str()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    let Some(call) = call else { return Ok(One::Unknown) };
    let before = last(tx, tenant, id, (call_id, new.reason)).await?;
    let waits = call.waits_for.as_deref() == Some(new.reason.label());
    match before {
        // A call that is in doubt once more, after it was sent again, is another question.
        Some(before) if waits && before.attempt < call.attempt => {}
        Some(before)
            if before.answer == *answer && (new.may_repeat || is_repeated && before.is_of(new)) =>
        {
            return Ok(One::Repeated);
        }
        Some(_) => return Ok(One::Answered),
        None if waits => {}
        None => return Ok(One::NotWaiting),
    }
    insert(tx, tenant, id, (call_id, call.attempt, answer), new).await?;
    Ok(One::New)
}

/// An answer on record.
struct Before {
    /// How often the call had been started then.
    attempt: i32,
    answer: CallAnswer,
    key: Option<KeyId>,
    given_at: DateTime<Utc>,
}

impl Before {
    /// Whether it is of the very request that is made again. The database keeps microseconds.
    fn is_of(&self, new: &NewAnswers) -> bool {
        self.key == new.key && self.given_at.timestamp_micros() == new.now.timestamp_micros()
    }
}

/// The last answer to a call.
async fn last(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: RunId,
    (call_id, reason): (&CallId, WaitReason),
) -> Result<Option<Before>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT attempt, answer::text AS "answer!", key_id, created_at
             FROM call_answer
            WHERE tenant_id = $1
              AND run_id = $2
              AND call_id = $3
              AND waits_for = $4
            ORDER BY attempt DESC
            LIMIT 1"#,
        tenant.as_str(),
        id.uuid(),
        call_id.as_str(),
        reason.label()
    )
    .fetch_optional(tx)
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "call_answer", id: call_id };
    row.map(|row| {
        Ok(Before {
            attempt: row.attempt,
            answer: at.json("answer", &row.answer)?,
            key: row.key_id.map(KeyId::from),
            given_at: row.created_at,
        })
    })
    .transpose()
}

async fn insert(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: RunId,
    (call_id, attempt, answer): (&CallId, i32, &CallAnswer),
    new: &NewAnswers,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO call_answer (tenant_id, run_id, call_id, waits_for, attempt, answer, key_id,
                                  created_at)
         VALUES ($1, $2, $3, $4, $5, ($6::text)::json, $7, $8)",
        tenant.as_str(),
        id.uuid(),
        call_id.as_str(),
        new.reason.label(),
        attempt,
        to_json(answer)?,
        new.key.map(KeyId::uuid),
        new.now
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Counts the answers, and lets a run go on that waits. What it waited for stays until a worker has
/// told that it goes on.
async fn wake(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: RunId,
    (n_new, status): (i32, RunStatus),
) -> Result<(), StoreError> {
    let goes_on = status == RunStatus::RequiresAction;
    sqlx::query!(
        "UPDATE run
            SET n_answers = n_answers + $3,
                status = CASE WHEN $4 THEN 'queued' ELSE status END,
                available_at = CASE WHEN $4 THEN now() ELSE available_at END,
                wake_at = NULL
          WHERE tenant_id = $1
            AND run_id = $2",
        tenant.as_str(),
        id.uuid(),
        n_new,
        goes_on
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// The last answer to each call of a run that waits.
pub(super) async fn of(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<Vec<GivenAnswer>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT a.call_id, a.waits_for, a.attempt, a.answer::text AS "answer!"
             FROM call_answer a
             JOIN tool_call c
               ON c.tenant_id = a.tenant_id
              AND c.run_id = a.run_id
              AND c.call_id = a.call_id
              AND c.waits_for = a.waits_for
              AND c.attempt = a.attempt
            WHERE a.tenant_id = $1
              AND a.run_id = $2"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    rows.into_iter()
        .map(|row| {
            let call_id = CallId(row.call_id);
            let at = At { table: "call_answer", id: &call_id };
            Ok(GivenAnswer {
                reason: at.label("waits_for", &row.waits_for)?,
                attempt: at.count("attempt", row.attempt)?,
                answer: at.json("answer", &row.answer)?,
                call_id: call_id.clone(),
            })
        })
        .collect()
}

/// All answers that were ever given in a run, and those to calls that wait for them.
///
/// # Errors
/// When the database does not answer.
pub async fn waiting(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<(u32, Vec<GivenAnswer>), StoreError> {
    let n_answers = sqlx::query_scalar!(
        "SELECT n_answers FROM run WHERE tenant_id = $1 AND run_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_one(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    // Those that come between the two reads are more than is counted, which only leads to a third.
    let answers = of(store, tenant, id).await?;
    Ok((At { table: "run", id: &id }.count("n_answers", n_answers)?, answers))
}

/// Queues runs again that have waited for as long as they may. Answers how many.
///
/// # Errors
/// When the database does not take it.
pub async fn wake_overdue(store: &Store) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "WITH overdue AS (
             SELECT tenant_id, run_id
               FROM run
              WHERE status = 'requires_action'
                AND wake_at <= now()
              ORDER BY wake_at
              LIMIT 100
                FOR UPDATE SKIP LOCKED
         )
         UPDATE run r
            SET status = 'queued', available_at = now(), wake_at = NULL
           FROM overdue o
          WHERE r.tenant_id = o.tenant_id
            AND r.run_id = o.run_id"
    )
    .execute(store.system().critical())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected())
}
