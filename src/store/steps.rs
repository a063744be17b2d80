//! Steps as they are read: the appended rows together with the outcomes of their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::gated::GatedPool;
use super::rows::At;
use super::{Store, StoreError};
use crate::domain::id::{CallId, RunId, StepId, TenantId, ThreadId};
use crate::domain::page::{Page, PageRequest};
use crate::domain::request::{BodyHash, RequestFigures};
use crate::domain::step::{Step, StepContent, ToolsStep};
use crate::domain::tool::{CallState, PlannedCall, ToolOutcome};
use crate::domain::wait::{WaitReason, WaitRules};

struct StepRow {
    step_id: Uuid,
    thread_id: Uuid,
    run_id: Option<Uuid>,
    seq: i64,
    turn: i32,
    attempt: i32,
    content: String,
    request_bytes: Option<i64>,
    request_shared_bytes: Option<i64>,
    request_sha256: Option<Vec<u8>>,
    request_difference: Option<String>,
    created_at: DateTime<Utc>,
}

impl StepRow {
    fn request(&self, at: &At<'_, StepId>) -> Result<Option<RequestFigures>, StoreError> {
        let (Some(bytes), Some(sha256)) = (self.request_bytes, &self.request_sha256) else {
            return Ok(None);
        };
        let shared = self.request_shared_bytes.map(|n| at.count("request_shared_bytes", n));
        Ok(Some(RequestFigures {
            bytes: at.count("request_bytes", bytes)?,
            shared_bytes: shared.transpose()?,
            sha256: body_hash(at, sha256)?,
            difference: at.json_opt("request_difference", self.request_difference.as_deref())?,
        }))
    }
}

/// The hash of a request, from its column.
pub(super) fn body_hash(at: &At<'_, impl Display>, sha256: &[u8]) -> Result<BodyHash, StoreError> {
    let bytes = sha256.try_into().map_err(|_| at.wrong("sha256"))?;
    Ok(BodyHash(bytes))
}

impl TryFrom<StepRow> for Step {
    type Error = StoreError;

    fn try_from(row: StepRow) -> Result<Self, StoreError> {
        let id = StepId::from(row.step_id);
        let at = At { table: "step", id: &id };
        Ok(Self {
            id,
            seq: row.seq,
            thread_id: ThreadId::from(row.thread_id),
            run_id: row.run_id.map(RunId::from),
            turn: at.count("turn", row.turn)?,
            attempt: at.count("attempt", row.attempt)?,
            content: at.json("content", &row.content)?,
            request: row.request(&at)?,
            created_at: row.created_at,
        })
    }
}

/// A tool call as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCall {
    /// `seq` of its `action` step.
    pub step_seq: i64,
    /// Its place in the step, from 0.
    pub call_idx: u32,
    /// What was planned; nothing of it is settled, since that is an outcome like any other.
    pub planned: PlannedCall,
    /// How far it has come.
    pub state: CallState,
    /// How often it was started.
    pub attempt: u32,
    /// What it waits for.
    pub waits: Option<WaitReason>,
    /// Whether it has waited for as long as it may.
    pub is_overdue: bool,
    /// Whether whoever was asked agreed to it.
    pub is_approved: bool,
    /// What it is sent with, where that is not what the model sent.
    pub sent_arguments: Option<String>,
    /// How it ended.
    pub outcome: Option<ToolOutcome>,
}

#[expect(clippy::struct_excessive_bools, reason = "they are the columns of the row")]
struct CallRow {
    step_seq: i64,
    call_idx: i32,
    call_id: String,
    name: String,
    arguments: String,
    effect: String,
    parallel_safe: bool,
    unparsable: bool,
    state: String,
    attempt: i32,
    wait_rules: Option<String>,
    waits_for: Option<String>,
    is_overdue: bool,
    approved: bool,
    sent_arguments: Option<String>,
    outcome: Option<String>,
}

impl TryFrom<CallRow> for StoredCall {
    type Error = StoreError;

