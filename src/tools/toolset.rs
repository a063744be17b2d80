//! The tools of one run: what the model is told about them, and what its calls mean.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::arguments::{Arguments, is_ambiguous};
use super::builtin;
use super::entry::{Entry, Runs, definition, entry, named_entry};
use super::extra::Extra;
use super::http::HttpCall;
use super::mcp::McpCall;
use super::memory::{MemoryAsk, MemoryCall};
use super::outcome;
use super::response::{Output, parse};
use super::schema::{Problem, Schema, SchemaCache, Unnamed};
use super::skills::{self, Loaded, Shelf, Stocked};
use crate::domain::agent::AgentSpec;
use crate::domain::line::single_line;
use crate::domain::message::{Reply, ToolCallPart};
use crate::domain::skill::{LOAD_SKILL, Skill, brought};
use crate::domain::step::{ErrorDetail, StepContent};
use crate::domain::tool::{
    AgentTool, EffectClass, FINAL_ANSWER, OutcomeKind, PlannedCall, RESERVED_NAMES, ToolCallError,
    ToolDefinition, ToolSpec, Verdict,
};
use crate::domain::wait::WaitRules;

pub(super) type Checked = Result<Arc<Schema>, String>;

/// What the log is told of a text.
#[derive(Clone, Default)]
pub(super) struct LogText(Option<Arc<MakeText>>);

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
#[derive(Debug, Clone)]
pub struct ToolSet {
    definitions: Vec<ToolDefinition>,
    declared: BTreeMap<String, Arc<Entry>>,
    agents: BTreeMap<String, AgentTool>,
    answer: Checked,
    has_output_schema: bool,
    shelf: Arc<Shelf>,
    load: Checked,
    redact_errors: bool,
    pub(super) log: LogText,
}

/// The kind of a tool that is not there.
pub const UNKNOWN_KIND: &str = "unknown";

