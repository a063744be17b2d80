//! What a model is asked, before any provider's spelling: the small closed set every codec handles.

use super::names::ToolNames;
use crate::domain::file::FilePart;
use crate::domain::id::CallId;
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;

/// A provider-neutral request.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The provider's name for the model.
    pub model: String,
    /// Standing instructions in the system voice; `None` when there are none.
    pub system: Option<String>,
    /// The conversation, in order.
    pub turns: Vec<PromptTurn>,
    /// The tools the model may call, in declared order and under the names that the provider is told;
    /// empty in the closing turn.
    pub tools: Vec<ToolDefinition>,
    /// Sampling and size settings.
    pub settings: ModelSettings,
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
    /// Text.
    Text(String),
    /// A file that the reader takes as it is; only of the user's turns.
    File(FilePart),
    /// Thinking that goes back to its issuer.
    Thinking {
        /// The text.
        text: String,
        /// The issuer's signature.
        signature: Option<String>,
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
        text: String,
        /// Whether it is a failure.
        is_error: bool,
    },
}