    fn try_from(row: CallRow) -> Result<Self, StoreError> {
        let call_id = CallId(row.call_id);
        let at = At { table: "tool_call", id: &call_id };
        let rules = at.json_opt("wait_rules", row.wait_rules.as_deref())?;
        Ok(Self {
            step_seq: row.step_seq,
            call_idx: at.count("call_idx", row.call_idx)?,
            state: at.label("state", &row.state)?,
            attempt: at.count("attempt", row.attempt)?,
            waits: at.label_opt("waits_for", row.waits_for.as_deref())?,
            is_overdue: row.is_overdue,
            is_approved: row.approved,
            sent_arguments: row.sent_arguments,
            outcome: at.json_opt("outcome", row.outcome.as_deref())?,
            planned: PlannedCall {
                effect: at.label("effect", &row.effect)?,
                call_id: call_id.clone(),
                name: row.name,
                arguments: row.arguments,
                parallel_safe: row.parallel_safe,
                unparsable: row.unparsable,
                waits: rules.unwrap_or(WaitRules::NONE),
                settled: None,
                brings: Vec::new(),
            },
        })
    }
}

/// A range of a thread's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The thread.
    pub thread: ThreadId,
    /// Only steps with a greater `seq`.
    pub after: i64,
    /// Only steps of this run.
    pub run: Option<RunId>,
    /// At most this many.
    pub limit: i64,
}

/// Steps and calls of a range, in order.
pub(super) async fn read(
    pool: &GatedPool,
    tenant: &TenantId,
    range: Range,
) -> Result<(Vec<Step>, Vec<StoredCall>), StoreError> {
    let rows = sqlx::query_as!(
        StepRow,
        // A fork's steps are stored with the threads of its segments too. Each of them is read in order
        // and no further than the page needs.
        r#"SELECT h.step_id, h.thread_id, h.run_id, h.seq, h.turn, h.attempt,
                  h.content::text AS "content!", h.request_bytes, h.request_shared_bytes,
                  h.request_sha256, h.request_difference::text AS request_difference, h.created_at
             FROM (SELECT 1::bigint AS from_seq, 9223372036854775807 AS through_seq,
                          $2::uuid AS source_id
                    UNION ALL
                   SELECT from_seq, through_seq, source_id
                     FROM thread_segment
                    WHERE tenant_id = $1
                      AND thread_id = $2
                      AND through_seq > $3) g
            CROSS JOIN LATERAL (
                   SELECT s.*
                     FROM step s
                    WHERE s.tenant_id = $1
                      AND s.thread_id = g.source_id
                      AND s.seq > $3
                      AND s.seq >= g.from_seq
                      AND s.seq <= g.through_seq
                      AND ($4::uuid IS NULL OR s.run_id = $4)
                    ORDER BY s.seq
                    LIMIT $5) h
            ORDER BY h.seq
            LIMIT $5"#,
        tenant.as_str(),
        range.thread.uuid(),
        range.after,
        range.run.map(RunId::uuid),
        range.limit
    )
    .fetch_all(pool)
    .await
    .map_err(StoreError::of_read)?;
    let steps: Vec<Step> = rows.into_iter().map(Step::try_from).collect::<Result<_, _>>()?;
    let Some(last) = steps.last().map(|step| step.seq) else { return Ok((steps, Vec::new())) };
    let calls = calls(pool, tenant, range.thread, (range.after, last)).await?;
    Ok((with_outcomes(steps, &calls), calls))
}

async fn calls(
    pool: &GatedPool,
    tenant: &TenantId,
    thread: ThreadId,
    (after, through): (i64, i64),
) -> Result<Vec<StoredCall>, StoreError> {
    sqlx::query_as!(
        CallRow,
        r#"SELECT c.step_seq, c.call_idx, c.call_id, c.name, c.arguments, c.effect, c.parallel_safe,
                  c.unparsable, c.state, c.attempt, c.wait_rules::text AS wait_rules, c.waits_for,
                  coalesce(c.wait_until <= now(), false) AS "is_overdue!", c.approved,
                  c.sent_arguments, c.outcome::text AS outcome
             FROM (SELECT 1::bigint AS from_seq, 9223372036854775807 AS through_seq,
                          $2::uuid AS source_id
                    UNION ALL
                   SELECT from_seq, through_seq, source_id
                     FROM thread_segment
                    WHERE tenant_id = $1
                      AND thread_id = $2
                      AND through_seq > $3) g
             JOIN tool_call c
               ON c.tenant_id = $1
              AND c.thread_id = g.source_id
              AND c.step_seq > $3
              AND c.step_seq <= $4
              AND c.step_seq >= g.from_seq
              AND c.step_seq <= g.through_seq
            ORDER BY c.step_seq, c.call_idx"#,
        tenant.as_str(),
        thread.uuid(),
        after,
        through
    )
    .fetch_all(pool)
    .await
    .map_err(StoreError::of_read)?
    .into_iter()
    .map(StoredCall::try_from)
    .collect()
}

