//! The only way a worker writes: the guarded append, and the load that recovery starts from.

mod append;

pub use append::append;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::ledger::Recorded;
use super::messages;
use super::rows::At;
use super::runs::RunRow;
use super::steps::{self, Range, StoredCall};
use super::{Store, StoreError, events, threads};
use crate::domain::agent::AgentSpec;
use crate::domain::event::{AskedFallback, EventData, EventName};
use crate::domain::id::{CallId, LeaseToken, RunId, StepId, TenantId};
use crate::domain::request::RequestFigures;
use crate::domain::run::{Run, RunFacts};
use crate::domain::run_message::RunMessage;
use crate::domain::step::{Step, StepContent};
use crate::domain::thread::Framing;
use crate::domain::tool::{CallState, PlannedCall, ToolOutcome};

/// A run with all that going on with it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedRun {
    /// The run.
    pub run: Run,
    /// The version of the agent it is pinned to.
    pub agent: AgentSpec,
    /// The run's own step limit.
    pub max_steps: Option<u32>,
    /// When it must have ended.
    pub deadline_at: Option<DateTime<Utc>>,
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
}

/// Where the journal of a run ends: the compare-and-set of every append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// `seq` of the next step.
    pub next_seq: i64,
    /// `seq` of the next event.
    pub next_event_seq: i64,
    /// Mark of the last append. A batch that only moves calls moves neither number on, but this.
    pub op_id: Uuid,
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
    let row = sqlx::query_as!(
        LoadRow,
        r#"SELECT r.run_id, r.thread_id, r.agent_id, r.agent_version, r.status, r.stop_reason,
                  r.answer, r.output::text AS output, r.failure::text AS failure, r.turn, r.attempt,
                  r.n_steps, r.usage_input, r.usage_output, r.usage_cache_read, r.usage_cache_write,
                  r.usage_reasoning, r.redactions::text AS "redactions!",
                  r.metadata::text AS "metadata!", r.created_at, r.started_at,
                  r.finished_at, r.max_steps, r.deadline_at, r.next_seq, r.next_event_seq, r.op_id,
                  r.closing, r.resumed, r.n_messages, r.n_messages_taken, t.memory_from, t.framing_policy,
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
    .map_err(StoreError::of_read)?;
    let Some(row) = row else { return Ok(None) };
    let at = At { table: "run", id: &id };
    let agent: AgentSpec = at.json("agent", &row.agent)?;
    let max_steps = row.max_steps.map(|n| at.count("max_steps", n)).transpose()?;
    let framing = threads::framing(&at, &row.framing_policy, &row.announce, &row.framing_tags)?;
    let head = row.head();
    let (deadline_at, closing, resumed) = (row.deadline_at, row.closing, row.resumed);
    let memory_from = row.memory_from;
    let n_messages = at.count("n_messages_taken", row.n_messages_taken)?;
    let all = at.count("n_messages", row.n_messages)?;
    let run = Run::try_from(row.run())?;
    let range = Range { thread: run.thread_id, after: memory_from - 1, run: None, limit: i64::MAX };
    let (steps, calls) = steps::read(store.worker(), tenant, range).await?;
    let fallback = asked_fallback(store, tenant, id, &agent).await?;
    let (heard, waiting) = said_to(store, tenant, id, (n_messages, all)).await?;
    Ok(Some(LoadedRun {
        run,
        agent,
        max_steps,
        deadline_at,
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
    }))
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
    metadata: String,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
    max_steps: Option<i32>,
    deadline_at: Option<DateTime<Utc>>,
    next_seq: i64,
    next_event_seq: i64,
    op_id: Uuid,
    closing: bool,
    resumed: bool,
    n_messages: i32,
    n_messages_taken: i32,
    memory_from: i64,
    framing_policy: String,
    announce: String,
    framing_tags: Vec<String>,
    agent: String,
}

impl LoadRow {
    const fn head(&self) -> Head {
        let (next_seq, next_event_seq) = (self.next_seq, self.next_event_seq);
        Head { next_seq, next_event_seq, op_id: self.op_id }
    }

    fn run(self) -> RunRow {
        RunRow {
            run_id: self.run_id,
            thread_id: self.thread_id,
            agent_id: self.agent_id,
            agent_version: self.agent_version,
            status: self.status,
            stop_reason: self.stop_reason,
            answer: self.answer,
            output: self.output,
            failure: self.failure,
            turn: self.turn,
            attempt: self.attempt,
            n_steps: self.n_steps,
            usage_input: self.usage_input,
            usage_output: self.usage_output,
            usage_cache_read: self.usage_cache_read,
            usage_cache_write: self.usage_cache_write,
            usage_reasoning: self.usage_reasoning,
            redactions: self.redactions,
            metadata: self.metadata,
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
        }
    }
}

/// The right to append: who, to what, from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The run's tenant.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// The lease.
    pub token: LeaseToken,
    /// The claim's number.
    pub epoch: i64,
    /// Where the writer believes the journal ends.
    pub head: Head,
}

/// What one decision writes, all in one statement and so in one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Marks the write, so that one whose answer was lost can be recognised.
    pub op_id: Uuid,
    /// The moment.
    pub now: DateTime<Utc>,
    /// The run's facts after it.
    pub facts: RunFacts,
    /// Whether the current turn is the closing one.
    pub closing: bool,
    /// What it has to do with the messages to the run.
    pub hearing: Hearing,
    /// Whether the run got on: counts against its being poisoned.
    pub is_progress: bool,
    /// Whether it goes through although a cancel was asked for: it is the answer to that.
    pub despite_cancel: bool,
    /// New steps, in order.
    pub steps: Vec<NewStep>,
    /// New calls of the last new step, in order.
    pub calls: Vec<NewCall>,
    /// Calls that moved on.
    pub moves: Vec<CallMove>,
    /// New events, in order.
    pub events: Vec<(EventName, EventData)>,
    /// Requests to models that are not recorded yet, in order.
    pub requests: Vec<Recorded>,
}

/// What a batch has to do with the messages to the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hearing {
    /// The number of the last message that has entered the run with it; 0 before the first.
    pub n_messages: u32,
    /// Whether it is refused when there are more: it begins a turn or completes the run.
    pub is_boundary: bool,
    /// Messages that enter the run: their number and the `seq` of the step that they become.
    pub taken: Vec<(u32, i64)>,
}

/// A step to append.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStep {
    /// Its id.
    pub id: StepId,
    /// Its turn.
    pub turn: u32,
    /// Its attempt.
    pub attempt: u32,
    /// What it says.
    pub content: StepContent,
    /// The request in figures, for a reply that was heard to its end.
    pub request: Option<RequestFigures>,
}

/// A call to append.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCall {
    /// `seq` of its step.
    pub step_seq: i64,
    /// Its place in the step, from 0.
    pub call_idx: u32,
    /// What is planned.
    pub planned: PlannedCall,
    /// How far it comes within this batch.
    pub state: CallState,
    /// How often it was started.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Option<ToolOutcome>,
}

/// A call that moves on. It only does so from the state it is believed to be in.
#[derive(Debug, Clone, PartialEq)]
pub struct CallMove {
    /// Which one.
    pub call_id: CallId,
    /// From where.
    pub from: CallState,
    /// To where.
    pub to: CallState,
    /// How often it was started.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Option<ToolOutcome>,
}

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is stored.
    Stored,
    /// It is not: the run is another's, or not where the writer believes. Stop, write nothing.
    Fenced,
    /// It is not: a caller asked for the end of the run.
    CancelRequested,
    /// It is not: messages were added that the writer does not know of.
    MessagesWait,
}
