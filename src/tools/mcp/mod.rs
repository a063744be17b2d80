//! Tools of MCP servers.

use std::time::Duration;

use crate::domain::mcp::PinnedTool;
use crate::domain::tool::EffectClass;

/// A tool of a server, ready to be called.
#[derive(Debug, Clone)]
pub(super) struct McpCall {
    pub(super) server: String,
    pub(super) remote: String,
    pub(super) name: String,
    pub(super) effect: EffectClass,
    pub(super) timeout: Duration,
}

impl McpCall {
    pub(super) fn of(tool: &PinnedTool, agent_timeout_ms: u64) -> Self {
        Self {
            server: tool.server.clone(),
            remote: tool.remote.clone(),
            name: tool.name.clone(),
            effect: tool.rules.effect(),
            timeout: Duration::from_millis(tool.rules.timeout_ms.unwrap_or(agent_timeout_ms)),
        }
    }
}
