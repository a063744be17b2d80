//! What can be wrong with an agent's tools and schemas, told all at once when the agent is made.

use std::collections::BTreeSet;

use serde_json::Value;

use super::asking;
use super::headers::Headers;
use super::probe::CALL_ID;
use super::schema::{Schema, Unnamed};
use super::shape::{escape, flaws};
use super::template::{TemplateError, UrlTemplate};
use crate::domain::agent::AgentSpec;
use crate::domain::limits::ITEM_TTL_SECS;
use crate::domain::mcp::{McpRules, McpTool};
use crate::domain::tool::{
    AgentTool, Builtin, BuiltinTool, ClientTool, HttpTool, MAX_DESCRIPTION, RESERVED_NAMES,
    ToolSpec,
};
use crate::domain::wait::{Approval, MAX_WAIT_MS, OnInDoubt};
use crate::egress::{EgressDenied, EgressPolicy, EgressRule};

/// The most tools that a model is told of.
pub const MAX_TOOLS: usize = 128;
const MAX_URL: usize = 2_048;
/// Nothing on a network answers sooner with any certainty.
const MIN_TIMEOUT_MS: u64 = 10;
const MAX_TIMEOUT_MS: u64 = 3_600_000;
const TIMEOUT_BOUND: &str = "must be between 10 and 3600000";
const WAIT_BOUND: &str = "must be between 1 and 2592000000";

/// What is wrong with a tool or a schema, by the problem it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpecProblem {
    /// A schema does not compile or is not of an object.
    InvalidToolSchema,
    /// A schema is too large, too deep or unfolds into too much.
    SchemaTooComplex,
    /// A schema refers to something outside of it.
    RemoteRefForbidden,
    /// A URL leads where no tool may go.
    EgressDenied,
    /// A header cannot be sent or is reserved.
    InvalidHeaderName,
    /// Two tools have one name.
    ToolNameConflict,
    /// A value is out of its bounds.
    Invalid,
}

/// One thing that is wrong with an agent's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecFinding {
    /// The problem it leads to.
    pub code: SpecProblem,
    /// Where, as an RFC 6901 JSON pointer into the agent.
    pub pointer: String,
    /// A sentence for people.
    pub message: String,
}

impl SpecFinding {
    pub(super) fn new(code: SpecProblem, pointer: &str, message: String) -> Self {
        Self { code, pointer: pointer.to_owned(), message }
    }
}

/// Everything that is wrong with the tools and schemas of an agent.
pub fn check_spec(spec: &AgentSpec, egress: &EgressPolicy) -> Vec<SpecFinding> {
    let mut check = Check { egress, findings: Vec::new() };
    check.tools(&spec.tools);
    if let Some(schema) = &spec.output_schema {
        check.schema(schema, "/output_schema", Unnamed::AsDeclared);
    }
    check.findings
}

/// Everything that is wrong with the tools of a skill.
pub fn check_tools(tools: &[ToolSpec], egress: &EgressPolicy) -> Vec<SpecFinding> {
    let mut check = Check { egress, findings: Vec::new() };
    for (index, _) in tools.iter().enumerate().filter(|(_, tool)| !can_be_brought(tool)) {
        let text = "a skill brings tools of the kinds `http` and `client` only";
        check.invalid(&format!("/tools/{index}/kind"), text);
    }
    check.tools(tools);
    check.findings
}

/// What is brought is called by the name it is declared with, and what the tools of servers are is settled
/// before a run's first request.
const fn can_be_brought(tool: &ToolSpec) -> bool {
    matches!(tool, ToolSpec::Http(_) | ToolSpec::Client(_))
}

struct Check<'a> {
    egress: &'a EgressPolicy,
    findings: Vec<SpecFinding>,
}

