//! The load that recovery starts from.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Head;
use crate::domain::agent::AgentSpec;
use crate::domain::event::AskedFallback;
use crate::domain::id::{RunId, TenantId};
use crate::domain::mcp::Pins;
use crate::domain::run::Run;
use crate::domain::run_message::RunMessage;
use crate::domain::skill::Skill;
use crate::domain::step::Step;
use crate::domain::thread::Framing;
use crate::domain::tool::{CallState, ToolSpec};
use crate::domain::wait::GivenAnswer;
use crate::store::rows::At;
use crate::store::run_row::RunRow;
use crate::store::steps::{self, Range, StoredCall};
use crate::store::{Store, StoreError, answers, events, messages, pins, skills, threads};

/// A run with all that going on with it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedRun {
    /// The run.
    pub run: Run,
    /// The version of the agent it is pinned to.
    pub agent: AgentSpec,
    /// The versions of the agent's skills that it is pinned to.
    pub skills: Vec<Skill>,
    /// The run's own step limit.
    pub max_steps: Option<u32>,
    /// What is left of its time by the database's clock, where that is bounded; zero when it is over.
    pub time_left: Option<Duration>,
    /// What the next append must be.
    pub head: Head,
    /// Whether the current turn is the closing one.
    pub closing: bool,
    /// The model that was last asked in the current turn, where it is not the agent's first one.
    pub fallback: Option<AskedFallback>,
    /// Whether it was interrupted and asked to go on, and that is not yet on record.
    pub resumed: bool,
    /// How the thread's history is framed.
    pub framing: Framing,
    /// `seq` of the first step that a model sees.
    pub memory_from: i64,
    /// The steps a model sees, those of the run included, in order.
    pub steps: Vec<Step>,
    /// The calls of those steps.
    pub calls: Vec<StoredCall>,
    /// The number of the last message that entered the run; 0 before the first.
    pub n_messages: u32,
    /// The numbers of the messages that have entered the run, by `seq` of the step they have become.
    pub heard: BTreeMap<i64, u32>,
    /// The messages that have not entered the run yet, in order.
    pub waiting: Vec<RunMessage>,
    /// All answers to calls that were ever given.
    pub n_answers: u32,
    /// Those to calls that wait for them.
    pub answers: Vec<GivenAnswer>,
    /// Whether it draws on budgets.
    pub is_budgeted: bool,
    /// The tools of MCP servers that it was given when it began; `None` before it has any.
    pub pins: Option<Pins>,
}

