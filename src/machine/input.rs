//! What happened outside. Every input carries the key of the effect it answers, so that a late or
//! repeated one decides to nothing.

use serde::{Deserialize, Serialize};

use crate::domain::id::CallId;
use crate::domain::message::Reply;
use crate::domain::run::Failure;
use crate::domain::step::SummaryStep;
use crate::domain::tool::{PlannedCall, ToolOutcome, Verdict};
use crate::domain::wait::CallAnswer;

/// Something that happened outside the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// A worker holds the run: for the first time, or again after another one lost it.
    Claimed,
    /// The model answered.
    Replied {
        /// The turn it answers.
        turn: u32,
        /// The attempt it answers.
        attempt: u32,
        /// What it said, with final call ids.
        reply: Reply,
        /// One entry a tool call of the reply, in call order.
        calls: Vec<PlannedCall>,
        /// How the text fits the output schema; `None` without a schema or without text.
        verdict: Option<Verdict>,
    },
    /// The model call failed.
    ModelFailed {
        /// The turn it was for.
        turn: u32,
        /// The attempt it was for.
        attempt: u32,
        /// Whether another attempt may succeed.
        retryable: bool,
        /// Whether another model may succeed.
        elsewhere: bool,
        /// What a final failure says.
        failure: Failure,
    },
    /// The conversation does not fit the model, and a way was found to make it shorter.
    Compacted {
        /// The turn that waits for it.
        turn: u32,
        /// The attempt that waits for it.
        attempt: u32,
        /// What stands for older steps from now on.
        summary: SummaryStep,
    },
    /// Calls are about to be sent; they must be on record as started before a byte goes out.
    CallsStarting {
        /// Which ones.
        call_ids: Vec<CallId>,
    },
    /// A call ended.
    CallEnded {
        /// How; it names the call.
        outcome: ToolOutcome,
        /// The attempt it answers.
        attempt: u32,
    },
    /// What became of a call in doubt was asked where its tool says.
    Probed {
        /// The call.
        call_id: CallId,
        /// How often it had been started.
        attempt: u32,
        /// What is known of it; `None` when nothing is.
        answer: Option<CallAnswer>,
    },
    /// A caller asks to stop at the next boundary.
    Interrupted {
        /// What had arrived of the reply in flight.
        partial: Option<Reply>,
    },
    /// A caller asks to end the run.
    Cancelled,
    /// The run took too long, was claimed too often, or the server is at fault.
    Aborted {
        /// Why.
        failure: Failure,
    },
    /// A caller asks to go on after an interruption.
    Resumed,
}
