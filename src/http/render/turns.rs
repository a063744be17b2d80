//! The turns of a prompt as callers see them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::file::FilePart;
use crate::domain::id::CallId;
use crate::engine::{Block, PromptTurn, Role};

/// Blocks of one speaker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RenderedTurn)]
pub(super) struct TurnView {
    /// Who speaks.
    role: RoleView,
    /// What is said.
    blocks: Vec<BlockView>,
}

/// Who speaks in a turn.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RenderedRole)]
enum RoleView {
    System,
    User,
    Assistant,
    Tool,
}

/// A piece of a turn.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "block_kind", rename_all = "snake_case")]
#[schema(as = RenderedBlock)]
enum BlockView {
    /// Text.
    Text(TextBlock),
    /// A file, without its content.
    File(FileBlock),
    /// Thinking that goes back to its issuer.
    Thinking(ThinkingBlock),
    /// Something that only its issuer can read, going back to it.
    Sealed(SealedBlock),
    /// A call the model made.
    ToolCall(CallBlock),
    /// What a call led to.
    ToolResult(ResultBlock),
}

/// Text.
#[derive(Debug, Serialize, ToSchema)]
struct TextBlock {
    /// The text.
    text: String,
}

/// A file, without its content.
#[derive(Debug, Serialize, ToSchema)]
struct FileBlock {
    /// What the model is told to call it.
    id: String,
    /// Its media type.
    media_type: String,
}

/// Thinking that goes back to its issuer.
#[derive(Debug, Serialize, ToSchema)]
struct ThinkingBlock {
    /// The text.
    text: String,
    /// The issuer's signature; null when there is none.
    signature: Option<String>,
}

/// Something that only its issuer can read, going back to it.
#[derive(Debug, Serialize, ToSchema)]
struct SealedBlock {}

/// A call the model made.
#[derive(Debug, Serialize, ToSchema)]
struct CallBlock {
    /// The call's id as the provider is told it.
    id: String,
    /// The call.
    tool_call_id: CallId,
    /// The tool's name.
    name: String,
    /// The arguments, as the provider is told them.
    arguments: String,
}

/// What a call led to.
#[derive(Debug, Serialize, ToSchema)]
struct ResultBlock {
    /// The call's id as the provider is told it.
    id: String,
    /// The call.
    tool_call_id: CallId,
    /// The tool's name.
    name: String,
    /// The observation.
    text: String,
    /// Whether it is a failure.
    is_error: bool,
}

/// The turns.
pub(super) fn turns(turns: Vec<PromptTurn>) -> Vec<TurnView> {
    turns.into_iter().map(TurnView::from).collect()
}

impl From<PromptTurn> for TurnView {
    fn from(PromptTurn { role, blocks }: PromptTurn) -> Self {
        let role = match role {
            Role::System => RoleView::System,
            Role::User => RoleView::User,
            Role::Assistant => RoleView::Assistant,
            Role::Tool => RoleView::Tool,
        };
        Self { role, blocks: blocks.into_iter().map(BlockView::from).collect() }
    }
}

impl From<Block> for BlockView {
    fn from(block: Block) -> Self {
        match block {
            Block::Text(text) | Block::Said { text, .. } => {
                Self::Text(TextBlock { text: text.into_string() })
            }
            Block::File { file: FilePart { id, media_type, .. }, .. } => {
                Self::File(FileBlock { id, media_type })
            }
            Block::Thinking { text, signature, .. } => {
                Self::Thinking(ThinkingBlock { text: text.into_string(), signature })
            }
            Block::RedactedThinking { .. } | Block::Opaque { .. } => Self::Sealed(SealedBlock {}),
            Block::ToolCall { id, call_id, name, arguments, .. } => {
                Self::ToolCall(CallBlock { id, tool_call_id: call_id, name, arguments })
            }
            Block::ToolResult { id, call_id, name, text, is_error } => {
                let text = text.into_string();
                Self::ToolResult(ResultBlock { id, tool_call_id: call_id, name, text, is_error })
            }
        }
    }
}
