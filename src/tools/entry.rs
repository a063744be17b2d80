//! A tool of a set: what the model is told about it, and who runs its calls.

use serde_json::Value;

use super::asking::Asks;
use super::http::HttpCall;
use super::mcp::McpCall;
use super::memory::{self, MemoryCall};
use super::schema::{SchemaCache, Unnamed};
use super::toolset::Checked;
use crate::domain::agent::AgentSpec;
use crate::domain::mcp::PinnedTool;
use crate::domain::tool::{BuiltinTool, EffectClass, ToolDefinition, ToolSpec};
use crate::domain::wait::WaitRules;

/// What a tool of the set is.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) call: Result<Runs, String>,
    pub(super) parameters: Checked,
    pub(super) parallel_safe: bool,
    waits: WaitRules,
    asks: Asks,
    pub(super) redact: Option<bool>,
}

impl Entry {
    /// What a call with these arguments may have to wait for.
    pub(super) fn waits_for(&self, arguments: &Value, spelling: &str) -> WaitRules {
        WaitRules { approval: self.asks.about(arguments, spelling), ..self.waits }
    }
}

/// Who runs the calls of a tool.
#[derive(Debug)]
pub(super) enum Runs {
    /// The server, by calling a URL.
    Here(Box<HttpCall>),
    /// An MCP server.
    Mcp(Box<McpCall>),
    /// The server, on items of long-term memory.
    Memory(MemoryCall),
    /// The caller, or a run of another agent.
    Elsewhere,
}

/// What the model is told about a declared tool; `None` for one that stands for others, or is there anyway.
pub(super) fn definition(tool: &ToolSpec) -> Option<ToolDefinition> {
    let (name, description, parameters) = match tool {
        ToolSpec::Http(tool) => (&tool.name, &tool.description, tool.parameters.clone()),
        ToolSpec::Client(tool) => (&tool.name, &tool.description, tool.parameters.clone()),
        ToolSpec::Agent(tool) => (&tool.name, &tool.description, tool.parameters()),
        ToolSpec::Builtin(tool) => return memory::definition(tool.name),
        ToolSpec::Mcp(_) => return None,
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

/// A declared tool; `None` for one that stands for others, or is there anyway.
pub(super) fn entry(tool: &ToolSpec, spec: &AgentSpec, schemas: &SchemaCache) -> Option<Entry> {
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
        ToolSpec::Builtin(tool) => remembering(tool, schemas)?,
        ToolSpec::Mcp(_) => return None,
    })
}

/// A tool that works on items of long-term memory.
fn remembering(tool: &BuiltinTool, schemas: &SchemaCache) -> Option<Entry> {
    let call = MemoryCall::of(tool)?;
    let definition = memory::definition(tool.name)?;
    Some(Entry {
        parameters: schemas.get(&definition.parameters, Unnamed::Refused),
        // What is put in one turn is put in the order of its calls.
        parallel_safe: call.effect() == EffectClass::Pure,
        call: Ok(Runs::Memory(call)),
        waits: WaitRules::NONE,
        asks: Asks::Never,
        redact: None,
    })
}
