//! The requests of a thread, as far as they are kept: enough to render one again.

use super::rows::At;
use super::steps::{self, Range, body_hash};
use super::{Store, StoreError};
use crate::domain::agent::AgentSpec;
use crate::domain::id::{StepId, TenantId, ThreadId};
use crate::domain::request::BodyHash;
use crate::domain::step::StepContent;

/// What a request was made from.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRequest {
    /// The agent that asked.
    pub agent: AgentSpec,
    /// `seq` of the first step that it told.
    pub first_seq: i64,
    /// `seq` of its reply, which comes after the last step that it told.
    pub reply_seq: i64,
    /// The hash of its body.
    pub sha256: BodyHash,
}

/// The last request of a thread that got a reply; `None` when there was none.
///
/// # Errors
/// When the database does not answer.
pub async fn last(
    store: &Store,
    tenant: &TenantId,
    thread: ThreadId,
) -> Result<Option<StoredRequest>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT s.step_id, s.seq, s.request_sha256 AS "sha256!", s.request_from AS "first_seq!",
                  coalesce(r.inline_agent, v.spec)::text AS "agent!"
             FROM step s
             JOIN run r
               ON r.tenant_id = s.tenant_id
              AND r.run_id = s.run_id
             LEFT JOIN agent_version v
               ON v.tenant_id = r.tenant_id
              AND v.agent_id = r.agent_id
              AND v.version = r.agent_version
            WHERE s.tenant_id = $1
              AND s.thread_id = $2
              AND s.request_sha256 IS NOT NULL
            ORDER BY s.seq DESC
            LIMIT 1"#,
        tenant.as_str(),
        thread.uuid()
    )
    .fetch_optional(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    let Some(row) = row else { return Ok(None) };
    let id = StepId::from(row.step_id);
    let sha256 = body_hash(&At { table: "step", id: &id }, &row.sha256)?;
    let agent = At { table: "agent_version", id: &id }.json("spec", &row.agent)?;
    Ok(Some(StoredRequest { agent, first_seq: row.first_seq, reply_seq: row.seq, sha256 }))
}

/// The steps that a request told, in order.
///
/// # Errors
/// When the database does not answer.
pub async fn told(
    store: &Store,
    tenant: &TenantId,
    thread: ThreadId,
    request: &StoredRequest,
) -> Result<Vec<StepContent>, StoreError> {
    let (first_seq, limit) = (request.first_seq, request.reply_seq - request.first_seq);
    let range = Range { thread, after: first_seq - 1, run: None, limit };
    let (steps, _) = steps::read(store.worker(), tenant, range).await?;
    Ok(steps.into_iter().map(|step| step.content).collect())
}
