//! A step as callers see it, by kind.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::id::{BlockId, RunId, StepId, ThreadId};
use crate::domain::message::Reply;
use crate::domain::model::Usage;
use crate::domain::request::RequestFigures;
use crate::domain::run::StopReason;
use crate::domain::step::{InputPart, Replaces, RetryCause, RetryContent, Step, StepContent};
use crate::domain::tool::ToolOutcome;
use crate::http::requests::view::SpanView;
use crate::http::time::Time;

/// An entry of a thread's history.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(as = Step)]
pub(crate) enum StepView {
    /// What the caller asked.
    Task(TaskStepView),
    /// One model reply and the outcome of every tool call in it.
    Action(ActionStepView),
    /// A request to answer again.
    Retry(RetryStepView),
    /// Text in the system voice.
    System(SystemStepView),
    /// A block of context, set or withdrawn.
    Context(ContextStepView),
    /// Tools that the model may call from then on, or no longer.
    Tools(ToolsStepView),
    /// What stands for older steps in what a model is sent.
    Summary(SummaryStepView),
    /// The answer.
    Final(FinalStepView),
}

/// Declares the view of each kind: what all steps have, and then its own fields. An embedded struct
/// would do the same in Rust, and give generated clients a nest of anonymous schemas.
macro_rules! views {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)+ })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Serialize, ToSchema)]
        pub(crate) struct $name {
            /// Its id.
            id: StepId,
            /// Its place in the thread: 1, 2, 3 … without gaps.
            #[schema(examples(1))]
            seq: i64,
            /// The thread.
            thread_id: ThreadId,
            /// The run that appended it; null for loaded memory and for what an operator wrote.
            run_id: Option<RunId>,
            /// The turn it belongs to; 0 before the first.
            turn: u32,
            /// When it was appended.
            created_at: Time,
            $($(#[$field_meta])* $field: $type,)+
        }

        impl $name {
            fn of(at: &Placed, own: ($($type,)+)) -> Self {
                let Placed { id, seq, thread_id, run_id, turn, created_at } = *at;
                let ($($field,)+) = own;
                Self { id, seq, thread_id, run_id, turn, created_at, $($field,)+ }
            }
        }
    )+};
}