impl Check<'_> {
    fn tools(&mut self, tools: &[ToolSpec]) {
        if tools.len() > MAX_TOOLS {
            return self.invalid("/tools", &format!("there are at most {MAX_TOOLS} tools"));
        }
        let mut names = BTreeSet::new();
        for (index, tool) in tools.iter().enumerate() {
            let at = format!("/tools/{index}");
            if let Some(name) = tool.tool_name().filter(|name| !names.insert(*name)) {
                let text = format!("another tool is named {name:?} as well");
                self.add(SpecProblem::ToolNameConflict, &format!("{at}/name"), text);
            }
            match tool {
                ToolSpec::Http(tool) => self.http(tool, &at),
                ToolSpec::Client(tool) => self.client(tool, &at),
                ToolSpec::Mcp(tool) => self.mcp(tool, &at),
                ToolSpec::Agent(tool) => self.agent(tool, &at),
                ToolSpec::Builtin(tool) => self.builtin(tool, &at),
            }
        }
    }

    fn add(&mut self, code: SpecProblem, pointer: &str, message: String) {
        self.findings.push(SpecFinding::new(code, pointer, message));
    }

    fn invalid(&mut self, pointer: &str, message: &str) {
        self.add(SpecProblem::Invalid, pointer, message.to_owned());
    }

    /// What every declared tool has.
    fn told(&mut self, (name, description): (&str, &str), parameters: &Value, at: &str) {
        self.name(name, &format!("{at}/name"));
        if description.chars().count() > MAX_DESCRIPTION {
            let text = format!("a description has at most {MAX_DESCRIPTION} characters");
            self.invalid(&format!("{at}/description"), &text);
        }
        self.schema(parameters, &format!("{at}/parameters"), Unnamed::Refused);
    }

    fn client(&mut self, tool: &ClientTool, at: &str) {
        self.told((&tool.name, &tool.description), &tool.parameters, at);
        self.bound(tool.timeout_ms, MAX_WAIT_MS, &format!("{at}/timeout_ms"));
        if tool.max_output_chars == Some(0) {
            self.invalid(&format!("{at}/max_output_chars"), "must be at least 1");
        }
    }

    /// Tools of a server, whose own names and schemas are judged when a run begins.
    fn mcp(&mut self, tool: &McpTool, at: &str) {
        self.name(&tool.server, &format!("{at}/server"));
        for (pointer, message) in rule_flaws(&tool.rules) {
            self.invalid(&format!("{at}/rules{pointer}"), message);
        }
        if let Some(approval) = &tool.rules.approval {
            self.condition(approval, &Value::Null, &format!("{at}/rules"));
        }
    }

    /// When a person is asked about a call.
    fn condition(&mut self, approval: &Approval, parameters: &Value, at: &str) {
        for text in asking::faults(approval, parameters) {
            self.invalid(&format!("{at}/approval/when"), &text);
        }
    }

    fn agent(&mut self, tool: &AgentTool, at: &str) {
        self.told((&tool.name, &tool.description), &tool.parameters(), at);
        self.bound(tool.timeout_ms, MAX_WAIT_MS, &format!("{at}/timeout_ms"));
        self.bound(tool.approval_timeout_ms, MAX_WAIT_MS, &format!("{at}/approval_timeout_ms"));
        self.condition(&tool.approval, &tool.parameters(), at);
        if tool.max_output_chars == Some(0) {
            self.invalid(&format!("{at}/max_output_chars"), "must be at least 1");
        }
    }

    /// A tool of the server itself.
    fn builtin(&mut self, tool: &BuiltinTool, at: &str) {
        let pointer = format!("{at}/namespace");
        match &tool.namespace {
            None if tool.name.remembers() => {
                self.invalid(&pointer, "is needed by tools that remember");
            }
            Some(_) if !tool.name.remembers() => {
                self.invalid(&pointer, "is for tools that remember");
            }
            Some(namespace) if namespace.check().is_err() => {
                let text = "must have 1–8 parts, each of which matches ^[A-Za-z0-9._:@-]{1,64}$ or is \
                            `{{metadata.key}}`";
                self.invalid(&pointer, text);
            }
            _ => {}
        }
        self.bound(tool.ttl_s, ITEM_TTL_SECS, &format!("{at}/ttl_s"));
        if tool.ttl_s.is_some() && tool.name != Builtin::MemoryPut {
            self.invalid(&format!("{at}/ttl_s"), "is for `memory_put`");
        }
    }

    /// A number that has bounds: of milliseconds mostly.
    fn bound(&mut self, ms: Option<u64>, most: u64, pointer: &str) {
        if ms.is_some_and(|ms| !(1..=most).contains(&ms)) {
            self.invalid(pointer, &format!("must be between 1 and {most}"));
        }
    }

    /// What a call may have to wait for: a decision, and what is done when it is in doubt.
    fn waits(&mut self, tool: &HttpTool, at: &str) {
        self.bound(tool.hold_timeout_ms, MAX_WAIT_MS, &format!("{at}/hold_timeout_ms"));
        self.bound(tool.approval_timeout_ms, MAX_WAIT_MS, &format!("{at}/approval_timeout_ms"));
        self.condition(&tool.approval, &tool.parameters, at);
        let pointer = format!("{at}/probe_url");
        match (&tool.probe_url, tool.on_in_doubt) {
            (Some(url), _) => self.url((url, &tool.parameters), &pointer),
            (None, OnInDoubt::Probe) => {
                self.invalid(&pointer, "is needed with `on_in_doubt: probe`");
            }
            (None, OnInDoubt::Hold | OnInDoubt::Observe) => {}
        }
    }

    fn http(&mut self, tool: &HttpTool, at: &str) {
        self.told((&tool.name, &tool.description), &tool.parameters, at);
        self.url((&tool.url, &tool.parameters), &format!("{at}/url"));
        self.waits(tool, at);
        for (name, text) in Headers::compile(&tool.headers).err().unwrap_or_default() {
            let pointer = format!("{at}/headers/{}", escape(&name));
            self.add(SpecProblem::InvalidHeaderName, &pointer, text);
        }
        let fits = |ms| (MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS).contains(&ms);
        if !tool.timeout_ms.is_none_or(fits) {
            self.invalid(&format!("{at}/timeout_ms"), TIMEOUT_BOUND);
        }
        if tool.max_output_chars == Some(0) {
            self.invalid(&format!("{at}/max_output_chars"), "must be at least 1");
        }
        if tool.output_path.as_deref().is_some_and(|path| !is_pointer(path)) {
            self.invalid(&format!("{at}/output_path"), "must be an RFC 6901 JSON pointer");
        }
    }

    fn name(&mut self, name: &str, pointer: &str) {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if !plain || !(1..=64).contains(&name.len()) {
            self.invalid(pointer, "must match ^[A-Za-z0-9_-]{1,64}$");
        } else if RESERVED_NAMES.contains(&name) {
            self.invalid(pointer, "is reserved for a tool of the server");
        }
    }

    fn url(&mut self, (url, parameters): (&str, &Value), pointer: &str) {
        if url.chars().count() > MAX_URL {
            self.invalid(pointer, &format!("a URL has at most {MAX_URL} characters"));
            return;
        }
        let template = match UrlTemplate::parse(url) {
            Ok(template) => template,
            Err(TemplateError::NotAUrl) => {
                self.denied(pointer, EgressRule::Url.into());
                return;
            }
            Err(error) => {
                self.invalid(pointer, &error.to_string());
                return;
            }
        };
        if let Err(refusal) = self.egress.check(template.origin()) {
            self.denied(pointer, refusal);
        }
        let Some(Value::Object(known)) = parameters.get("properties") else { return };
        let is_given = |name: &str| pointer.ends_with("/probe_url") && name == CALL_ID;
        let unknown = |name: &&str| !known.contains_key(*name) && !is_given(name);
        for name in template.arguments().filter(unknown) {
            self.invalid(pointer, &format!("{name:?} is not among the properties of parameters"));
        }
    }

    fn denied(&mut self, pointer: &str, refusal: EgressDenied) {
        self.add(SpecProblem::EgressDenied, pointer, refusal.to_string());
    }

    /// Providers take parameters of objects only, and an output schema becomes the parameters of
    /// `final_answer`.
    fn schema(&mut self, schema: &Value, at: &str, unnamed: Unnamed) {
        let found = flaws(schema);
        let sound = found.is_empty();
        self.findings.extend(
            found
                .into_iter()
                .map(|flaw| SpecFinding { pointer: format!("{at}{}", flaw.pointer), ..flaw }),
        );
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            let text = "must be a schema with \"type\": \"object\"".to_owned();
            self.add(SpecProblem::InvalidToolSchema, at, text);
        } else if sound && let Err(error) = Schema::compile(schema, unnamed) {
            let pointer = format!("{at}{}", error.instance_path().as_str());
            self.add(SpecProblem::InvalidToolSchema, &pointer, error.masked().to_string());
        }
    }
}

