//! Tools: what an agent may use, and what a model asked.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub use super::agent_tool::AgentTool;
pub use super::builtin_tool::{Builtin, BuiltinTool};
use super::id::CallId;
use super::mcp::McpTool;
pub use super::outcome::{
    JsonOutput, OutcomeKind, TextOutput, ToolCallError, ToolFailure, ToolOutcome, ToolOutput,
};
use super::secret::HeaderSource;
use super::skill::LOAD_SKILL;
use super::wait::{ANSWER_TIMEOUT_MS, Approval, HOLD_TIMEOUT_MS, OnInDoubt, WaitRules};
use crate::labels;

/// The tool that ends a run with an answer; it is always there.
pub const FINAL_ANSWER: &str = "final_answer";

/// Names that no declared tool may take.
pub const RESERVED_NAMES: &[&str] = &[FINAL_ANSWER, LOAD_SKILL];

/// Characters of a description.
pub const MAX_DESCRIPTION: usize = 4_096;

/// A tool an agent may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolSpec {
    /// A URL that the server calls.
    Http(HttpTool),
    /// A tool that the caller runs.
    Client(ClientTool),
    /// Tools of an MCP server.
    Mcp(McpTool),
    /// An agent, which a call starts a run of.
    Agent(AgentTool),
    /// A tool of the server itself.
    Builtin(BuiltinTool),
}

impl ToolSpec {
    /// The name the model knows it by; `None` where it stands for tools that are named elsewhere.
    pub fn tool_name(&self) -> Option<&str> {
        match self {
            Self::Http(tool) => Some(&tool.name),
            Self::Client(tool) => Some(&tool.name),
            Self::Agent(tool) => Some(&tool.name),
            Self::Mcp(_) => None,
            Self::Builtin(tool) => Some(tool.name.label()),
        }
    }
}

/// A tool that is a URL.
///
/// A `{name}` in the path or query of `url` takes the argument of that name, percent-encoded; the
/// other arguments become the JSON body of `POST`, `PUT` and `PATCH`, and query values of `GET` and
/// `DELETE`. Arguments never reach the scheme, the host, the port or a header.
///
/// An answer is a file when its declared type is neither text nor JSON, XML or a form; the model knows it
/// by the name in `Content-Disposition`, or else by that of the tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpTool {
    /// `^[A-Za-z0-9_-]{1,64}$`, unique within the agent.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$", examples("get_weather"))]
    pub name: String,
    /// What the model is told about it; at most 4,096 characters.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub description: String,
    /// JSON Schema of the arguments: an object at the top, only `#/…` references, at most 64 KiB.
    /// Unknown arguments are refused unless the schema says otherwise.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// How the URL is called.
    #[serde(default)]
    pub method: HttpMethod,
    /// The URL template; at most 2,048 characters.
    #[schema(max_length = 2048, examples("https://weather.example/v1/{city}"))]
    pub url: String,
    /// Headers sent with every call: texts, or secrets that are bound to the tool's origin. Reserved names
    /// are refused, and `Authorization` has to be a secret.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, HeaderSource>)]
    pub headers: IndexMap<String, HeaderSource>,
    /// Whether the call may be repeated when its outcome is unknown.
    #[serde(default)]
    pub effect: EffectClass,
    /// Bound of one call in milliseconds, 10–3,600,000; by default the agent's `tool_timeout_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 10, maximum = 3_600_000)]
    pub timeout_ms: Option<u64>,
    /// What is done when a call was sent and its answer is not known; only of `at_most_once` tools.
    #[serde(default)]
    pub on_in_doubt: OnInDoubt,
    /// How long a call in doubt is held, in milliseconds, 1–2,592,000,000; ten minutes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000_000_u64)]
    pub hold_timeout_ms: Option<u64>,
    /// What is asked about a call in doubt with `on_in_doubt: probe`: a URL template like `url`, in which
    /// `{tool_call_id}` is the call's id. It is called with `GET`: 404 says that the call did not take
    /// effect, so that it is sent again; any other success that it did, with the answer as its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048)]
    pub probe_url: Option<String>,
    /// Whether a person has to agree to a call.
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
    /// Whether what it says about its failures is withheld, as with the agent's `redact_errors`, which
    /// is what counts by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact: Option<bool>,
    /// JSON pointer to the part of the response that is the output. The response then has to be JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_path: Option<String>,
}

const fn yes() -> bool {
    true
}

