//! Steps: the entries of a thread's history, by kind.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::file::FilePart;
use super::id::{BlockId, CallId, RunId, StepId, ThreadId};
use super::message::Reply;
use super::model::Usage;
use super::request::RequestFigures;
use super::run::StopReason;
use super::tool::ToolOutcome;
use crate::labels;

labels! {
    /// What a step is.
    StepKind {
        /// What the caller asked.
        Task = "task",
        /// One model reply and the outcome of every tool call in it.
        Action = "action",
        /// A request to answer again.
        Retry = "retry",
        /// Text of the operator or of the loop, in the system voice.
        System = "system",
        /// A block of context, set or withdrawn.
        Context = "context",
        /// Tools that the model may call from now on, or no longer.
        Tools = "tools",
        /// What stands for older steps in what a model is sent.
        Summary = "summary",
        /// The answer.
        Final = "final",
    }
}

/// The content of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepContent {
    /// What the caller asked.
    Task(TaskStep),
    /// One model reply and the outcome of every tool call in it.
    Action(ActionStep),
    /// A request to answer again.
    Retry(RetryStep),
    /// Text in the system voice.
    System(SystemStep),
    /// A block of context, set or withdrawn.
    Context(ContextStep),
    /// Tools that the model may call from now on, or no longer.
    Tools(ToolsStep),
    /// What stands for older steps in what a model is sent.
    Summary(SummaryStep),
    /// The answer.
    Final(FinalStep),
}

impl StepContent {
    /// The kind, as stored beside the content.
    pub const fn kind(&self) -> StepKind {
        match self {
            Self::Task(_) => StepKind::Task,
            Self::Action(_) => StepKind::Action,
            Self::Retry(_) => StepKind::Retry,
            Self::System(_) => StepKind::System,
            Self::Context(_) => StepKind::Context,
            Self::Tools(_) => StepKind::Tools,
            Self::Summary(_) => StepKind::Summary,
            Self::Final(_) => StepKind::Final,
        }
    }

    /// The same as [`Self::moved_by`], for who has no further use for the step itself.
    #[must_use]
    pub const fn moved(mut self, by: i64) -> Self {
        if let Self::Summary(summary) = &mut self {
            summary.through_seq = summary.through_seq.saturating_add(by);
        }
        self
    }

    /// The same where every step of the history stands `by` places further on: what it says of other
    /// steps moves along.
    pub fn moved_by(&self, by: i64) -> Cow<'_, Self> {
        match self {
            Self::Summary(summary) if by != 0 => {
                let through_seq = summary.through_seq.saturating_add(by);
                Cow::Owned(Self::Summary(SummaryStep { through_seq, ..summary.clone() }))
            }
            other => Cow::Borrowed(other),
        }
    }
}

/// What the caller asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskStep {
    /// The input, in order; at least one part.
    pub parts: Vec<InputPart>,
}

/// A piece of input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "part_kind", rename_all = "snake_case")]
pub enum InputPart {
    /// Text.
    Text(InputText),
    /// A file.
    File(FilePart),
}

impl InputPart {
    /// The text, when it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(part) => Some(&part.text),
            Self::File(_) => None,
        }
    }

    /// The file, when it is one.
    pub const fn file(&self) -> Option<&FilePart> {
        match self {
            Self::Text(_) => None,
            Self::File(part) => Some(part),
        }
    }
}

/// Text of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InputText {
    /// The text.
    pub text: String,
}

/// One model reply and the outcome of every tool call in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionStep {
    /// What the model said.
    pub reply: Reply,
    /// One outcome a call, in call order. Calls that are still under way have none yet.
    #[serde(default)]
    pub outcomes: Vec<ToolOutcome>,
    /// What a version 1 document said beyond the words of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1: Option<V1Extras>,
}

/// What a step loaded from a version 1 document carries so that it exports without loss.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct V1Extras {
    /// `model_message.role`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Whether `model_message.content` was an empty text rather than null.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub content_is_empty_text: bool,
    /// `model_message.tool_call_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// `model_message.usage`, as it stood there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub message_usage: Option<Value>,
    /// The step's `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The step's `usage`, as it stood there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub usage: Option<Value>,
    /// The step's `duration` in seconds, as it was spelt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub duration: Option<Value>,
    /// Calls whose result was an error that named no `error_kind`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untyped_errors: Vec<CallId>,
}

labels! {
    /// Why a reply is asked for again.
    RetryCause {
        /// Something failed validation: feedback and a request to fix it.
        Error = "error",
        /// The reply held nothing usable: the text is sent as it is.
        NoOutput = "no_output",
    }
}

/// A request to answer again. One that answers a tool call is not a retry step: it is that call's
/// outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryStep {
    /// Why.
    pub cause: RetryCause,
    /// What to say about it.
    pub content: RetryContent,
}

/// What a retry says: a message, or a list of what failed (only with cause `error`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum RetryContent {
    /// A message.
    Message(String),
    /// What failed, one entry an error.
    Errors(Vec<ErrorDetail>),
}

/// One validation error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorDetail {
    /// The rule that failed, for example `missing` or `type`.
    pub r#type: String,
    /// Where, as keys and indexes from the root.
    #[schema(value_type = Vec<Object>)]
    pub loc: Vec<Value>,
    /// What is wrong.
    pub msg: String,
    /// The value in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input: Option<Value>,
}

/// Text in the system voice, in the middle of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemStep {
    /// The text.
    pub text: String,
}

/// A block of context: a text of the operator that the model keeps in mind until it is set anew or
/// withdrawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextStep {
    /// The block.
    pub id: BlockId,
    /// What it says from now on; `None` when it is withdrawn.
    pub text: Option<String>,
}

/// A change of the tools that the model may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolsStep {
    /// Names of the tools that came.
    #[serde(default)]
    pub added: Vec<String>,
    /// Names of the tools that went.
    #[serde(default)]
    pub removed: Vec<String>,
}

/// What stands for older steps in what a model is sent. The steps themselves stay stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SummaryStep {
    /// How much of the steps up to `through_seq` it stands for.
    pub replaces: Replaces,
    /// `seq` of the last step it stands for.
    pub through_seq: i64,
    /// What is told of them; only where steps are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The tokens that writing it took, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

labels! {
    /// How much of older steps a summary stands for.
    Replaces {
        /// All of them: the model reads the summary's text instead.
        Steps = "steps",
        /// What their tools gave back; everything else is told as before.
        ToolOutput = "tool_output",
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinalStep {
    /// The answer as text; with an output schema, the JSON text.
    pub answer: String,
    /// The answer as a value, when the agent has an output schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
    /// Why the run ended; absent in imported histories that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
}

/// A step as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its id.
    pub id: StepId,
    /// Its place in the thread: 1, 2, 3 … without gaps.
    pub seq: i64,
    /// The thread.
    pub thread_id: ThreadId,
    /// The run that appended it; `None` for loaded memory and for what an operator wrote.
    pub run_id: Option<RunId>,
    /// The turn it belongs to; 0 before the first.
    pub turn: u32,
    /// The attempt whose reply it is; 0 where there is none.
    pub attempt: u32,
    /// What it says.
    pub content: StepContent,
    /// The request that it is the reply to; only of an action, and only where it was seen.
    pub request: Option<RequestFigures>,
    /// When it was appended.
    pub created_at: DateTime<Utc>,
}
