//! Waiting: what a run or a call waits for, and what callers and sub-runs answer.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::id::{AgentId, CallId};
use super::sub_run::SubRun;
use super::tool::{ToolFailure, ToolOutput};
use crate::labels;

labels! {
    /// What a run with status `requires_action` waits for. Calls wait for the first three, and for
    /// sub-runs: a run that waits for nothing else goes on by itself, so it is `queued`.
    WaitReason {
        /// The results of calls that the caller runs.
        ToolResults = "tool_results",
        /// A decision whether a call may run.
        Approval = "approval",
        /// What became of a call that was sent and whose answer is not known.
        InDoubt = "in_doubt",
        /// More budget.
        BudgetExhausted = "budget_exhausted",
        /// The ends of its sub-runs; nobody has to do anything.
        SubRuns = "sub_runs",
    }
}

labels! {
    /// What is done about a call of an `at_most_once` tool that was sent and whose answer is not known.
    OnInDoubt {
        /// The run waits for a resolution; after `hold_timeout_ms` the model is told.
        Hold = "hold",
        /// The model is told.
        Observe = "observe",
        /// The tool's `probe_url` is asked first; where it does not know, the run waits as with `hold`.
        Probe = "probe",
    }
}

impl OnInDoubt {
    /// The one of two by which less is taken for granted.
    #[must_use]
    pub const fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Hold, _) | (_, Self::Hold) => Self::Hold,
            (Self::Probe, _) | (_, Self::Probe) => Self::Probe,
            (Self::Observe, Self::Observe) => Self::Observe,
        }
    }
}

#[expect(clippy::derivable_impls, reason = "the `labels!` macro writes the enum")]
impl Default for OnInDoubt {
    fn default() -> Self {
        Self::Hold
    }
}

labels! {
    /// Whether a person has to agree to calls, whatever their arguments.
    ApprovalPolicy {
        /// Nobody is asked.
        Never = "never",
        /// Every call waits for a decision.
        Always = "always",
    }
}

/// Whether a person has to agree to a call before it runs: `never`, `always`, or where a condition on its
/// arguments holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(examples("always", json!({"when": "/amount > 100 or not /currency in ['EUR', 'USD']"})))]
pub enum Approval {
    /// All calls are alike.
    Fixed(ApprovalPolicy),
    /// It depends on the arguments.
    When(ApprovalWhen),
}

/// A condition under which a call waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalWhen {
    /// Comparisons of arguments with literals, joined by `and`, `or`, `not` and parentheses; at most 1,024
    /// characters and 16 levels. An argument is a JSON pointer (`/amount`) or `arguments.amount`; it is
    /// compared by `==`, `!=`, `<`, `<=`, `>`, `>=`, `in [ … ]`, `contains`, `starts_with` or `exists`. Where
    /// an argument that decides is missing or of another type than it is compared with, the call waits.
    #[schema(
        min_length = 1,
        max_length = 1024,
        examples("/amount > 100 or not /currency in ['EUR', 'USD']")
    )]
    pub when: String,
}

impl Default for Approval {
    fn default() -> Self {
        Self::NEVER
    }
}

impl Approval {
    /// Nobody is asked.
    pub const NEVER: Self = Self::Fixed(ApprovalPolicy::Never);

    /// Every call waits for a decision.
    pub const ALWAYS: Self = Self::Fixed(ApprovalPolicy::Always);

    /// What asks whenever one of two does.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Fixed(ApprovalPolicy::Never), one)
            | (one, Self::Fixed(ApprovalPolicy::Never)) => one,
            (one, other) if one == other => one,
            // Two conditions are not made into one.
            _ => Self::ALWAYS,
        }
    }
}

labels! {
    /// What became of a call in doubt.
    ResolvedAs {
        /// It took effect.
        Succeeded = "succeeded",
        /// It failed.
        Failed = "failed",
        /// It did not take effect and is to be sent again.
        Retry = "retry",
    }
}

/// How long a call in doubt is held by default: ten minutes.
pub const HOLD_TIMEOUT_MS: u64 = 600_000;

/// How long a result or a decision is waited for by default: a day.
pub const ANSWER_TIMEOUT_MS: u64 = 86_400_000;

/// The longest that anything is waited for: thirty days.
pub const MAX_WAIT_MS: u64 = 30 * 86_400_000;

/// What a call may have to wait for, as its tool declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRules {
    /// Whether the caller runs it.
    pub by_client: bool,
    /// Whether it needs a decision before it runs.
    pub approval: bool,
    /// What is done when its outcome is not known.
    pub on_in_doubt: OnInDoubt,
    /// How long a result or a decision is waited for, in milliseconds.
    pub answer_ms: u64,
    /// How long an unknown outcome is held, in milliseconds.
    pub hold_ms: u64,
    /// The run that it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_run: Option<Delegate>,
}

/// What a call starts a run of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegate {
    /// The agent.
    pub agent: AgentId,
    /// Its version, which is settled when the call is made.
    pub version: i32,
    /// How long the run is waited for, in milliseconds.
    pub timeout_ms: u64,
}

impl WaitRules {
    /// The rules of a call that waits for nobody.
    pub const NONE: Self = Self {
        by_client: false,
        approval: false,
        on_in_doubt: OnInDoubt::Observe,
        answer_ms: ANSWER_TIMEOUT_MS,
        hold_ms: HOLD_TIMEOUT_MS,
        by_run: None,
    };

    /// How long a wait of this kind lasts at most, in milliseconds.
    pub const fn bound_ms(self, reason: WaitReason) -> u64 {
        match (reason, self.by_run) {
            (WaitReason::InDoubt, _) => self.hold_ms,
            (WaitReason::SubRuns, Some(delegate)) => delegate.timeout_ms,
            _ => self.answer_ms,
        }
    }
}

/// What a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequiresAction {
    /// What for. Where calls wait for different things, that of the first one.
    pub reason: WaitReason,
    /// The calls that wait for a caller, in call order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<WaitingCall>,
    /// The sub-runs that are waited for, in call order. The run itself shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(ignore)]
    pub sub_runs: Vec<SubRun>,
}

/// A call that waits for a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingCall {
    /// The call.
    pub tool_call_id: CallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the exact text the model sent.
    pub arguments: String,
    /// What it waits for.
    pub reason: WaitReason,
}

/// What a caller answers to a call that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum CallAnswer {
    /// It took effect, with this output.
    Succeeded {
        /// What it gave back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<ToolOutput>,
    },
    /// It failed.
    Failed {
        /// What went wrong.
        error: ToolFailure,
    },
    /// It did not take effect and is to be sent again.
    Retry,
    /// It may run.
    Approved {
        /// The arguments it is to run with, where they are not those of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
    },
    /// It must not run.
    Denied {
        /// What the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

impl CallAnswer {
    /// Whether the call has its outcome with it.
    pub const fn is_outcome(&self) -> bool {
        match self {
            Self::Succeeded { .. } | Self::Failed { .. } | Self::Denied { .. } => true,
            Self::Retry | Self::Approved { .. } => false,
        }
    }
}

/// An answer and what it is an answer to.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenAnswer {
    /// The call.
    pub call_id: CallId,
    /// What the call waited for.
    pub reason: WaitReason,
    /// How often the call had been started when it began to wait.
    pub attempt: u32,
    /// The answer.
    pub answer: CallAnswer,
}
