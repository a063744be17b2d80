//! Reading what is known of requests, without their bytes.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::TABLE;
use crate::domain::id::{RequestId, RunId, TenantId, ThreadId};
use crate::domain::ledger::{LedgerEntry, Purpose};
use crate::domain::model::Provider;
use crate::domain::page::{Page, PageRequest};
use crate::domain::step::{Step, StepContent};
use crate::store::rows::At;
use crate::store::steps::body_hash;
use crate::store::{Store, StoreError};

struct EntryRow {
    request_id: Uuid,
    thread_id: Uuid,
    run_id: Option<Uuid>,
    step_seq: Option<i64>,
    turn: i32,
    attempt: i32,
    purpose: String,
    provider: Option<String>,
    endpoint: Option<String>,
    header_names: Option<String>,
    profile: Option<String>,
    renderer: Option<i32>,
    sent_at: Option<DateTime<Utc>>,
    first_byte_ms: Option<i64>,
    took_ms: Option<i64>,
    status: Option<i32>,
    outcome: String,
    error: Option<String>,
    response_type: Option<String>,
    sha256: Option<Vec<u8>>,
    bytes: Option<i64>,
    is_kept: bool,
}

impl TryFrom<EntryRow> for LedgerEntry {
    type Error = StoreError;

    fn try_from(row: EntryRow) -> Result<Self, StoreError> {
        let id = RequestId::from(row.request_id);
        let at = At { table: TABLE, id: &id };
        let names = at.json_opt("header_names", row.header_names.as_deref())?;
        let count = |column, n: Option<i64>| n.map(|n| at.count(column, n)).transpose();
        Ok(Self {
            id,
            thread_id: ThreadId::from(row.thread_id),
            run_id: row.run_id.map(RunId::from),
            step_seq: row.step_seq,
            turn: at.count("turn", row.turn)?,
            attempt: at.count("attempt", row.attempt)?,
            purpose: at.label("purpose", &row.purpose)?,
            provider: at.label_opt("provider", row.provider.as_deref())?,
            endpoint: row.endpoint,
            header_names: names.unwrap_or_default(),
            profile: at.json_opt("profile", row.profile.as_deref())?,
            renderer: row.renderer.map(|n| at.count("renderer", n)).transpose()?,
            sha256: row.sha256.map(|sha256| body_hash(&at, &sha256)).transpose()?,
            bytes: count("bytes", row.bytes)?,
            is_kept: row.is_kept,
            sent_at: row.sent_at,
            first_byte_ms: count("first_byte_ms", row.first_byte_ms)?,
            took_ms: count("took_ms", row.took_ms)?,
            status: row.status.map(|status| at.count("status", status)).transpose()?,
            outcome: at.label("outcome", &row.outcome)?,
            error: at.label_opt("error", row.error.as_deref())?,
            response_type: row.response_type,
        })
    }
}

/// Entries of the ledger by a condition. The tenant is the first parameter of each.
macro_rules! entries {
    ($store:expr, $condition:tt, $tenant:expr $(, $value:expr)*) => {
        sqlx::query_as!(
            EntryRow,
            r#"SELECT request_id, thread_id, run_id, step_seq, turn, attempt, purpose, provider,
                      endpoint, header_names::text AS header_names, profile::text AS profile, renderer,
                      sent_at, first_byte_ms, took_ms, status, outcome, error, response_type, sha256,
                      bytes, head IS NOT NULL AS "is_kept!"
                 FROM model_request
                WHERE tenant_id = $1
                  AND "# + $condition,
            $tenant.as_str()
            $(, $value)*
        )
        .fetch_all($store.api())
        .await
        .map_err(StoreError::of_read)?
        .into_iter()
        .map(LedgerEntry::try_from)
    };
}

/// A request by its id.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    id: RequestId,
) -> Result<Option<LedgerEntry>, StoreError> {
    entries!(store, "request_id = $2", tenant, id.uuid()).next().transpose()
}