/// What is wrong with the rules for tools of an MCP server, with pointers into them.
pub fn rule_flaws(rules: &McpRules) -> Vec<(&'static str, &'static str)> {
    let within = |ms: Option<u64>, most| ms.is_none_or(|ms| (1..=most).contains(&ms));
    let fits = |ms| (MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS).contains(&ms);
    let held = [
        (rules.timeout_ms.is_none_or(fits), "/timeout_ms", TIMEOUT_BOUND),
        (within(rules.hold_timeout_ms, MAX_WAIT_MS), "/hold_timeout_ms", WAIT_BOUND),
        (within(rules.approval_timeout_ms, MAX_WAIT_MS), "/approval_timeout_ms", WAIT_BOUND),
        (rules.max_output_chars != Some(0), "/max_output_chars", "must be at least 1"),
        (
            rules.on_in_doubt != Some(OnInDoubt::Probe),
            "/on_in_doubt",
            "there is nothing to probe: must be `hold` or `observe`",
        ),
    ];
    let broken = held.into_iter().filter(|(holds, ..)| !holds);
    broken.map(|(_, pointer, message)| (pointer, message)).collect()
}

fn is_pointer(path: &str) -> bool {
    let escapes = path.split('~').skip(1).all(|tail| tail.starts_with(['0', '1']));
    (path.is_empty() || path.starts_with('/')) && escapes
}
