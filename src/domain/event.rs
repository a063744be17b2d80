//! What a subscriber of a run's stream sees.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::budget::{BudgetScope, Resource};
use super::model::{ModelSpec, Provider};
use super::run::RunFacts;
use crate::labels;

labels! {
    /// Durable events: each has a place in the run's sequence and is never lost.
    EventName {
        /// The run was accepted.
        RunCreated = "run.created",
        /// A worker claimed it for the first time.
        RunStarted = "run.started",
        /// It waits for a caller.
        RunRequiresAction = "run.requires_action",
        /// It goes on after an interruption or a wait.
        RunResumed = "run.resumed",
        /// A model turn begins.
        TurnStarted = "turn.started",
        /// The turn is tried again: drop the deltas of the attempt before.
        TurnRestarted = "turn.restarted",
        /// A call of the turn, before any of them runs; `final_answer` is not told as a call.
        ToolCall = "tool.call",
        /// A call's outcome, in call order.
        ToolResult = "tool.result",
        /// A step is complete.
        StepRecorded = "step.recorded",
        /// A budget is used up to the share at which its owner wants to be warned.
        BudgetWarning = "budget.warning",
        /// The run ended with an answer.
        RunCompleted = "run.completed",
        /// The run ended with an error.
        RunFailed = "run.failed",
        /// The run was cancelled.
        RunCancelled = "run.cancelled",
        /// The run was interrupted.
        RunInterrupted = "run.interrupted",
    }
}

impl EventName {
    /// Whether a stream ends with it.
    pub const fn is_last(self) -> bool {
        matches!(
            self,
            Self::RunCompleted | Self::RunFailed | Self::RunCancelled | Self::RunInterrupted
        )
    }

    /// Whether endpoints can be told of it: it is about the run as a whole and no matter of a worker.
    pub const fn is_told(self) -> bool {
        !matches!(
            self,
            Self::RunStarted
                | Self::TurnStarted
                | Self::TurnRestarted
                | Self::ToolCall
                | Self::ToolResult
                | Self::StepRecorded
        )
    }

    /// Whether endpoints that name no events are told of it: somebody may be waiting for it.
    pub const fn is_told_by_default(self) -> bool {
        self.is_told() && !matches!(self, Self::RunCreated | Self::RunResumed)
    }
}

/// A durable event as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// Its place in the run: 1, 2, 3 … without gaps; the `id:` of the stream.
    pub seq: i64,
    /// What happened.
    pub name: EventName,
    /// The facts, or where they are.
    pub data: EventData,
    /// When it was recorded.
    pub created_at: DateTime<Utc>,
}

/// What is stored of an event. Steps and calls are never changed once they are complete, so events
/// about them name them instead of repeating them: a history is stored once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventData {
    /// The run's facts at that moment.
    Run(RunFacts),
    /// A turn and its attempt.
    Turn {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// The model that is asked in place of the agent's first one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fallback: Option<AskedFallback>,
    },
    /// A call of an `action` step: what was asked for `tool.call`, how it ended for `tool.result`.
    Call {
        /// `seq` of the step.
        step_seq: i64,
        /// The call's place in it, from 0.
        call_idx: u32,
        /// The turn.
        turn: u32,
    },
    /// Most of a budget is used.
    Budget(BudgetWarning),
    /// A complete step.
    Step {
        /// `seq` of the step.
        step_seq: i64,
        /// The last turn whose reply is over when it is recorded; 0 before the first.
        turn: u32,
    },
}

/// What is told when four fifths of a budget are used, once in each run that draws on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetWarning {
    /// What it is a budget of.
    pub scope: BudgetScope,
    /// What is counted.
    pub what: Resource,
    /// How much is used; costs in millionths.
    pub used: u64,
    /// How much there is; costs in millionths.
    pub limit: u64,
}

/// A model that is asked in place of the agent's first one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedFallback {
    /// Its place among the fallbacks, from 1.
    pub place: u32,
    /// How many attempts at the turn other models had before it.
    pub after: u32,
    /// Which it is.
    pub model: ModelName,
}

/// Whom a model is asked from, and its name there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelName {
    /// Who serves the model.
    pub provider: Provider,
    /// The provider's name for it.
    pub name: String,
}

impl ModelName {
    /// That of a model.
    pub fn of(spec: &ModelSpec) -> Self {
        Self { provider: spec.provider, name: spec.name.clone() }
    }
}

/// A piece of a reply on its way, not durable: it has no place in the sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delta {
    /// The turn.
    pub turn: u32,
    /// The attempt.
    pub attempt: u32,
    /// What it is a piece of.
    pub kind: DeltaKind,
    /// The piece.
    pub text: String,
}

labels! {
    /// What a delta is a piece of; also the name of its stream event.
    DeltaKind {
        /// Text of the reply.
        Text = "text.delta",
        /// Thinking.
        Thinking = "thinking.delta",
        /// Arguments of a tool call.
        ToolCall = "tool_call.delta",
    }
}
