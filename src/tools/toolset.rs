//! The tools of one run: what the model is told about them, and what its calls mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::arguments::{Arguments, is_ambiguous};
use super::asking::Asks;
use super::builtin;
use super::extra::Extra;
use super::http::HttpCall;
use super::mcp::McpCall;
use super::outcome;
use super::response::{Output, parse};
use super::schema::{Problem, Schema, SchemaCache, Unnamed};
use crate::domain::agent::AgentSpec;
use crate::domain::line::single_line;
use crate::domain::mcp::PinnedTool;
use crate::domain::message::{Reply, ToolCallPart};
use crate::domain::step::ErrorDetail;
use crate::domain::tool::{
    AgentTool, EffectClass, FINAL_ANSWER, OutcomeKind, PlannedCall, ToolCallError, ToolDefinition,
    ToolSpec, Verdict,
};
use crate::domain::wait::WaitRules;

type Checked = Result<Arc<Schema>, String>;

/// What the log is told of a text.
#[derive(Default)]
pub(super) struct LogText(Option<Box<MakeText>>);

type MakeText = dyn Fn(&str) -> String + Send + Sync;

impl LogText {
    pub(super) fn of(&self, text: &str) -> String {
        self.0.as_ref().map_or_else(|| text.to_owned(), |make| make(text))
    }
}

impl std::fmt::Debug for LogText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogText")
    }
}

/// The tools of an agent, compiled once for a run.
#[derive(Debug)]
pub struct ToolSet {
    definitions: Vec<ToolDefinition>,
    declared: BTreeMap<String, Entry>,
    agents: BTreeMap<String, AgentTool>,
    answer: Checked,
    has_output_schema: bool,
    redact_errors: bool,
    pub(super) log: LogText,
}

/// What a tool of the set is.
#[derive(Debug)]
pub(super) struct Entry {
    call: Result<Runs, String>,
    parameters: Checked,
    parallel_safe: bool,
    waits: WaitRules,
    asks: Asks,
    redact: Option<bool>,
}

impl Entry {
    /// What a call with these arguments may have to wait for.
    fn waits_for(&self, arguments: &Value, spelling: &str) -> WaitRules {
        WaitRules { approval: self.asks.about(arguments, spelling), ..self.waits }
    }
}

/// Who runs the calls of a tool.
#[derive(Debug)]
enum Runs {
    /// The server, by calling a URL.
    Here(Box<HttpCall>),
    /// An MCP server.
    Mcp(Box<McpCall>),
    /// The caller, or a run of another agent.
    Elsewhere,
}

/// What a call means.
pub(super) enum Reading<'a> {
    /// It goes out.
    Send { call: &'a HttpCall, arguments: Arguments, parallel_safe: bool, waits: WaitRules },
    /// It goes to an MCP server.
    Mcp { call: &'a McpCall, arguments: &'a str, parallel_safe: bool, waits: WaitRules },
    /// The caller or a run of another agent does it.
    Wait { parallel_safe: bool, waits: WaitRules },
    /// It is the answer.
    Answer(Box<Output>),
    /// It is refused.
    Refused { error: ToolCallError, unparsable: bool },
}

impl ToolSet {
    pub(super) fn compile(spec: &AgentSpec, extra: &[Extra], schemas: &SchemaCache) -> Self {
        let answer = builtin::final_answer(spec.output_schema.as_ref());
        let compiled = schemas.get(&answer.parameters, Unnamed::AsDeclared);
        let own = spec.tools.iter().filter_map(definition);
        let more = extra.iter().filter_map(Extra::definition);
        let definitions = own.chain(more).chain([answer]).collect();
        let named = |tool| named_entry(tool, spec, schemas);
        let own = spec.tools.iter().filter_map(named);
        let more = extra.iter().filter_map(|extra| extra.entry(spec, schemas));
        let declared = own.chain(more).collect();
        Self {
            definitions,
            declared,
            agents: spec.tools.iter().filter_map(agent_tool).collect(),
            answer: compiled,
            has_output_schema: spec.output_schema.is_some(),
            redact_errors: spec.redact_errors,
            log: LogText::default(),
        }
    }

    /// The same tools; what the log is told of their failures is made by a function.
    #[must_use]
    pub fn logging(self, text: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self { log: LogText(Some(Box::new(text))), ..self }
    }

    /// What the model is told: the declared tools in their order, `final_answer` last.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// The declaration of a tool that is an agent.
    pub fn agent_tool(&self, name: &str) -> Option<&AgentTool> {
        self.agents.get(name)
    }

    /// What the machine has to know about every call of a reply, in call order.
    pub fn plan(&self, reply: &Reply) -> Vec<PlannedCall> {
        reply.tool_calls().map(|call| self.plan_call(call)).collect()
    }

