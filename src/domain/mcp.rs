//! Servers of the Model Context Protocol: how a tenant registers one, what an agent uses of it, and what
//! a run keeps of its list of tools.
//!
//! What a server says about its tools is text of someone else. It never decides whether a call may be
//! repeated or has to be approved: that is only ever said here.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::agent::Metadata;
use super::id::McpServerId;
use super::secret::HeaderSource;
use super::tool::{EffectClass, ToolDefinition};
use super::wait::{ANSWER_TIMEOUT_MS, Approval, HOLD_TIMEOUT_MS, OnInDoubt, WaitRules};
use crate::labels;

/// A registered server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// Its id.
    pub id: McpServerId,
    /// What callers say of it.
    pub spec: McpServerSpec,
    /// When it was registered.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// A server that is reached by streamable HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServerSpec {
    /// `^[A-Za-z0-9_-]{1,64}$`, unique within the tenant: agents refer to the server by it.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$", examples("tickets"))]
    pub name: String,
    /// Where it is reached. What holds for the URLs of tools holds for it; redirects are not followed.
    #[schema(min_length = 1, max_length = 2048, examples("https://tickets.example/mcp"))]
    pub url: String,
    /// Headers sent with every request: texts, or secrets that are bound to the server's origin.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = BTreeMap<String, HeaderSource>)]
    pub headers: IndexMap<String, HeaderSource>,
    /// Bound of connecting and listing in milliseconds, 1–60,000; ten seconds by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 60_000)]
    pub connect_timeout_ms: Option<u64>,
    /// The tools that agents may use, by the names that the server gives them; all when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Tools that no agent may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// What holds for its tools.
    #[serde(default, skip_serializing_if = "McpRules::is_empty")]
    pub rules: McpRules,
    /// What holds for single tools, by the names that the server gives them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, McpRules>,
    /// The caller's own labels.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub metadata: Metadata,
}

/// How long a server has for connecting and listing, in milliseconds, where nothing is said.
pub const CONNECT_TIMEOUT_MS: u64 = 10_000;

impl McpServerSpec {
    /// What holds for a tool of the server, for one agent. Of a program of the operator's an agent may ask
    /// for more care than the operator, and never for less.
    pub fn rules_for(&self, tool: &str, agent: &McpRules) -> McpRules {
        let own = self.overrides.get(tool).cloned().unwrap_or_default().or(self.rules.clone());
        if self.is_program() { own.tightened(agent) } else { agent.clone().or(own) }
    }

    /// Whether it is a program of the operator's: those have no URL.
    pub const fn is_program(&self) -> bool {
        self.url.is_empty()
    }

    /// Whether agents may use a tool.
    pub fn offers(&self, tool: &str) -> bool {
        let is = |name: &String| name == tool;
        self.allow.as_ref().is_none_or(|allow| allow.iter().any(is)) && !self.deny.iter().any(is)
    }
}

/// What holds for tools of a server. What is absent is left to the next one that says something: the
/// agent, then the server's word about the tool, then about all of its tools.
///
/// Where the server is a program of the operator's and both say something, the stricter of the two holds; and
/// only the operator can say that calls may be repeated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct McpRules {
    /// Whether a call may be repeated when its outcome is unknown; `at_most_once` where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectClass>,
    /// Bound of one call in milliseconds, 10–3,600,000; by default the agent's `tool_timeout_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 10, maximum = 3_600_000)]
    pub timeout_ms: Option<u64>,
    /// What is done when a call was sent and its answer is not known: `hold` or `observe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_in_doubt: Option<OnInDoubt>,
    /// How long a call in doubt is held, in milliseconds, 1–2,592,000,000; ten minutes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000_000_u64)]
    pub hold_timeout_ms: Option<u64>,
    /// Whether a person has to agree to every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// How long a decision is waited for, in milliseconds, 1–2,592,000,000; a day by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000_000_u64)]
    pub approval_timeout_ms: Option<u64>,
    /// Whether calls may run beside other calls of the same turn; they may by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_safe: Option<bool>,
    /// Bound of an observation in characters; by default the agent's `max_tool_output_chars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 4_294_967_295_u64)]
    pub max_output_chars: Option<u32>,
}