/// Puts the outcomes that are recorded into their steps. Loaded memory brings its own.
fn with_outcomes(mut steps: Vec<Step>, calls: &[StoredCall]) -> Vec<Step> {
    let mut outcomes: BTreeMap<i64, Vec<ToolOutcome>> = BTreeMap::new();
    for call in calls {
        outcomes.entry(call.step_seq).or_default().extend(call.outcome.clone());
    }
    for step in &mut steps {
        if let StepContent::Action(action) = &mut step.content
            && let Some(recorded) = outcomes.remove(&step.seq)
        {
            action.outcomes = recorded;
        }
    }
    steps
}

/// A page of a thread's steps, or of a run's, in order.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    (thread, run): (ThreadId, Option<RunId>),
    page: &PageRequest<i64>,
) -> Result<Page<Step, i64>, StoreError> {
    let range =
        Range { thread, after: page.after.unwrap_or(0), run, limit: i64::from(page.limit) + 1 };
    let (steps, _) = read(store.api(), tenant, range).await?;
    Ok(Page::of(steps, page.limit, |step| step.seq))
}

/// The steps a model sees, as they are now, without an action whose calls are still under way.
///
/// # Errors
/// When the database does not answer.
pub async fn memory(
    store: &Store,
    tenant: &TenantId,
    thread: ThreadId,
    memory_from: i64,
) -> Result<Vec<Step>, StoreError> {
    let range = Range { thread, after: memory_from - 1, run: None, limit: i64::MAX };
    let (mut steps, calls) = read(store.api(), tenant, range).await?;
    leave_out(store.api(), tenant, (thread, None), &mut steps).await?;
    let open = calls.iter().find(|call| call.state != CallState::Ended).map(|call| call.step_seq);
    Ok(steps.into_iter().take_while(|step| open.is_none_or(|open| step.seq < open)).collect())
}

/// Puts something that says nothing in the place of each step of a run that was rolled back, so that
/// every other step keeps its place. A run that goes on, to be cancelled, knows its own steps.
pub(super) async fn leave_out(
    pool: &GatedPool,
    tenant: &TenantId,
    (thread, goes_on): (ThreadId, Option<RunId>),
    steps: &mut [Step],
) -> Result<(), StoreError> {
    let rolled_back = sqlx::query_scalar!(
        // A fork leaves out what had been rolled back when it was made.
        "SELECT run_id
           FROM run
          WHERE tenant_id = $1
            AND thread_id = $2
            AND rolled_back_at IS NOT NULL
          UNION
         SELECT r.run_id
           FROM thread t
           JOIN thread_segment g
             ON g.tenant_id = t.tenant_id
            AND g.thread_id = t.thread_id
           JOIN run r
             ON r.tenant_id = g.tenant_id
            AND r.thread_id = g.source_id
            AND r.rolled_back_at <= t.created_at
          WHERE t.tenant_id = $1
            AND t.thread_id = $2",
        tenant.as_str(),
        thread.uuid()
    )
    .fetch_all(pool)
    .await
    .map_err(StoreError::of_read)?;
    let rolled_back: BTreeSet<RunId> = rolled_back.into_iter().flatten().map(RunId::from).collect();
    for step in steps {
        let run = step.run_id.filter(|run| Some(*run) != goes_on);
        if run.is_some_and(|run| rolled_back.contains(&run)) {
            step.content = StepContent::Tools(ToolsStep { added: Vec::new(), removed: Vec::new() });
            step.request = None;
        }
    }
    Ok(())
}

/// A step by its id.
///
/// # Errors
/// When the database does not answer.
pub async fn get(store: &Store, tenant: &TenantId, id: StepId) -> Result<Option<Step>, StoreError> {
    let place = sqlx::query!(
        "SELECT thread_id, seq FROM step WHERE tenant_id = $1 AND step_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let Some(place) = place else { return Ok(None) };
    let thread = ThreadId::from(place.thread_id);
    let range = Range { thread, after: place.seq - 1, run: None, limit: 1 };
    let (steps, _) = read(store.api(), tenant, range).await?;
    Ok(steps.into_iter().next())
}