    /// Whether a text answer fits the output schema; `None` without one.
    pub fn verdict(&self, text: &str) -> Option<Verdict> {
        if !self.has_output_schema {
            return None;
        }
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return Some(Verdict::Fails(vec![not_json(text, &error)])),
        };
        let problems = problems(&self.answer, &value);
        Some(if problems.is_empty() {
            Verdict::Fits(parse(text).map_or(value, |(output, _)| output.json))
        } else {
            Verdict::Fails(problems.into_iter().map(|problem| problem.detail).collect())
        })
    }

    /// Whether what a tool says about its failures is withheld.
    pub(super) fn withholds_errors(&self, name: &str) -> bool {
        let declared = self.declared.get(name).and_then(|entry| entry.redact);
        declared.unwrap_or(self.redact_errors)
    }

    fn plan_call(&self, part: &ToolCallPart) -> PlannedCall {
        let settled =
            |result| Some(outcome::settled(part.tool_call_id.clone(), &part.name, result));
        let plain = PlannedCall {
            call_id: part.tool_call_id.clone(),
            name: part.name.clone(),
            arguments: part.arguments.clone(),
            effect: EffectClass::Pure,
            parallel_safe: true,
            unparsable: false,
            waits: WaitRules::NONE,
            settled: None,
        };
        match self.read(&part.name, &part.arguments) {
            Reading::Send { call, parallel_safe, waits, .. } => {
                PlannedCall { effect: call.effect, parallel_safe, waits, ..plain }
            }
            Reading::Mcp { call, parallel_safe, waits, .. } => {
                PlannedCall { effect: call.effect, parallel_safe, waits, ..plain }
            }
            Reading::Wait { parallel_safe, waits } => PlannedCall { parallel_safe, waits, ..plain },
            Reading::Answer(output) => PlannedCall { settled: settled(Ok(*output)), ..plain },
            Reading::Refused { error, unparsable } => {
                PlannedCall { unparsable, settled: settled(Err(error)), ..plain }
            }
        }
    }

    pub(super) fn read<'a>(&'a self, name: &str, arguments: &'a str) -> Reading<'a> {
        if name.is_empty() {
            return unparsable("the call names no tool");
        }
        let value: Value = match serde_json::from_str(arguments) {
            Ok(value) => value,
            Err(error) => return unparsable(&format!("the arguments are not JSON: {error}")),
        };
        if !value.is_object() {
            return unparsable("the arguments are not a JSON object");
        }
        if is_ambiguous(arguments, &value) {
            return invalid("the arguments name one member of an object twice".to_owned());
        }
        if name == FINAL_ANSWER {
            return self.read_answer(&value, arguments);
        }
        self.read_declared(name, &value, arguments)
    }

    fn read_declared<'a>(&'a self, name: &str, value: &Value, spelling: &'a str) -> Reading<'a> {
        let Some(entry) = self.declared.get(name) else {
            return refused(OutcomeKind::UnknownTool, "UnknownTool", self.unknown(name));
        };
        if let Some(refusal) = unfitting(&entry.parameters, value) {
            return refusal;
        }
        let arguments: Arguments = match serde_json::from_str(spelling) {
            Ok(arguments) => arguments,
            Err(error) => return unparsable(&format!("the arguments are not JSON: {error}")),
        };
        let (parallel_safe, waits) = (entry.parallel_safe, entry.waits_for(value, spelling));
        match &entry.call {
            Ok(Runs::Here(call)) => match call.url(&arguments, &[]) {
                Ok(_) => Reading::Send { call, arguments, parallel_safe, waits },
                Err(error) => Reading::Refused { error, unparsable: false },
            },
            Ok(Runs::Mcp(call)) => Reading::Mcp { call, arguments: spelling, parallel_safe, waits },
            Ok(Runs::Elsewhere) => Reading::Wait { parallel_safe, waits },
            Err(text) => refused(OutcomeKind::Execution, "InvalidTool", text.clone()),
        }
    }

    fn read_answer(&self, value: &Value, spelling: &str) -> Reading<'_> {
        unfitting(&self.answer, value).unwrap_or_else(|| {
            Reading::Answer(Box::new(builtin::answer(value, spelling, self.has_output_schema)))
        })
    }

    fn unknown(&self, name: &str) -> String {
        let names = self.definitions.iter().map(|tool| tool.name.as_str());
        let names: Vec<_> = names.filter(|name| is_announceable(name)).collect();
        format!("Unknown tool '{}'. Available: {}", single_line(name), names.join(", "))
    }
}

/// Whether a name may stand in a sentence: it can neither end it nor be a tag.
fn is_announceable(name: &str) -> bool {
    !name.contains(|c: char| c.is_control() || matches!(c, '`' | '<'))
}

