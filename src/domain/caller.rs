//! Who asks, for whom, and what they may do.

use std::collections::BTreeSet;

use super::id::{KeyId, TenantId};
use crate::labels;

labels! {
    /// What a key allows.
    Scope {
        /// Read agents.
        AgentsRead = "agents:read",
        /// Create, change and archive agents.
        AgentsWrite = "agents:write",
        /// Read runs, their steps, events and streams.
        RunsRead = "runs:read",
        /// Start, cancel, interrupt and resume runs.
        RunsWrite = "runs:write",
        /// Read threads, export memory, read and find items of long-term memory.
        MemoryRead = "memory:read",
        /// Create and delete threads, load memory, put, delete and redact items of long-term memory.
        MemoryWrite = "memory:write",
        /// Put text into the system voice of a thread.
        MemorySystem = "memory:system",
        /// Read the exact bytes that went to models and came back, which no rule redacts.
        LedgerRead = "ledger:read",
        /// Create, change and archive skills; try tools out; register, change, remove and test MCP servers.
        ToolsWrite = "tools:write",
        /// Store and remove secrets. Their values are read by nobody.
        SecretsWrite = "secrets:write",
        /// Everything, keys included.
        Admin = "admin",
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// For whom.
    pub tenant: TenantId,
    /// With which key; `None` for the bootstrap key, for a token of an OpenID provider, and on a server
    /// without keys.
    pub key: Option<KeyId>,
    /// What they may do.
    pub scopes: BTreeSet<Scope>,
}

impl Caller {
    /// Whether a scope, or `admin`, is held.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}