views! {
    /// What the caller asked.
    TaskStepView {
        /// The input, in order.
        parts: Vec<InputPart>,
    }
    /// One model reply and the outcome of every tool call in it.
    ActionStepView {
        /// The attempt whose reply it is; 0 for loaded memory.
        attempt: u32,
        /// What the model said.
        reply: Reply,
        /// One outcome a call, in call order; calls that are still under way have none yet.
        outcomes: Vec<ToolOutcome>,
        /// The tokens of the reply, where they are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// The request that the model answered; null for loaded memory, and for a reply that was cut
        /// off.
        request: Option<RequestView>,
    }
    /// A request to answer again.
    RetryStepView {
        /// Why.
        cause: RetryCause,
        /// What is said about it.
        content: RetryContent,
    }
    /// Text in the system voice.
    SystemStepView {
        /// The text.
        text: String,
    }
    /// A block of context, set or withdrawn.
    ContextStepView {
        /// The block.
        block_id: BlockId,
        /// What it says from now on; null when it is withdrawn.
        text: Option<String>,
    }
    /// Tools that the model may call from then on, or no longer.
    ToolsStepView {
        /// Names of the tools that came.
        added: Vec<String>,
        /// Names of the tools that went.
        removed: Vec<String>,
    }
    /// What stands for older steps in what a model is sent.
    SummaryStepView {
        /// How much of the steps up to `through_seq` it stands for.
        replaces: Replaces,
        /// `seq` of the last step it stands for.
        through_seq: i64,
        /// What is told of them; absent where only their tools' output is left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The tokens that writing it took, where they are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    }
    /// The answer.
    FinalStepView {
        /// The answer as text; with an output schema, the JSON text.
        answer: String,
        /// The answer as a value, when the agent has an output schema.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        output: Option<Value>,
        /// Why the run ended; absent in loaded memory that does not say.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<StopReason>,
    }
}

/// A request to a model in figures. A provider's cache of prompts can serve what two requests begin
/// with, and a request begins with the whole of the one before it up to where that one's conversation
/// ends. It is less where the conversation was made shorter, where the memory was loaded or reset, where
/// another agent or another version of it goes on with the thread, in the closing turn, which has no
/// tools, and, under `frames_and_notes` with `announce: when_needed`, once: when there is something to
/// explain in the standing instructions.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = StepRequest)]
pub(crate) struct RequestView {
    /// How long its body was.
    #[schema(examples(2048))]
    bytes: u64,
    /// How many of its leading bytes were those of the thread's last request that got a reply: 0 for the
    /// first of a thread, and null where the one before it is not known any more.
    #[schema(examples(1980))]
    shared_bytes: Option<u64>,
    /// The SHA-256 of its body.
    sha256: String,
    /// The span of it that follows those leading bytes: the first that differs from the request before.
    /// Null where none was compared, or nothing follows.
    first_difference: Option<SpanView>,
}

impl From<RequestFigures> for RequestView {
    fn from(figures: RequestFigures) -> Self {
        let RequestFigures { bytes, shared_bytes, sha256, difference } = figures;
        let first_difference = difference.map(SpanView::from);
        Self { bytes, shared_bytes, sha256: sha256.to_string(), first_difference }
    }
}

/// What all steps have.
#[derive(Debug, Clone, Copy)]
struct Placed {
    id: StepId,
    seq: i64,
    thread_id: ThreadId,
    run_id: Option<RunId>,
    turn: u32,
    created_at: Time,
}

impl From<Step> for StepView {
    fn from(step: Step) -> Self {
        let Step { id, seq, thread_id, run_id, turn, attempt, content, request, created_at } = step;
        let at = &Placed { id, seq, thread_id, run_id, turn, created_at: created_at.into() };
        match content {
            StepContent::Task(own) => Self::Task(TaskStepView::of(at, (own.parts,))),
            StepContent::Action(own) => {
                let usage = own.reply.usage;
                let request = request.map(RequestView::from);
                let own = (attempt, own.reply, own.outcomes, usage, request);
                Self::Action(ActionStepView::of(at, own))
            }
            StepContent::Retry(own) => Self::Retry(RetryStepView::of(at, (own.cause, own.content))),
            StepContent::System(own) => Self::System(SystemStepView::of(at, (own.text,))),
            StepContent::Context(own) => Self::Context(ContextStepView::of(at, (own.id, own.text))),
            StepContent::Tools(own) => Self::Tools(ToolsStepView::of(at, (own.added, own.removed))),
            StepContent::Summary(own) => {
                let own = (own.replaces, own.through_seq, own.text, own.usage);
                Self::Summary(SummaryStepView::of(at, own))
            }
            StepContent::Final(own) => {
                Self::Final(FinalStepView::of(at, (own.answer, own.output, own.stop_reason)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::domain::step::{FinalStep, TaskStep};

    fn step(content: StepContent) -> Step {
        Step {
            id: StepId::from(Uuid::from_u128(1)),
            seq: 3,
            thread_id: ThreadId::from(Uuid::from_u128(2)),
            run_id: None,
            turn: 0,
            attempt: 0,
            content,
            request: None,
            created_at: DateTime::from_timestamp_micros(1_700_000_000_123_456).unwrap(),
        }
    }

    #[test]
    fn a_step_shows_its_kind_its_place_and_its_own_fields() {
        let task = StepContent::Task(TaskStep { parts: Vec::new() });
        let view = serde_json::to_value(StepView::from(step(task))).unwrap();
        let expected = json!({
            "kind": "task", "id": "stp_00000000000000000000000000000001", "seq": 3,
            "thread_id": "thr_00000000000000000000000000000002", "run_id": null, "turn": 0,
            "created_at": "2023-11-14T22:13:20.123Z", "parts": [],
        });
        assert_eq!(view, expected);
    }

    #[test]
    fn an_answer_that_is_null_is_not_an_answer_without_output() {
        let end = |output| {
            let end = FinalStep { answer: "null".to_owned(), output, stop_reason: None };
            serde_json::to_value(StepView::from(step(StepContent::Final(end)))).unwrap()
        };
        assert_eq!(end(Some(Value::Null)).get("output"), Some(&Value::Null));
        assert_eq!(end(None).get("output"), None);
    }
}