impl McpRules {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These rules, and where they say nothing, others.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            effect: self.effect.or(other.effect),
            timeout_ms: self.timeout_ms.or(other.timeout_ms),
            on_in_doubt: self.on_in_doubt.or(other.on_in_doubt),
            hold_timeout_ms: self.hold_timeout_ms.or(other.hold_timeout_ms),
            approval: self.approval.or(other.approval),
            approval_timeout_ms: self.approval_timeout_ms.or(other.approval_timeout_ms),
            parallel_safe: self.parallel_safe.or(other.parallel_safe),
            max_output_chars: self.max_output_chars.or(other.max_output_chars),
        }
    }

    /// These rules, and those of them that others are stricter about as the others have it.
    #[must_use]
    fn tightened(self, other: &Self) -> Self {
        Self {
            // Only the operator says that calls may be repeated; no word of it is a word against it.
            effect: stricter(Some(self.effect()), other.effect, EffectClass::max),
            timeout_ms: stricter(self.timeout_ms, other.timeout_ms, u64::min),
            on_in_doubt: stricter(self.on_in_doubt, other.on_in_doubt, OnInDoubt::stricter),
            // The longer it is held, the later the model is told without anybody's word.
            hold_timeout_ms: stricter(self.hold_timeout_ms, other.hold_timeout_ms, u64::max),
            approval: stricter(self.approval, other.approval.clone(), Approval::stricter),
            // Who does not decide in time has refused.
            approval_timeout_ms: stricter(
                self.approval_timeout_ms,
                other.approval_timeout_ms,
                u64::min,
            ),
            parallel_safe: stricter(self.parallel_safe, other.parallel_safe, |own, its| own && its),
            max_output_chars: stricter(self.max_output_chars, other.max_output_chars, u32::min),
        }
    }

    /// Whether calls may be repeated.
    pub fn effect(&self) -> EffectClass {
        self.effect.unwrap_or_default()
    }

    /// What calls may have to wait for.
    pub fn wait_rules(&self) -> WaitRules {
        let on_in_doubt = match self.effect() {
            EffectClass::AtMostOnce => self.on_in_doubt.unwrap_or_default(),
            // A call that may be repeated is never in doubt.
            EffectClass::Pure | EffectClass::Idempotent => OnInDoubt::Observe,
        };
        WaitRules {
            by_client: false,
            by_run: None,
            approval: self.approval.as_ref().is_some_and(|approval| *approval != Approval::NEVER),
            on_in_doubt,
            answer_ms: self.approval_timeout_ms.unwrap_or(ANSWER_TIMEOUT_MS),
            hold_ms: self.hold_timeout_ms.unwrap_or(HOLD_TIMEOUT_MS),
        }
    }
}

fn stricter<T>(own: Option<T>, other: Option<T>, of: impl FnOnce(T, T) -> T) -> Option<T> {
    match (own, other) {
        (Some(own), Some(other)) => Some(of(own, other)),
        (own, other) => own.or(other),
    }
}

/// Tools of an MCP server. Which they are is asked when a run begins, and holds for the whole run.
///
/// A tool keeps the name that its server gives it; where another tool has that name, it is
/// `{server}__{name}` instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct McpTool {
    /// The name of the server: one that is registered, or one of the operator's.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$", examples("tickets"))]
    pub server: String,
    /// Which tools, by the names that the server gives them; all when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What holds for them, before what is registered with the server; of a program of the operator's only
    /// as far as it is stricter than what the operator says.
    #[serde(default, skip_serializing_if = "McpRules::is_empty")]
    pub rules: McpRules,
}

impl McpTool {
    /// Whether it takes in a tool of its server.
    pub fn selects(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool))
    }
}

/// A tool of a server as a run keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PinnedTool {
    /// The name the model knows it by.
    pub name: String,
    /// The name of its server.
    pub server: String,
    /// The name that the server gives it.
    pub remote: String,
    /// What the model is told about it.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// What holds for it.
    #[serde(default, skip_serializing_if = "McpRules::is_empty")]
    pub rules: McpRules,
}

impl PinnedTool {
    /// What the model is told.
    pub fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
        }
    }
}

/// The tools of servers that a run was given when it began. They stay as they are until it ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pins {
    /// The tools, in the order in which the model is told of them.
    pub tools: Vec<PinnedTool>,
    /// The servers that could not be asked: the run goes on without their tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<UnavailableServer>,
}

/// An MCP server whose tools a run has to do without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnavailableServer {
    /// The name of the server.
    pub name: String,
    /// Why.
    pub reason: UnavailableReason,
}

labels! {
    /// Why an MCP server could not be asked for its tools when the run began.
    UnavailableReason {
        /// No server has the name.
        Unknown = "unknown",
        /// Its URL must not be called.
        Denied = "egress_denied",
        /// It did not answer, or not as such a server does, or what it is sent could not be had. `test` of
        /// the server says more.
        NotAnswering = "not_answering",
    }
}

/// What a server says of itself, bounded and on one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq, ToSchema, Serialize)]
pub struct McpServerInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of the protocol that was agreed on.
    pub protocol_version: String,
}

/// A tool that a server lists, as it may be used.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTool {
    /// The name that the server gives it.
    pub name: String,
    /// Its description, bounded and without control characters.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// What a server lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// Who answered.
    pub info: McpServerInfo,
    /// The tools that may be used.
    pub tools: Vec<ListedTool>,
    /// Those that may not, and why. Names are bounded and on one line.
    pub left_out: Vec<LeftOut>,
}

