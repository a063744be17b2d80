//! A model's reply and its parts, tagged by `part_kind`. One definition for store, API and documents.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::id::CallId;
use super::model::{FinishReason, Provider, Usage};
use crate::labels;

labels! {
    /// Whether a reply was received to its end.
    ReplyState {
        /// It was.
        Complete = "complete",
        /// It was interrupted; the parts are what had arrived.
        Interrupted = "interrupted",
    }
}

/// One reply of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// Who answered; absent in imported histories that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Where the provider was reached, as host and port; absent where it is not known. What only its
    /// issuer can read goes back to that place alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The model's name as the provider gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Why the model stopped; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// Tokens; absent where the provider gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether it was received to its end.
    pub state: ReplyState,
    /// What was said, in order.
    pub parts: Vec<ReplyPart>,
}

impl Reply {
    /// The text parts, joined; `None` when there is no text other than white space.
    pub fn text(&self) -> Option<String> {
        let text: String = self
            .parts
            .iter()
            .filter_map(|part| {
                if let ReplyPart::Text(text) = part { Some(text.text.as_str()) } else { None }
            })
            .collect();
        if text.trim().is_empty() { None } else { Some(text) }
    }

    /// The refusal parts, joined; `None` when there is none.
    pub fn refusal(&self) -> Option<String> {
        let text: String = self
            .parts
            .iter()
            .filter_map(|part| {
                if let ReplyPart::Refusal(refusal) = part {
                    Some(refusal.text.as_str())
                } else {
                    None
                }
            })
            .collect();
        if text.trim().is_empty() { None } else { Some(text) }
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCallPart> {
        self.parts
            .iter()
            .filter_map(|part| if let ReplyPart::ToolCall(call) = part { Some(call) } else { None })
    }
}

/// A typed piece of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "part_kind", rename_all = "snake_case")]
pub enum ReplyPart {
    /// What the model says.
    Text(TextPart),
    /// What the model thinks aloud.
    Thinking(ThinkingPart),
    /// Thinking that only its issuer can read.
    RedactedThinking(RedactedThinkingPart),
    /// A tool the model asks for.
    ToolCall(ToolCallPart),
    /// A refusal to answer.
    Refusal(RefusalPart),
    /// Something this version has no words for, kept as it came.
    Unknown(UnknownPart),
}

/// Text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// What its issuer wants back beside it, as it came: signatures and other members of the wire that
    /// have no place of their own here. Only the provider that sent the reply is told it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub echo: Option<Value>,
}

/// Thinking, with what its issuer needs to accept it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ThinkingPart {
    /// The text.
    pub text: String,
    /// The issuer's signature over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The issuer's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who issued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Provider>,
    /// What its issuer wants back beside it, as it came: signatures and other members of the wire that
    /// have no place of their own here. Only the provider that sent the reply is told it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub echo: Option<Value>,
}

/// Thinking that only its issuer can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactedThinkingPart {
    /// The issuer's opaque data.
    pub data: String,
    /// Who issued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Provider>,
}

/// A tool the model asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCallPart {
    /// Our id of the call, unique within its thread.
    pub tool_call_id: CallId,
    /// The provider's id of the call, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
    /// The tool's name as the model wrote it; may be empty or unknown.
    pub name: String,
    /// The arguments as the exact text the provider sent: key order and number spelling are kept.
    pub arguments: String,
    /// What its issuer wants back beside it, as it came: signatures and other members of the wire that
    /// have no place of their own here. Only the provider that sent the reply is told it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub echo: Option<Value>,
}

/// A refusal to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefusalPart {
    /// The model's words.
    pub text: String,
}

/// Something a provider sent that this version has no words for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UnknownPart {
    /// Who sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Provider>,
    /// What it sent.
    #[schema(value_type = Object)]
    pub raw: Value,
}
