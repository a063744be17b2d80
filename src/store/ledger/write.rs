//! Writing requests: beside the steps of a run, or by themselves.

use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{NewRequest, Packed, Recorded, Taken};
use crate::domain::id::{RequestId, TenantId, ThreadId};
use crate::domain::model::{ModelErrorKind, Usage};
use crate::domain::money::Money;
use crate::store::rows::to_json;
use crate::store::{Store, StoreError};

/// The columns of some requests as parameters: one document of what is no bytes, and the rest.
#[derive(Debug, Default)]
pub(in crate::store) struct Columns {
    pub(in crate::store) facts: String,
    pub(in crate::store) sha256: Vec<Vec<u8>>,
    pub(in crate::store) responses: Vec<Option<Vec<u8>>>,
    pub(in crate::store) heads: Vec<Vec<u8>>,
    pub(in crate::store) conversations: Vec<Vec<u8>>,
    pub(in crate::store) spans: Vec<Vec<u8>>,
}

/// What of a request is no bytes, by the names of its columns.
#[derive(Serialize)]
struct Facts<'a> {
    request_id: Uuid,
    step_seq: Option<i64>,
    turn: u32,
    attempt: u32,
    purpose: &'static str,
    provider: &'static str,
    model: &'a str,
    #[serde(flatten)]
    took: Option<Took>,
    endpoint: &'a str,
    header_names: &'a [String],
    profile: &'a serde_json::Value,
    renderer: u32,
    sent_at: String,
    first_byte_ms: Option<u64>,
    took_ms: u64,
    status: Option<u16>,
    outcome: &'static str,
    error: Option<&'static str>,
    response_encoding: Option<&'static str>,
    response_type: Option<&'a str>,
    bytes: u64,
    base_id: Option<Uuid>,
    head_shared: u64,
    head_encoding: &'static str,
    conversation_shared: u64,
    conversation_encoding: &'static str,
}

/// What a call took, for the table that outlives the ledger.
#[derive(Serialize)]
struct Took {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
    cost: Option<u64>,
}

impl Took {
    fn of(taken: &Taken) -> Self {
        let Usage { input, output, cache_read, cache_write, reasoning } = taken.usage;
        let cost = taken.cost.map(Money::micros);
        Self { input, output, cache_read, cache_write, reasoning, cost }
    }
}

impl<'a> Facts<'a> {
    fn of(recorded: &'a Recorded) -> Self {
        let request = &*recorded.request;
        let NewRequest { body, response, .. } = request;
        let encoding = |packed: &Packed| packed.encoding.label();
        Self {
            request_id: request.id.uuid(),
            step_seq: recorded.step_seq,
            turn: request.turn,
            attempt: request.attempt,
            purpose: request.purpose.label(),
            provider: request.provider.label(),
            model: &request.model,
            took: request.taken.as_ref().map(Took::of),
            endpoint: &request.endpoint,
            header_names: &request.header_names,
            profile: &request.profile,
            renderer: request.renderer,
            sent_at: request.sent_at.to_rfc3339(),
            first_byte_ms: request.first_byte_after.map(millis),
            took_ms: millis(request.took),
            status: request.status,
            outcome: request.outcome.label(),
            error: request.error.map(ModelErrorKind::label),
            response_encoding: response.as_ref().map(encoding),
            response_type: request.response_type.as_deref(),
            bytes: request.bytes,
            base_id: body.base.map(RequestId::uuid),
            head_shared: body.head.shared,
            head_encoding: encoding(&body.head.new),
            conversation_shared: body.conversation.shared,
            conversation_encoding: encoding(&body.conversation.new),
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Columns {
    pub(in crate::store) fn of(requests: &[Recorded]) -> Result<Self, StoreError> {
        let facts: Vec<Facts<'_>> = requests.iter().map(Facts::of).collect();
        let mut columns = Self { facts: to_json(&facts)?, ..Self::default() };
        for Recorded { request, .. } in requests {
            columns.sha256.push(request.sha256.0.to_vec());
            columns.responses.push(request.response.as_ref().map(|packed| packed.bytes.clone()));
            columns.heads.push(request.body.head.new.bytes.clone());
            columns.conversations.push(request.body.conversation.new.bytes.clone());
            columns.spans.push(request.body.spans.clone());
        }
        Ok(columns)
    }
}

/// Records requests that no run sent.
///
/// # Errors
/// When the database does not take it.
pub async fn record(
    store: &Store,
    tenant: &TenantId,
    thread: ThreadId,
    requests: &[Recorded],
) -> Result<(), StoreError> {
    let mut connection = store.api().acquire().await.map_err(StoreError::of_read)?;
    insert(&mut connection, tenant, thread, requests).await
}

/// Records requests that no run sent, beside other writes. A thread that is gone takes none.
pub(in crate::store) async fn insert(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
    requests: &[Recorded],
) -> Result<(), StoreError> {
    if requests.is_empty() {
        return Ok(());
    }
    let columns = Columns::of(requests)?;
    sqlx::query_file!(
        "src/store/ledger/insert.sql",
        tenant.as_str(),
        thread.uuid(),
        columns.facts,
        &columns.sha256,
        &columns.responses as &[Option<Vec<u8>>],
        &columns.heads,
        &columns.conversations,
        &columns.spans
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}