/// A tool that is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LeftOut {
    /// Its name, as far as it can be told.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Why a server could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpUnavailable {
    /// No server has the name.
    #[error("no MCP server has this name")]
    Unknown,
    /// Its URL must not be called; the text names the rule.
    #[error("{0}")]
    Denied(String),
    /// It does not answer, or not as such a server does.
    #[error("{0}")]
    Failed(String),
}

impl McpUnavailable {
    /// The same without what a server, or whoever stands in for it, has said.
    pub const fn reason(&self) -> UnavailableReason {
        match self {
            Self::Unknown => UnavailableReason::Unknown,
            Self::Denied(_) => UnavailableReason::Denied,
            Self::Failed(_) => UnavailableReason::NotAnswering,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_agent_says_comes_before_what_the_server_was_registered_with() {
        let spec: McpServerSpec = serde_json::from_value(json!({
            "name": "s", "url": "https://s.example/mcp",
            "rules": {"effect": "pure", "timeout_ms": 5, "max_output_chars": 7},
            "overrides": {"send": {"effect": "at_most_once", "timeout_ms": 6}},
        }))
        .unwrap();
        let agent = McpRules { timeout_ms: Some(9), ..McpRules::default() };
        let send = spec.rules_for("send", &agent);
        assert_eq!(send.effect(), EffectClass::AtMostOnce);
        assert_eq!((send.timeout_ms, send.max_output_chars), (Some(9), Some(7)));
        assert_eq!(spec.rules_for("look", &agent).effect(), EffectClass::Pure);
    }

    #[test]
    fn an_agent_may_be_stricter_than_the_operator_of_a_program_and_never_looser() {
        let rules = |value| serde_json::from_value::<McpRules>(value).unwrap();
        let program = |own| McpServerSpec {
            name: "s".to_owned(),
            url: String::new(),
            headers: IndexMap::new(),
            connect_timeout_ms: None,
            allow: None,
            deny: Vec::new(),
            rules: McpRules::default(),
            overrides: BTreeMap::from([("t".to_owned(), rules(own))]),
            metadata: Metadata::new(),
        };
        let (when, other) = (json!({"when": "/n > 1"}), json!({"when": "/n > 2"}));
        // The looser, the stricter, and what holds when one says this and the other that.
        for (member, loose, strict, both) in [
            ("effect", json!("pure"), json!("idempotent"), json!("idempotent")),
            ("effect", json!("idempotent"), json!("at_most_once"), json!("at_most_once")),
            ("timeout_ms", json!(9), json!(8), json!(8)),
            ("on_in_doubt", json!("observe"), json!("hold"), json!("hold")),
            ("hold_timeout_ms", json!(8), json!(9), json!(9)),
            ("approval", json!("never"), when.clone(), when.clone()),
            ("approval", when.clone(), json!("always"), json!("always")),
            ("approval", when.clone(), when.clone(), when.clone()),
            ("approval", when, other, json!("always")),
            ("approval_timeout_ms", json!(9), json!(8), json!(8)),
            ("parallel_safe", json!(true), json!(false), json!(false)),
            ("max_output_chars", json!(9), json!(8), json!(8)),
        ] {
            let said = |value| json!({"effect": "pure", member: value});
            let [loose, strict, both] = [loose, strict, both].map(said);
            for (operator, agent) in [(&loose, &strict), (&strict, &loose)] {
                let found = program(operator.clone()).rules_for("t", &rules(agent.clone()));
                assert_eq!(found, rules(both.clone()), "{operator} {agent}");
            }
            let silent = program(strict.clone()).rules_for("t", &McpRules::default());
            assert_eq!(silent, rules(strict), "where the agent says nothing");
        }
        let agent = json!({"effect": "pure", "on_in_doubt": "observe", "approval": "never"});
        let found = program(json!({})).rules_for("t", &rules(agent));
        assert_eq!(found.effect(), EffectClass::AtMostOnce, "where the operator says nothing");
        assert_eq!(found.on_in_doubt, Some(OnInDoubt::Observe));
    }

    #[test]
    fn nothing_said_is_at_most_once_and_held() {
        let rules = McpRules::default();
        assert_eq!(rules.effect(), EffectClass::AtMostOnce);
        assert_eq!(rules.wait_rules().on_in_doubt, OnInDoubt::Hold);
        let pure = McpRules { effect: Some(EffectClass::Pure), ..rules };
        assert_eq!(pure.wait_rules().on_in_doubt, OnInDoubt::Observe);
    }

    #[test]
    fn what_is_denied_is_not_offered_even_when_it_is_allowed() {
        let spec: McpServerSpec = serde_json::from_value(json!({
            "name": "s", "url": "https://s.example/mcp", "allow": ["a", "b"], "deny": ["b"],
        }))
        .unwrap();
        assert_eq!(["a", "b", "c"].map(|tool| spec.offers(tool)), [true, false, false]);
    }
}
