//! What the machine decided to write down. `store` makes rows of records and records of rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::id::CallId;
use crate::domain::message::Reply;
use crate::domain::run::{Failure, StopReason};
use crate::domain::run_message::Voice;
use crate::domain::step::{InputPart, RetryCause, RetryContent, SummaryStep};
use crate::domain::tool::{PlannedCall, ToolOutcome};
use crate::domain::wait::WaitReason;

/// One thing that happened to a run. All records of one decision are committed together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// The run was given its task: a `task` step.
    TaskGiven {
        /// The input.
        parts: Vec<InputPart>,
    },
    /// A model call is intended (C2).
    TurnStarted {
        /// The turn, from 1.
        turn: u32,
        /// The attempt, from 1.
        attempt: u32,
        /// Whether it is the last turn, without tools.
        closing: bool,
    },
    /// The model that was asked has failed for good: another one is asked for the rest of the turn.
    FellBack {
        /// The turn.
        turn: u32,
        /// The last attempt that the model had which failed.
        attempt: u32,
        /// The place of the one that is asked among the fallbacks, from 1.
        fallback: u32,
    },
    /// The loop speaks in the system voice: a `system` step.
    SystemSaid {
        /// The text.
        text: String,
    },
    /// A message that was added to the run enters it: a `task` or a `system` step.
    MessageGiven {
        /// Its place among the messages of the run, from 1.
        number: u32,
        /// Whose voice it has.
        voice: Voice,
        /// The text.
        text: String,
    },
    /// The model's reply (C3): an `action` step and its calls.
    Replied {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// What it said.
        reply: Reply,
        /// Its calls in order; settled ones are ended by this record.
        calls: Vec<PlannedCall>,
    },
    /// Calls are on record as started (C3 or C4).
    CallsStarted {
        /// Which ones.
        call_ids: Vec<CallId>,
    },
    /// A started call may be sent again after its worker was lost.
    CallRestarted {
        /// Which one.
        call_id: CallId,
        /// The new attempt.
        attempt: u32,
    },
    /// A call waits for a caller from now on.
    CallWaits {
        /// Which one.
        call_id: CallId,
        /// What for.
        reason: WaitReason,
    },
    /// A call may run, as whoever was asked decided.
    CallApproved {
        /// Which one.
        call_id: CallId,
        /// What it runs with, where that is not what the model sent.
        arguments: Option<String>,
    },
    /// Nobody could be asked what became of a call in doubt, or nobody knew. Not written down: after a
    /// crash it is asked once more.
    CallProbed {
        /// Which one.
        call_id: CallId,
    },
    /// A call ended (C5).
    CallEnded {
        /// How; it names the call.
        outcome: ToolOutcome,
    },
    /// Every call of the turn has its outcome: the `action` step is complete.
    ActionRecorded {
        /// The turn.
        turn: u32,
    },
    /// Other tools may be called from now on: a `tools` step, right behind that of the reply whose calls
    /// brought them.
    ToolsChanged {
        /// Names of the tools that came.
        added: Vec<String>,
        /// Names of the tools that went.
        removed: Vec<String>,
    },
    /// The model is asked again: a `retry` step.
    RetryAsked {
        /// The turn whose reply could not be used.
        turn: u32,
        /// Why.
        cause: RetryCause,
        /// What is said.
        content: RetryContent,
    },
    /// Older steps are told in a shorter form from now on: a `summary` step.
    Compacted {
        /// The turn that did not fit.
        turn: u32,
        /// What stands for them.
        summary: SummaryStep,
    },
    /// Nothing goes on until a caller acts or the wait runs out.
    Parked {
        /// What is waited for.
        reason: WaitReason,
    },
    /// The wait is over, or is to be looked at again.
    Unparked,
    /// The run ended (C6).
    Ended(Ending),
    /// The run goes on after an interruption.
    Resumed,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Ending {
    /// With an answer: a `final` step.
    Completed {
        /// The answer as text.
        answer: String,
        /// The answer as a value, when the agent has an output schema.
        output: Option<Value>,
        /// Why.
        stop_reason: StopReason,
    },
    /// With an error.
    Failed(Failure),
    /// By a caller.
    Cancelled,
    /// By a caller, for now.
    Interrupted,
}
