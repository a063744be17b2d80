//! Tools that are agents: a call is a run of its own.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::budget::Budget;
use super::id::AgentId;
use super::wait::{ANSWER_TIMEOUT_MS, Approval, Delegate, WaitRules};
use crate::labels;

/// The argument that says what is asked, where a tool has no parameters of its own.
pub const TASK: &str = "task";

/// The most sub-runs that the calls of one turn start.
pub const SUB_RUNS_PER_TURN: usize = 32;

/// A tool that is an agent: a call starts a run of it, a sub-run, and the answer of that is the call's
/// output.
///
/// The sub-run is asked with the text of `task` where that is the call's only argument, else with the
/// arguments as JSON. It is a run as any other: it has its own id, which is that of the call, its own
/// thread, stream and ledger, and is listed by `parent_run_id`. Where it fails, is cancelled or is
/// interrupted, the call has failed and the model is told. When the run that called it ends, or the call
/// takes too long, it is cancelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentTool {
    /// `^[A-Za-z0-9_-]{1,64}$`, unique within the agent.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$", examples("researcher"))]
    pub name: String,
    /// What the model is told about it; at most 4,096 characters.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub description: String,
    /// The agent, by its id or name. Which version runs is settled when the model makes the call.
    #[schema(max_length = 64, examples("researcher"))]
    pub agent: String,
    /// The agent's version; the newest by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub version: Option<i32>,
    /// The thread that the sub-run appends to.
    #[serde(default)]
    pub thread: SubThread,
    /// JSON Schema of the arguments, as that of other tools; by default an object with the text `task`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Value>,
    /// What the sub-run may use up, where that is not what its agent says. Whatever it uses is also taken
    /// from the budget of the run that calls it.
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// How long the sub-run is waited for, in milliseconds, 1–2,592,000,000; a day by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000_000_u64)]
    pub timeout_ms: Option<u64>,
    /// Whether a person has to agree to every call.
    #[serde(default)]
    pub approval: Approval,
    /// How long a decision is waited for, in milliseconds, 1–2,592,000,000; a day by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000_000_u64)]
    pub approval_timeout_ms: Option<u64>,
    /// Whether it may run beside other calls of the same turn.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub parallel_safe: bool,
    /// Bound of its observation in characters; by default the agent's `max_tool_output_chars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 4_294_967_295_u64)]
    pub max_output_chars: Option<u32>,
}

const fn yes() -> bool {
    true
}

impl AgentTool {
    /// What its calls may have to wait for before the sub-run starts.
    pub fn wait_rules(&self) -> WaitRules {
        let answer_ms = self.approval_timeout_ms.unwrap_or(ANSWER_TIMEOUT_MS);
        WaitRules { approval: self.approval != Approval::NEVER, answer_ms, ..WaitRules::NONE }
    }

    /// What a call waits for that starts a run of this version of the agent.
    pub fn delegate(&self, agent: AgentId, version: i32) -> Delegate {
        let timeout_ms = self.timeout_ms.unwrap_or(ANSWER_TIMEOUT_MS);
        Delegate { agent, version, timeout_ms }
    }

    /// The schema of its arguments.
    pub fn parameters(&self) -> Value {
        self.parameters.clone().unwrap_or_else(|| {
            json!({
                "type": "object",
                "properties": { TASK: {
                    "type": "string",
                    "description": "What the agent is asked to do, with all that it has to know.",
                } },
                "required": [TASK],
            })
        })
    }
}

/// What a sub-run is asked, from the arguments of its call.
pub fn task_of(arguments: &str) -> String {
    let read: Option<Value> = serde_json::from_str(arguments).ok();
    let members = read.as_ref().and_then(Value::as_object).filter(|members| members.len() == 1);
    let task = members.and_then(|members| members.get(TASK)).and_then(Value::as_str);
    task.unwrap_or(arguments).to_owned()
}

labels! {
    /// The thread that a sub-run appends to.
    SubThread {
        /// One of its own.
        New = "new",
    }
}

#[expect(clippy::derivable_impls, reason = "the `labels!` macro writes the enum")]
impl Default for SubThread {
    fn default() -> Self {
        Self::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_task_is_asked_as_text_and_other_arguments_as_they_are_spelt() {
        for (arguments, task) in [
            (r#"{"task": "Find it."}"#, "Find it."),
            (r#"{"task": "Find it.", "n": 1}"#, r#"{"task": "Find it.", "n": 1}"#),
            (r#"{"task": 1}"#, r#"{"task": 1}"#),
            (r#"{"n": 1.10}"#, r#"{"n": 1.10}"#),
        ] {
            assert_eq!(task_of(arguments), task);
        }
    }
}
