//! What a model is asked, before any provider's spelling: the small closed set every codec handles.

mod text;

pub use text::MarkedText;

use super::framing::Tags;
use super::names::ToolNames;
use crate::domain::file::FilePart;
use serde_json::Value;

use crate::domain::id::CallId;
use crate::domain::ledger::{AgentPart, Origin};
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;

/// A provider-neutral request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prompt {
    /// The provider's name for the model.
    pub model: String,
    /// Standing instructions in the system voice; `None` when there are none.
    pub system: Option<MarkedText>,
    /// The conversation, in order.
    pub turns: Vec<PromptTurn>,
    /// The tools the model may call, in declared order and under the names that the provider is told;
    /// empty in the closing turn.
    pub tools: Vec<ToolDefinition>,
    /// What the answer has to conform to, where the provider can see to it.
    pub output_schema: Option<Value>,
    /// The parts of the declaration, other than the instructions, that redaction changed.
    pub redacted: Vec<AgentPart>,
    /// Sampling and size settings.
    pub settings: ModelSettings,
    /// The tags that frames are written with.
    pub tags: Tags,
    /// What the tools are called here, by which the calls of the reply get their names back.
    pub names: ToolNames,
}

/// Blocks of one speaker. Neighbouring turns may have the same role.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptTurn {
    /// Who speaks.
    pub role: Role,
    /// What is said, never empty.
    pub blocks: Vec<Block>,
}

/// Who speaks in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The operator or agentling, in the middle of a conversation; only on native profiles.
    System,
    /// The person, or framed text on their channel.
    User,
    /// The model.
    Assistant,
    /// Tools: only [`Block::ToolResult`].
    Tool,
}

/// A piece of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Text of any speaker but the model.
    Text(MarkedText),
    /// What the model said.
    Said {
        /// The text.
        text: MarkedText,
        /// What its issuer wants back beside it; `None` for text of another provider.
        echo: Option<Value>,
    },
    /// A file that the reader takes as it is; only of the user's turns.
    File {
        /// The file.
        file: FilePart,
        /// Where it comes from.
        origin: Origin,
    },
    /// Thinking that goes back to its issuer.
    Thinking {
        /// The text; may be empty where there is a signature.
        text: MarkedText,
        /// The issuer's signature.
        signature: Option<String>,
        /// The issuer's id of it.
        id: Option<String>,
        /// What its issuer wants back beside it.
        echo: Option<Value>,
    },
    /// Thinking that only its issuer can read, going back to it.
    RedactedThinking {
        /// The issuer's opaque data.
        data: String,
        /// Where it comes from.
        origin: Origin,
    },
    /// Something that only its issuer has words for, going back to it.
    Opaque {
        /// What it sent.
        raw: Value,
        /// Where it comes from.
        origin: Origin,
    },
    /// A call the model made.
    ToolCall {
        /// The call's id as this provider is told it.
        id: String,
        /// Our id of the call.
        call_id: CallId,
        /// The tool's name.
        name: String,
        /// The arguments: the exact text when it is a JSON object, else a stand-in object.
        arguments: String,
        /// What its issuer wants back beside it; `None` for calls of another provider.
        echo: Option<Value>,
        /// Where it comes from.
        origin: Origin,
    },
    /// What a call led to.
    ToolResult {
        /// The call's id as this provider is told it.
        id: String,
        /// Our id of the call.
        call_id: CallId,
        /// The tool's name.
        name: String,
        /// The observation.
        text: MarkedText,
        /// Whether it is a failure.
        is_error: bool,
    },
}
