//! An agent as callers see it.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::agent::{Agent, AgentSpec, ContextStrategy, Metadata};
use crate::domain::budget::Budget;
use crate::domain::id::AgentId;
use crate::domain::model::ModelSpec;
use crate::domain::redaction::RedactionRule;
use crate::domain::skill::SkillRef;
use crate::domain::thread::{Announce, FramingPolicy};
use crate::domain::tool::ToolSpec;
use crate::http::time::Time;

/// One version of an agent.
///
/// It repeats the fields of `AgentSpec` rather than embedding it: a request schema is closed, and a
/// closed schema cannot be extended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Agent)]
pub(super) struct AgentView {
    /// Its id, the same for all versions.
    id: AgentId,
    /// Unique within the tenant.
    #[schema(examples("weather"))]
    name: String,
    /// 1, 2, 3 …
    #[schema(examples(1))]
    version: i32,
    /// When the agent was created.
    created_at: Time,
    /// When this version was created.
    updated_at: Time,
    /// When the agent was archived: it takes no new runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_at: Option<Time>,
    /// The model it thinks with.
    model: ModelSpec,
    /// Standing instructions, in the system voice.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    /// What it may do.
    tools: Vec<ToolSpec>,
    /// The skills it may load.
    skills: Vec<SkillRef>,
    /// JSON Schema that the answer must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Value>,
    /// Model turns before the run is asked for its best answer.
    max_steps: u32,
    /// Bound of one model turn in milliseconds.
    model_timeout_ms: u64,
    /// Bound of one tool call in milliseconds.
    tool_timeout_ms: u64,
    /// Bound of a whole run in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_timeout_ms: Option<u64>,
    /// Whether calls of one turn run concurrently.
    parallel_tools: bool,
    /// Bound of one observation in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tool_output_chars: Option<u32>,
    /// Whether the text of an unexpected tool error is withheld.
    redact_errors: bool,
    /// What is kept from the model, from callers and from the log. The values of rules are not shown.
    redaction: Vec<RedactionRule>,
    /// How the history of a thread that a run of this agent creates is framed.
    framing_policy: FramingPolicy,
    /// Whether such a thread explains its system blocks.
    announce: Announce,
    /// What is done when the conversation no longer fits the model.
    context_strategy: ContextStrategy,
    /// What each run may use up, where the run does not say otherwise.
    budget: Budget,
    /// Identical turns in a row that end a run.
    loop_limit: u32,
    /// Retries in a row for a reply that cannot be used.
    output_retries: u32,
    /// The caller's own labels.
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
}

impl From<Agent> for AgentView {
    fn from(agent: Agent) -> Self {
        // Every field is named, so that a new one cannot be left out of what callers read and send back.
        let AgentSpec {
            name,
            model,
            instructions,
            tools,
            skills,
            output_schema,
            max_steps,
            model_timeout_ms,
            tool_timeout_ms,
            run_timeout_ms,
            parallel_tools,
            max_tool_output_chars,
            redact_errors,
            redaction,
            framing_policy,
            announce,
            context_strategy,
            budget,
            loop_limit,
            output_retries,
            metadata,
        } = agent.spec;
        Self {
            id: agent.id,
            version: agent.version,
            created_at: agent.created_at.into(),
            updated_at: agent.updated_at.into(),
            archived_at: agent.archived_at.map(Time::from),
            redaction: redaction.into_iter().map(RedactionRule::without_value).collect(),
            name,
            model,
            instructions,
            tools,
            skills,
            output_schema,
            max_steps,
            model_timeout_ms,
            tool_timeout_ms,
            run_timeout_ms,
            parallel_tools,
            max_tool_output_chars,
            redact_errors,
            framing_policy,
            announce,
            context_strategy,
            budget,
            loop_limit,
            output_retries,
            metadata,
        }
    }
}

/// The `ETag` of a version.
pub(super) fn etag(agent: &Agent) -> String {
    format!("\"{}\"", agent.version)
}
