//! Runs: durable executions on a thread, their status and how they end.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::agent::Metadata;
use super::budget::Budget;
use super::id::{AgentId, CallId, ErrorId, RunId, ThreadId};
use super::mcp::UnavailableServer;
use super::model::{ModelErrorKind, Provider, Usage};
use super::money::Money;
use super::sub_run::Parent;
use super::wait::RequiresAction;
use crate::labels;

labels! {
    /// Where a run stands.
    RunStatus {
        /// No worker is at it, and it goes on by itself: when a worker claims it, its thread is free, or a
        /// sub-run that it waits for has ended.
        Queued = "queued",
        /// A worker is at it.
        Running = "running",
        /// Active, but nothing goes on until a caller acts or the wait runs out.
        RequiresAction = "requires_action",
        /// Ended with an answer.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Ended by a caller.
        Cancelled = "cancelled",
        /// Stopped by a caller; only `resume` leads on.
        Interrupted = "interrupted",
    }
}

impl RunStatus {
    /// Whether the run goes on by itself: nothing is to be had of it but by waiting.
    pub const fn is_under_way(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }

    /// Whether nothing goes on by itself. An interrupted run can be resumed, nothing else can.
    pub const fn is_ended(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::RequiresAction => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Interrupted => true,
        }
    }
}

labels! {
    /// Why a completed run ended.
    StopReason {
        /// The model called `final_answer`.
        FinalAnswer = "final_answer",
        /// The model answered with text and no tool call.
        Text = "text",
        /// The step limit was reached and the model gave its best answer.
        MaxSteps = "max_steps",
        /// The model repeated itself.
        LoopDetected = "loop_detected",
    }
}

labels! {
    /// What is done with a run whose thread has an active one.
    OnBusy {
        /// It is refused.
        Reject = "reject",
        /// It waits until those before it have ended.
        Enqueue = "enqueue",
        /// The active run is interrupted, and then it is this one's turn.
        Interrupt = "interrupt",
        /// The active run is cancelled and no model is told of its steps any more, and then it is this
        /// one's turn.
        Rollback = "rollback",
    }
}

#[expect(clippy::derivable_impls, reason = "the `labels!` macro writes the enum")]
impl Default for OnBusy {
    fn default() -> Self {
        Self::Reject
    }
}

impl OnBusy {
    /// Whether the active run is to end.
    pub const fn displaces(self) -> bool {
        match self {
            Self::Reject | Self::Enqueue => false,
            Self::Interrupt | Self::Rollback => true,
        }
    }
}

labels! {
    /// What becomes of a run when the client that started it, and waits for it, goes away.
    OnDisconnect {
        /// It goes on.
        Continue = "continue",
        /// It is cancelled.
        Cancel = "cancel",
    }
}

#[expect(clippy::derivable_impls, reason = "the `labels!` macro writes the enum")]
impl Default for OnDisconnect {
    fn default() -> Self {
        Self::Continue
    }
}

/// What a cancel stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopped {
    /// The turns whose reply was not there yet.
    pub turns_aborted: Vec<u32>,
    /// The calls that were never sent, in call order.
    pub calls_not_started: Vec<CallId>,
    /// The calls that had been sent and may have taken effect, in call order.
    pub calls_in_doubt: Vec<CallId>,
}

/// Why a run fails, as the loop decides it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What failed.
    pub cause: FailureCause,
    /// A sentence for callers.
    pub detail: String,
}

/// Why a run failed, as stored; the problem object of `run.error` is made from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    /// What failed.
    #[serde(flatten)]
    pub cause: FailureCause,
    /// A sentence for callers.
    pub detail: String,
    /// The id that the operator's log has too.
    pub error_id: ErrorId,
}

/// What made a run fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum FailureCause {
    /// The model failed for good.
    Model {
        /// Who was asked.
        provider: Provider,
        /// The HTTP status, where there was one.
        provider_status: Option<u16>,
        /// What went wrong.
        kind: ModelErrorKind,
    },
    /// The run took longer than `run_timeout_ms`.
    RunTimeout,
    /// The run was claimed too often without getting on.
    RunPoisoned,
    /// A fault of the server.
    Internal,
}

/// A run as stored: what never changes, and the facts that do.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The thread it appends to.
    pub thread_id: ThreadId,
    /// The agent; `None` for an inline agent.
    pub agent_id: Option<AgentId>,
    /// The agent's version; `None` for an inline agent.
    pub agent_version: Option<i32>,
    /// Who started it, if it is a sub-run.
    pub parent: Option<Parent>,
    /// The caller's own labels.
    pub metadata: Metadata,
    /// When it was accepted.
    pub created_at: DateTime<Utc>,
    /// What it may use up by its own bounds.
    pub budget: Budget,
    /// What changes.
    pub facts: RunFacts,
}

impl Run {
    /// The run as it was when it was accepted: what a repeated request is answered with.
    #[must_use]
    pub fn as_accepted(mut self) -> Self {
        self.facts = RunFacts::accepted();
        self
    }
}

/// What changes in a run while it goes on. Events about a run carry the facts of their moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Where it stands.
    pub status: RunStatus,
    /// Why it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The answer as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The answer as a value, when the agent has an output schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<RunFailure>,
    /// What it waits for, or waited for until it was queued again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_action: Option<RequiresAction>,
    /// What the cancel stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Tokens of all recorded replies.
    pub usage: Usage,
    /// What they cost, as far as their prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Steps it has, its task included.
    pub steps: u32,
    /// The current or last turn; 0 before the first.
    pub turn: u32,
    /// The current or last attempt of that turn.
    pub attempt: u32,
    /// What was kept from the model of its steps, by redaction rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redactions: BTreeMap<String, u64>,
    /// The MCP servers whose tools it has to do without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable_servers: Vec<UnavailableServer>,
    /// When it was first claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
}

impl RunFacts {
    /// The facts of a run that has only been accepted: its task is its one step.
    pub fn accepted() -> Self {
        Self {
            status: RunStatus::Queued,
            stop_reason: None,
            answer: None,
            output: None,
            failure: None,
            requires_action: None,
            stopped: None,
            usage: Usage::default(),
            cost: None,
            steps: 1,
            turn: 0,
            attempt: 0,
            redactions: BTreeMap::new(),
            unavailable_servers: Vec::new(),
            started_at: None,
            finished_at: None,
        }
    }
}
