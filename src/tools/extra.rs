//! Tools that a run has beside those that its agent declares.

use super::entry::{Entry, definition, named_entry, pinned_entry};
use super::schema::SchemaCache;
use crate::domain::agent::AgentSpec;
use crate::domain::mcp::{PinnedTool, Pins};
use crate::domain::tool::{ToolDefinition, ToolSpec};

/// A tool that a run has beside those of its agent. The model is told of them behind the agent's own, in
/// their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Extra {
    /// A tool of an MCP server, as it was when the run began.
    Pinned(PinnedTool),
    /// One that is declared elsewhere than in the agent.
    Declared(ToolSpec),
}

impl Extra {
    /// The tools that a run was given when it began.
    pub fn of_pins(pins: &Pins) -> Vec<Self> {
        pins.tools.iter().cloned().map(Self::Pinned).collect()
    }

    /// The name the model knows it by, and the bound of its observation where it has one of its own.
    pub fn output_limit(&self) -> Option<(String, u32)> {
        match self {
            Self::Pinned(tool) => Some((tool.name.clone(), tool.rules.max_output_chars?)),
            Self::Declared(ToolSpec::Http(tool)) => {
                Some((tool.name.clone(), tool.max_output_chars?))
            }
            Self::Declared(ToolSpec::Client(tool)) => {
                Some((tool.name.clone(), tool.max_output_chars?))
            }
            Self::Declared(ToolSpec::Agent(tool)) => {
                Some((tool.name.clone(), tool.max_output_chars?))
            }
            Self::Declared(ToolSpec::Mcp(_) | ToolSpec::Builtin(_)) => None,
        }
    }

    pub(super) fn definition(&self) -> Option<ToolDefinition> {
        match self {
            Self::Pinned(tool) => Some(tool.definition()),
            Self::Declared(tool) => definition(tool),
        }
    }

    pub(super) fn entry(&self, spec: &AgentSpec, schemas: &SchemaCache) -> Option<(String, Entry)> {
        match self {
            Self::Pinned(tool) => Some(pinned_entry(tool, spec, schemas)),
            Self::Declared(tool) => named_entry(tool, spec, schemas),
        }
    }
}