/// Loads a run. `None` when it is gone.
///
/// # Errors
/// When the database does not answer or a row does not read.
pub async fn load(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<LoadedRun>, StoreError> {
    let Some(row) = read_row(store, tenant, id).await? else { return Ok(None) };
    let at = At { table: "run", id: &id };
    let agent: AgentSpec = at.json("agent", &row.agent)?;
    let max_steps = row.max_steps.map(|n| at.count("max_steps", n)).transpose()?;
    let framing = threads::framing(&at, &row.framing_policy, &row.announce, &row.framing_tags)?;
    let head = row.head();
    let time_left = row.left_ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    let (closing, resumed) = (row.closing, row.resumed);
    let (memory_from, n_answers, is_budgeted) = (row.memory_from, row.n_answers, row.budgeted);
    let n_messages = at.count("n_messages_taken", row.n_messages_taken)?;
    let all = at.count("n_messages", row.n_messages)?;
    let run = Run::try_from(row.run())?;
    let range = Range { thread: run.thread_id, after: memory_from - 1, run: None, limit: i64::MAX };
    let (mut steps, calls) = steps::read(store.worker(), tenant, range).await?;
    steps::leave_out(store.worker(), tenant, (run.thread_id, Some(id)), &mut steps).await?;
    let fallback = asked_fallback(store, tenant, id, &agent).await?;
    let skills = if agent.skills.is_empty() {
        Vec::new()
    } else {
        skills::of_run(store, tenant, id).await?
    };
    let n_answers = at.count("n_answers", n_answers)?;
    let has_waiting = calls.iter().any(|call| call.state == CallState::Waiting);
    let answers = if has_waiting { answers::of(store, tenant, id).await? } else { Vec::new() };
    let uses_servers = agent.tools.iter().any(|tool| matches!(tool, ToolSpec::Mcp(_)));
    let pins = if uses_servers { pins::of_run(store, tenant, id).await? } else { None };
    let (heard, waiting) = said_to(store, tenant, id, (n_messages, all)).await?;
    Ok(Some(LoadedRun {
        run,
        agent,
        skills,
        max_steps,
        time_left,
        head,
        closing,
        fallback,
        resumed,
        framing,
        memory_from,
        steps,
        calls,
        n_messages,
        heard,
        waiting,
        n_answers,
        answers,
        is_budgeted,
        pins,
    }))
}

/// The row of a run, and what of its thread and agent it needs.
async fn read_row(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<LoadRow>, StoreError> {
    sqlx::query_as!(
        LoadRow,
        r#"SELECT r.run_id, r.thread_id, r.agent_id, r.agent_version, r.parent_call_id,
                  r.ancestors, r.status, r.stop_reason,
                  r.answer, r.output::text AS output, r.failure::text AS failure, r.turn, r.attempt,
                  r.n_steps, r.usage_input, r.usage_output, r.usage_cache_read, r.usage_cache_write,
                  r.usage_reasoning, r.redactions::text AS "redactions!",
                  r.unavailable_servers::text AS unavailable_servers,
                  r.metadata::text AS "metadata!", r.created_at, r.started_at,
                  r.finished_at, r.max_steps, r.next_seq, r.next_event_seq, r.op_id, r.closing,
                  (extract(epoch FROM r.deadline_at - now()) * 1000)::bigint AS left_ms,
                  r.resumed, r.n_messages, r.n_messages_taken, r.n_answers, r.budgeted,
                  r.cost, r.budget::text AS budget, r.requires_action::text AS requires_action, t.memory_from, t.framing_policy,
                  t.announce, t.framing_tags, coalesce(r.inline_agent, v.spec)::text AS "agent!"
             FROM run r
             JOIN thread t
               ON t.tenant_id = r.tenant_id
              AND t.thread_id = r.thread_id
             LEFT JOIN agent_version v
               ON v.tenant_id = r.tenant_id
              AND v.agent_id = r.agent_id
              AND v.version = r.agent_version
            WHERE r.tenant_id = $1
              AND r.run_id = $2"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.worker())
    .await
    .map_err(StoreError::of_read)
}

/// The fallback that was asked last, where the agent has any.
async fn asked_fallback(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    agent: &AgentSpec,
) -> Result<Option<AskedFallback>, StoreError> {
    if agent.model.fallbacks.is_empty() {
        return Ok(None);
    }
    events::asked_fallback(store, tenant, id).await
}

/// What was said to a run: what has entered it, and what waits. There are so many messages that have
/// entered it, and so many in all.
async fn said_to(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
    (n_heard, all): (u32, u32),
) -> Result<(BTreeMap<i64, u32>, Vec<RunMessage>), StoreError> {
    let heard =
        if n_heard > 0 { messages::heard(store, tenant, id).await? } else { BTreeMap::new() };
    let waiting = if all > n_heard {
        messages::waiting(store, tenant, id, n_heard).await?
    } else {
        Vec::new()
    };
    Ok((heard, waiting))
}

/// A run's row and what of its thread and agent it needs.
struct LoadRow {
    run_id: Uuid,
    thread_id: Uuid,
    agent_id: Option<Uuid>,
    agent_version: Option<i32>,
    parent_call_id: Option<String>,
    ancestors: Vec<Uuid>,
    status: String,
    stop_reason: Option<String>,
    answer: Option<String>,
    output: Option<String>,
    failure: Option<String>,
    turn: i32,
    attempt: i32,
    n_steps: i32,
    usage_input: i64,
    usage_output: i64,
    usage_cache_read: i64,
    usage_cache_write: i64,
    usage_reasoning: i64,
    redactions: String,
    unavailable_servers: Option<String>,
    metadata: String,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
    max_steps: Option<i32>,
    left_ms: Option<i64>,
    next_seq: i64,
    next_event_seq: i64,
    op_id: Uuid,
    closing: bool,
    resumed: bool,
    n_messages: i32,
    n_messages_taken: i32,
    n_answers: i32,
    budgeted: bool,
    cost: Option<i64>,
    budget: Option<String>,
    requires_action: Option<String>,
    memory_from: i64,
    framing_policy: String,
    announce: String,
    framing_tags: Vec<String>,
    agent: String,
}

impl LoadRow {
    const fn head(&self) -> Head {
        let &Self { next_seq, next_event_seq, op_id, .. } = self;
        Head { next_seq, next_event_seq, op_id }
    }

    fn run(self) -> RunRow {
        RunRow {
            run_id: self.run_id,
            thread_id: self.thread_id,
            agent_id: self.agent_id,
            agent_version: self.agent_version,
            parent_call_id: self.parent_call_id,
            ancestors: self.ancestors,
            status: self.status,
            stop_reason: self.stop_reason,
            answer: self.answer,
            output: self.output,
            failure: self.failure,
            requires_action: self.requires_action,
            // A run that is loaded goes on.
            stopped: None,
            turn: self.turn,
            attempt: self.attempt,
            n_steps: self.n_steps,
            usage_input: self.usage_input,
            usage_output: self.usage_output,
            usage_cache_read: self.usage_cache_read,
            usage_cache_write: self.usage_cache_write,
            usage_reasoning: self.usage_reasoning,
            cost: self.cost,
            budget: self.budget,
            redactions: self.redactions,
            unavailable_servers: self.unavailable_servers,
            metadata: self.metadata,
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
        }
    }
}
