//! Agents: immutable, versioned configuration.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::budget::Budget;
use super::id::AgentId;
use super::model::ModelSpec;
use super::redaction::RedactionRule;
use super::skill::SkillRef;
use super::thread::{Announce, FramingPolicy};
use super::tool::ToolSpec;
use crate::labels;

/// A caller's own labels: at most 50 pairs, keys of 64 and values of 512 characters.
pub type Metadata = BTreeMap<String, String>;

/// What an agent is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// Unique within the tenant: `^[a-z0-9][a-z0-9_-]{0,63}$`.
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$", examples("weather"))]
    pub name: String,
    /// The model it thinks with.
    pub model: ModelSpec,
    /// Standing instructions, in the system voice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What it may do; at most 128 tools, each with its own name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 128)]
    pub tools: Vec<ToolSpec>,
    /// The skills it may load; at most 64. A run has them at the versions that it was started with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub skills: Vec<SkillRef>,
    /// JSON Schema that the answer must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// Model turns before the run is asked for its best answer, 1–1,000.
    #[serde(default = "defaults::max_steps")]
    #[schema(minimum = 1, maximum = 1000, default = 15)]
    pub max_steps: u32,
    /// Bound of one model turn in milliseconds, 1–3,600,000.
    #[serde(default = "defaults::model_timeout_ms")]
    #[schema(minimum = 1, maximum = 3_600_000, default = 120_000)]
    pub model_timeout_ms: u64,
    /// Bound of one tool call in milliseconds, 1–3,600,000.
    #[serde(default = "defaults::tool_timeout_ms")]
    #[schema(minimum = 1, maximum = 3_600_000, default = 60_000)]
    pub tool_timeout_ms: u64,
    /// Bound of a whole run in milliseconds, 1–86,400,000; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86_400_000)]
    pub run_timeout_ms: Option<u64>,
    /// Whether calls of one turn run concurrently.
    #[serde(default = "defaults::yes")]
    #[schema(default = true)]
    pub parallel_tools: bool,
    /// Bound of one observation in characters; the stored output stays whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 4_294_967_295_u64)]
    pub max_tool_output_chars: Option<u32>,
    /// Withholds the text of an unexpected tool error from the model and the API; its kind and type
    /// stay, the text goes to the operator's log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redact_errors: bool,
    /// How the history of a thread that a run of this agent creates is framed.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(default = "frames")]
    pub framing_policy: FramingPolicy,
    /// Whether such a thread explains its system blocks to models that have no entry of their own for
    /// them. `when_needed` does so under `frames_and_notes` only.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(default = "when_needed")]
    pub announce: Announce,
    /// What is done when the conversation no longer fits the model.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(default = "error")]
    pub context_strategy: ContextStrategy,
    /// What is kept from the model, from callers and from the log; at most 64 rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub redaction: Vec<RedactionRule>,
    /// What each run may use up, where the run does not say otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// Identical turns in a row that end a run, 2–100.
    #[serde(default = "defaults::loop_limit")]
    #[schema(minimum = 2, maximum = 100, default = 3)]
    pub loop_limit: u32,
    /// Retries in a row for a reply that cannot be used, 0–10.
    #[serde(default = "defaults::output_retries")]
    #[schema(minimum = 0, maximum = 10, default = 2)]
    pub output_retries: u32,
    /// The caller's own labels.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub metadata: Metadata,
}

impl AgentSpec {
    /// Whether it uses what the tenant keeps under a name: secrets, MCP servers with what those are sent, and
    /// items of long-term memory. What a stored agent does with them was settled by whoever may write agents.
    pub fn uses_what_is_kept(&self) -> bool {
        let mut models = std::iter::once(&self.model).chain(&self.model.fallbacks);
        models.any(|model| model.api_key.is_some()) || self.tools.iter().any(tool_uses_what_is_kept)
    }
}

fn tool_uses_what_is_kept(tool: &ToolSpec) -> bool {
    match tool {
        ToolSpec::Http(tool) => tool.headers.values().any(|source| source.secret().is_some()),
        ToolSpec::Mcp(_) => true,
        ToolSpec::Builtin(tool) => tool.name.remembers(),
        // An agent that is called is a stored one, whose tools are its own.
        ToolSpec::Agent(_) | ToolSpec::Client(_) => false,
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

labels! {
    /// What is done when the conversation no longer fits the model's context window. The steps stay
    /// stored whatever is done; what a model is sent changes, and that is a step of its own.
    ContextStrategy {
        /// The run fails.
        Error = "error",
        /// What older tool calls gave back is left out.
        DropToolOutput = "drop_tool_output",
        /// Older steps are replaced by a summary that the model writes in a call of its own.
        Summarize = "summarize",
    }
}

#[expect(clippy::derivable_impls, reason = "the `labels!` macro writes the enum")]
impl Default for ContextStrategy {
    fn default() -> Self {
        Self::Error
    }
}

mod defaults {
    pub(super) const fn max_steps() -> u32 {
        15
    }
    pub(super) const fn model_timeout_ms() -> u64 {
        120_000
    }
    pub(super) const fn tool_timeout_ms() -> u64 {
        60_000
    }
    pub(super) const fn loop_limit() -> u32 {
        3
    }
    pub(super) const fn output_retries() -> u32 {
        2
    }
    pub(super) const fn yes() -> bool {
        true
    }
}

/// One version of an agent as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its id, the same for all versions.
    pub id: AgentId,
    /// 1, 2, 3 …
    pub version: i32,
    /// What this version is.
    pub spec: AgentSpec,
    /// When the agent was created.
    pub created_at: DateTime<Utc>,
    /// When this version was created.
    pub updated_at: DateTime<Utc>,
    /// When the agent was archived: it takes no new runs.
    pub archived_at: Option<DateTime<Utc>>,
}
