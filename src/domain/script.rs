//! What the scripted model answers: the model that is written into an agent itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::model::FinishReason;
use crate::labels;

/// One reply of the scripted model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptTurn {
    /// The reply's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The reply's thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Tool calls of the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ScriptCall>,
    /// Answers with the last user text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
    /// Wait before the reply, in milliseconds; at most 600,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 600_000)]
    pub delay_ms: Option<u64>,
    /// Streams the text in this many deltas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub chunks: Option<u32>,
    /// The finish reason; by default `tool_calls` with calls and `stop` without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// Token counts to report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ScriptUsage>,
    /// Fails instead of answering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ScriptError>,
}

/// One tool call of the scripted model. Exactly one of `arguments` and `raw_arguments` is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// The tool's name.
    pub name: String,
    /// The arguments as an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<serde_json::Map<String, Value>>,
    /// The arguments as any text, to show what a broken reply leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_arguments: Option<String>,
    /// The provider's call id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Token counts of a scripted reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptUsage {
    /// Input tokens.
    #[serde(default)]
    pub input: u64,
    /// Output tokens.
    #[serde(default)]
    pub output: u64,
}

/// A scripted failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptError {
    /// What kind of failure.
    pub kind: ScriptErrorKind,
    /// Fails this many attempts of the turn and then answers; absent: always fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// What the provider says about when to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

labels! {
    /// How the scripted model can fail.
    ScriptErrorKind {
        /// The provider answers 500.
        Server = "server",
        /// The provider answers 429.
        RateLimit = "rate_limit",
        /// The provider never answers.
        Timeout = "timeout",
        /// The provider answers 400.
        BadRequest = "bad_request",
        /// The stream is cut after its first half.
        Disconnect = "disconnect",
    }
}