/// What a call means.
pub(super) enum Reading<'a> {
    /// It goes out.
    Send { call: &'a HttpCall, arguments: Arguments, parallel_safe: bool, waits: WaitRules },
    /// It goes to an MCP server.
    Mcp { call: &'a McpCall, arguments: &'a str, parallel_safe: bool, waits: WaitRules },
    /// It works on items of long-term memory.
    Memory { call: &'a MemoryCall, ask: Box<MemoryAsk>, parallel_safe: bool },
    /// The caller or a run of another agent does it.
    Wait { parallel_safe: bool, waits: WaitRules },
    /// It is the answer.
    Answer(Box<Output>),
    /// It loads a skill.
    Loads(Box<Loaded>),
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
        let declared = own.chain(more).map(|(name, entry)| (name, Arc::new(entry))).collect();
        Self {
            definitions,
            declared,
            agents: spec.tools.iter().filter_map(agent_tool).collect(),
            answer: compiled,
            has_output_schema: spec.output_schema.is_some(),
            shelf: Arc::default(),
            load: schemas.get(&skills::definition().parameters, Unnamed::AsDeclared),
            redact_errors: spec.redact_errors,
            log: LogText::default(),
        }
    }

    /// The same tools, and one that loads these skills.
    pub(super) fn with_skills(
        mut self,
        spec: &AgentSpec,
        skills: &[Skill],
        schemas: &SchemaCache,
    ) -> Self {
        if !skills.is_empty() {
            let taken: BTreeSet<String> = self.declared.keys().cloned().collect();
            let stock = |tool: &ToolSpec| {
                let entry = Arc::new(entry(tool, spec, schemas)?);
                Some(Stocked { definition: definition(tool)?, entry })
            };
            self.shelf = Arc::new(Shelf::of(skills, taken, stock));
            self.add_definitions([skills::definition()]);
        }
        self
    }

    /// Who runs a tool, in a word from a closed set; [`UNKNOWN_KIND`] where there is none of that name.
    pub fn kind(&self, name: &str) -> &'static str {
        match self.declared.get(name).map(|entry| &entry.call) {
            Some(Ok(Runs::Here(_))) => "http",
            Some(Ok(Runs::Mcp(_))) => "mcp",
            Some(Ok(Runs::Memory(_))) => "memory",
            Some(Ok(Runs::Elsewhere) | Err(_)) => "declared",
            None if RESERVED_NAMES.contains(&name) => "builtin",
            None => UNKNOWN_KIND,
        }
    }

    /// The tools after a history: those of the skills that were loaded in it are there too.
    #[must_use]
    pub fn after(self: &Arc<Self>, steps: &[StepContent]) -> Arc<Self> {
        if self.shelf.is_empty() {
            return Arc::clone(self);
        }
        let loaded = self.shelf.tools(&brought(steps));
        if loaded.is_empty() {
            return Arc::clone(self);
        }
        let mut after = Self::clone(self);
        let end = after.definitions.pop();
        after.add_definitions(loaded.iter().map(|tool| tool.definition.clone()));
        after.definitions.extend(end);
        for Stocked { definition, entry } in loaded {
            after.declared.insert(definition.name, entry);
        }
        Arc::new(after)
    }

    /// Adds definitions ahead of the last one.
    fn add_definitions(&mut self, more: impl IntoIterator<Item = ToolDefinition>) {
        let last = self.definitions.pop();
        self.definitions.extend(more);
        self.definitions.extend(last);
    }

    /// The same tools; what the log is told of their failures is made by a function.
    #[must_use]
    pub fn logging(self, text: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self { log: LogText(Some(Arc::new(text))), ..self }
    }

    /// What the model is told: the declared tools in their order, those of loaded skills, `load_skill`
    /// where there are skills, and `final_answer`.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// The declaration of a tool that is an agent.
    pub fn agent_tool(&self, name: &str) -> Option<&AgentTool> {
        self.agents.get(name)
    }

    /// What the machine has to know about every call of a reply, in call order.
    pub fn plan(&self, reply: &Reply) -> Vec<PlannedCall> {
        // What one call of a reply brings, another one need not.
        let mut coming = BTreeSet::new();
        let plan = |call| {
            let mut planned = self.plan_call(call);
            planned.brings.retain(|name| coming.insert(name.clone()));
            planned
        };
        reply.tool_calls().map(plan).collect()
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
            brings: Vec::new(),
        };
        match self.read(&part.name, &part.arguments) {
            Reading::Send { call, parallel_safe, waits, .. } => {
                PlannedCall { effect: call.effect, parallel_safe, waits, ..plain }
            }
            Reading::Mcp { call, parallel_safe, waits, .. } => {
                PlannedCall { effect: call.effect, parallel_safe, waits, ..plain }
            }
            Reading::Memory { call, parallel_safe, .. } => {
                PlannedCall { effect: call.effect(), parallel_safe, ..plain }
            }
            Reading::Wait { parallel_safe, waits } => PlannedCall { parallel_safe, waits, ..plain },
            Reading::Answer(output) => PlannedCall { settled: settled(Ok(*output)), ..plain },
            Reading::Loads(loaded) => {
                let Loaded { output, brings } = *loaded;
                PlannedCall { settled: settled(Ok(output)), brings, ..plain }
            }
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
        if name == LOAD_SKILL && !self.shelf.is_empty() {
            return self.read_load(&value);
        }
        self.read_declared(name, &value, arguments)
    }

    fn read_declared<'a>(&'a self, name: &str, value: &Value, spelling: &'a str) -> Reading<'a> {
        let Some(entry) = self.declared.get(name).map(Arc::as_ref) else {
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
            Ok(Runs::Memory(call)) => match call.read(&arguments) {
                Ok(ask) => Reading::Memory { call, ask: Box::new(ask), parallel_safe },
                Err(text) => invalid(text),
            },
            Ok(Runs::Elsewhere) => Reading::Wait { parallel_safe, waits },
            Err(text) => refused(OutcomeKind::Execution, "InvalidTool", text.clone()),
        }
    }

    fn read_answer(&self, value: &Value, spelling: &str) -> Reading<'_> {
        unfitting(&self.answer, value).unwrap_or_else(|| {
            Reading::Answer(Box::new(builtin::answer(value, spelling, self.has_output_schema)))
        })
    }

    fn read_load(&self, arguments: &Value) -> Reading<'_> {
        if let Some(refusal) = unfitting(&self.load, arguments) {
            return refusal;
        }
        let can_call = |name: &str| self.declared.contains_key(name);
        match self.shelf.load(arguments, (self.declared.len(), can_call)) {
            Ok(loaded) => Reading::Loads(Box::new(loaded)),
            Err(error) => Reading::Refused { error, unparsable: false },
        }
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