impl HttpTool {
    /// What its calls may have to wait for; whether a call needs a decision depends on its arguments as well.
    pub fn wait_rules(&self) -> WaitRules {
        // A call that may be repeated is never in doubt.
        let on_in_doubt = match self.effect {
            EffectClass::AtMostOnce => self.on_in_doubt,
            EffectClass::Pure | EffectClass::Idempotent => OnInDoubt::Observe,
        };
        WaitRules {
            by_client: false,
            by_run: None,
            approval: self.approval != Approval::NEVER,
            on_in_doubt,
            answer_ms: self.approval_timeout_ms.unwrap_or(ANSWER_TIMEOUT_MS),
            hold_ms: self.hold_timeout_ms.unwrap_or(HOLD_TIMEOUT_MS),
        }
    }
}

/// A tool that the caller runs: the run waits until its results are posted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientTool {
    /// `^[A-Za-z0-9_-]{1,64}$`, unique within the agent.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$", examples("pick_file"))]
    pub name: String,
    /// What the model is told about it; at most 4,096 characters.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub description: String,
    /// JSON Schema of the arguments: an object at the top, only `#/…` references, at most 64 KiB.
    /// Unknown arguments are refused unless the schema says otherwise.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// How long a result is waited for, in milliseconds, 1–2,592,000,000; a day by default. The model is
    /// then told that the call took too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000_000_u64)]
    pub timeout_ms: Option<u64>,
    /// Whether it may run beside other calls of the same turn.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub parallel_safe: bool,
    /// Bound of its observation in characters; by default the agent's `max_tool_output_chars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 4_294_967_295_u64)]
    pub max_output_chars: Option<u32>,
}

impl ClientTool {
    /// What its calls wait for.
    pub fn wait_rules(&self) -> WaitRules {
        let answer_ms = self.timeout_ms.unwrap_or(ANSWER_TIMEOUT_MS);
        WaitRules { by_client: true, answer_ms, ..WaitRules::NONE }
    }
}

labels! {
    /// How an HTTP tool is called.
    HttpMethod {
        /// Arguments go into the query.
        Get = "GET",
        /// Arguments go into the body.
        Post = "POST",
        /// Arguments go into the body.
        Put = "PUT",
        /// Arguments go into the body.
        Patch = "PATCH",
        /// Arguments go into the query.
        Delete = "DELETE",
    }
}

#[expect(clippy::derivable_impls, reason = "the `labels!` macro writes the enum")]
impl Default for HttpMethod {
    fn default() -> Self {
        Self::Post
    }
}

labels! {
    /// Whether a call may be repeated when a crash leaves its outcome unknown.
    EffectClass {
        /// It only reads: repeated freely.
        Pure = "pure",
        /// It honours `Idempotency-Key`: repeated with the same key.
        Idempotent = "idempotent",
        /// It is never repeated by itself; `on_in_doubt` says what becomes of an unknown outcome.
        AtMostOnce = "at_most_once",
    }
}

#[expect(clippy::derivable_impls, reason = "the `labels!` macro writes the enum")]
impl Default for EffectClass {
    fn default() -> Self {
        Self::AtMostOnce
    }
}

/// What a model is told about a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// The name.
    pub name: String,
    /// The description, as declared.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// Whether a text answer fits the agent's output schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// It does; this is its value.
    Fits(Value),
    /// It does not, for these reasons.
    Fails(Vec<super::step::ErrorDetail>),
}

/// What the machine has to know about a call before it starts it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedCall {
    /// The call.
    pub call_id: CallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as sent.
    pub arguments: String,
    /// Whether it may be repeated; `pure` for calls that will not be sent anywhere.
    pub effect: EffectClass,
    /// Whether it may run beside others of its turn.
    pub parallel_safe: bool,
    /// Whether the call could not be read: its name is missing or its arguments are not an object.
    pub unparsable: bool,
    /// What it may have to wait for.
    pub waits: WaitRules,
    /// The outcome of a call that needs nothing from outside: one that is refused before it is sent,
    /// or the answer itself.
    pub settled: Option<ToolOutcome>,
    /// Names of the tools that may be called once it has succeeded; only of a call that is settled, and
    /// only those that could not be called before.
    pub brings: Vec<String>,
}

labels! {
    /// How far a call has come.
    CallState {
        /// Recorded, not started.
        Planned = "planned",
        /// The request may be out.
        Started = "started",
        /// It waits for a caller.
        Waiting = "waiting",
        /// Its outcome is recorded.
        Ended = "ended",
    }
}