/// What the model is told about a declared tool; `None` for one of the server itself.
pub(super) fn definition(tool: &ToolSpec) -> Option<ToolDefinition> {
    let (name, description, parameters) = match tool {
        ToolSpec::Http(tool) => (&tool.name, &tool.description, tool.parameters.clone()),
        ToolSpec::Client(tool) => (&tool.name, &tool.description, tool.parameters.clone()),
        ToolSpec::Agent(tool) => (&tool.name, &tool.description, tool.parameters()),
        ToolSpec::Mcp(_) | ToolSpec::Builtin(_) => return None,
    };
    Some(ToolDefinition { name: name.clone(), description: description.clone(), parameters })
}

/// A declared tool under its name.
pub(super) fn named_entry(
    tool: &ToolSpec,
    spec: &AgentSpec,
    schemas: &SchemaCache,
) -> Option<(String, Entry)> {
    Some((tool.tool_name()?.to_owned(), entry(tool, spec, schemas)?))
}

/// A tool of an MCP server under the name that the model knows it by.
pub(super) fn pinned_entry(
    tool: &PinnedTool,
    spec: &AgentSpec,
    schemas: &SchemaCache,
) -> (String, Entry) {
    // A schema that names no argument says nothing about them, where one that names some tells all.
    let names_some = tool.parameters.get("properties").is_some();
    let unnamed = if names_some { Unnamed::Refused } else { Unnamed::AsDeclared };
    let entry = Entry {
        call: Ok(Runs::Mcp(Box::new(McpCall::of(tool, spec.tool_timeout_ms)))),
        parameters: schemas.get(&tool.parameters, unnamed),
        parallel_safe: tool.rules.parallel_safe.unwrap_or(true),
        waits: tool.rules.wait_rules(),
        asks: tool.rules.approval.as_ref().map_or(Asks::Never, Asks::of),
        redact: None,
    };
    (tool.name.clone(), entry)
}

fn entry(tool: &ToolSpec, spec: &AgentSpec, schemas: &SchemaCache) -> Option<Entry> {
    Some(match tool {
        ToolSpec::Http(tool) => Entry {
            call: HttpCall::compile(tool, spec.tool_timeout_ms)
                .map(|call| Runs::Here(Box::new(call))),
            parameters: schemas.get(&tool.parameters, Unnamed::Refused),
            parallel_safe: tool.parallel_safe,
            waits: tool.wait_rules(),
            asks: Asks::of(&tool.approval),
            redact: tool.redact,
        },
        ToolSpec::Client(tool) => Entry {
            call: Ok(Runs::Elsewhere),
            parameters: schemas.get(&tool.parameters, Unnamed::Refused),
            parallel_safe: tool.parallel_safe,
            waits: tool.wait_rules(),
            asks: Asks::Never,
            redact: None,
        },
        ToolSpec::Agent(tool) => Entry {
            call: Ok(Runs::Elsewhere),
            parameters: schemas.get(&tool.parameters(), Unnamed::Refused),
            parallel_safe: tool.parallel_safe,
            waits: tool.wait_rules(),
            asks: Asks::of(&tool.approval),
            redact: None,
        },
        ToolSpec::Mcp(_) | ToolSpec::Builtin(_) => return None,
    })
}

fn agent_tool(tool: &ToolSpec) -> Option<(String, AgentTool)> {
    let ToolSpec::Agent(tool) = tool else { return None };
    Some((tool.name.clone(), tool.clone()))
}

/// The refusal of arguments that do not fit, which names every problem; `None` for those that do.
fn unfitting<'a>(parameters: &Checked, arguments: &Value) -> Option<Reading<'a>> {
    let problems = problems(parameters, arguments);
    if problems.is_empty() {
        return None;
    }
    let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
    Some(invalid(told.join("; ")))
}

fn invalid<'a>(message: String) -> Reading<'a> {
    refused(OutcomeKind::InvalidArguments, "InvalidArguments", message)
}

/// What is wrong with a value; a schema that cannot be compiled accepts nothing.
fn problems(schema: &Checked, value: &Value) -> Vec<Problem> {
    match schema {
        Ok(schema) => schema.problems(value),
        Err(text) => vec![Problem::whole("schema", format!("cannot be judged: {text}"))],
    }
}

fn not_json(text: &str, error: &serde_json::Error) -> ErrorDetail {
    let problem = Problem::whole("json_invalid", format!("Invalid JSON: {error}"));
    problem.with_input(&json!(text)).detail
}

fn unparsable<'a>(text: &str) -> Reading<'a> {
    let error = ToolCallError {
        kind: OutcomeKind::InvalidArguments,
        type_name: "InvalidArguments",
        message: text.to_owned(),
    };
    Reading::Refused { error, unparsable: true }
}

fn refused<'a>(kind: OutcomeKind, type_name: &'static str, message: String) -> Reading<'a> {
    Reading::Refused { error: ToolCallError { kind, type_name, message }, unparsable: false }
}