/// A place in the list of a run's requests: turn, attempt and id.
pub type RunKey = (i32, i32, Uuid);

/// A page of a run's requests, in the order in which they were sent.
///
/// # Errors
/// When the database does not answer.
pub async fn of_run(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
    page: &PageRequest<RunKey>,
) -> Result<Page<LedgerEntry, RunKey>, StoreError> {
    // A summary is sent within the attempt at the turn that waits for it, and so has the smaller id.
    let (turn, attempt, id) = page.after.unwrap_or((-1, 0, Uuid::nil()));
    let entries: Result<Vec<LedgerEntry>, StoreError> = entries!(
        store,
        "run_id = $2
         AND (turn, attempt, request_id) > ($3, $4, $5::uuid)
       ORDER BY turn, attempt, request_id
       LIMIT $6",
        tenant,
        run.uuid(),
        turn,
        attempt,
        id,
        i64::from(page.limit) + 1
    )
    .collect();
    Ok(Page::of(entries?, page.limit, |entry| {
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        (number(entry.turn), number(entry.attempt), entry.id.uuid())
    }))
}

/// The requests that were sent for a step, in order: all attempts at its turn, or at its summary.
///
/// # Errors
/// When the database does not answer.
pub async fn of_step(
    store: &Store,
    tenant: &TenantId,
    step: &Step,
) -> Result<Vec<LedgerEntry>, StoreError> {
    let purpose = match &step.content {
        StepContent::Action(_) => Purpose::Reply,
        StepContent::Summary(summary) if summary.text.is_some() => Purpose::Summary,
        _ => return Ok(Vec::new()),
    };
    match step.run_id {
        Some(run) => entries!(
            store,
            "run_id = $2 AND turn = $3 AND purpose = $4 ORDER BY attempt, request_id",
            tenant,
            run.uuid(),
            i32::try_from(step.turn).unwrap_or(i32::MAX),
            purpose.label()
        )
        .collect(),
        None => entries!(
            store,
            "thread_id = $2 AND step_seq = $3 AND run_id IS NULL ORDER BY attempt, request_id",
            tenant,
            step.thread_id.uuid(),
            step.seq
        )
        .collect(),
    }
}

/// The last request of a thread of some kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    /// Its id.
    pub id: RequestId,
    /// Who was asked; not known of requests from before there was a ledger.
    pub provider: Option<Provider>,
}

/// The last request of a thread for a reply: the one whose reply is the last on record, or the last one
/// to a provider, whatever became of it.
///
/// # Errors
/// When the database does not answer.
pub async fn last(
    store: &Store,
    tenant: &TenantId,
    thread: ThreadId,
    provider: Option<Provider>,
) -> Result<Option<Last>, StoreError> {
    let row = match provider {
        None => sqlx::query!(
            "SELECT request_id, provider
               FROM model_request
              WHERE tenant_id = $1
                AND thread_id = $2
                AND step_seq IS NOT NULL
                AND purpose = 'reply'
                AND outcome = 'replied'
              ORDER BY step_seq DESC
              LIMIT 1",
            tenant.as_str(),
            thread.uuid()
        )
        .fetch_optional(store.worker())
        .await
        .map(|row| row.map(|row| (row.request_id, row.provider))),
        Some(provider) => sqlx::query!(
            "SELECT request_id, provider
               FROM model_request
              WHERE tenant_id = $1
                AND thread_id = $2
                AND provider = $3
                AND purpose = 'reply'
                AND head IS NOT NULL
              ORDER BY request_id DESC
              LIMIT 1",
            tenant.as_str(),
            thread.uuid(),
            provider.label()
        )
        .fetch_optional(store.worker())
        .await
        .map(|row| row.map(|row| (row.request_id, row.provider))),
    };
    let Some((id, provider)) = row.map_err(StoreError::of_read)? else { return Ok(None) };
    let id = RequestId::from(id);
    let provider = At { table: TABLE, id: &id }.label_opt("provider", provider.as_deref())?;
    Ok(Some(Last { id, provider }))
}
