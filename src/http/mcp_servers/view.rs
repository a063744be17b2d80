//! Servers as callers read them.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::agent::Metadata;
use crate::domain::id::McpServerId;
use crate::domain::mcp::{LeftOut, Listing, McpRules, McpServer, McpServerInfo, McpServerSpec};
use crate::domain::secret::HeaderSource;
use crate::http::time::Time;

/// A registered server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = McpServer)]
pub(super) struct McpServerView {
    /// Its id.
    id: McpServerId,
    /// What agents refer to it by.
    #[schema(examples("tickets"))]
    name: String,
    /// Where it is reached.
    url: String,
    /// Headers sent with every request; secrets stand here by their names.
    #[schema(value_type = BTreeMap<String, HeaderSource>)]
    headers: IndexMap<String, HeaderSource>,
    /// Bound of connecting and listing in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    connect_timeout_ms: Option<u64>,
    /// The tools that agents may use; all when it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    allow: Option<Vec<String>>,
    /// Tools that no agent may use.
    deny: Vec<String>,
    /// What holds for its tools.
    rules: McpRules,
    /// What holds for single tools.
    overrides: BTreeMap<String, McpRules>,
    /// The caller's own labels.
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    /// When it was registered.
    created_at: Time,
    /// When it was changed last.
    updated_at: Time,
}

impl From<McpServer> for McpServerView {
    fn from(server: McpServer) -> Self {
        let spec = server.spec;
        Self {
            id: server.id,
            name: spec.name,
            url: spec.url,
            headers: spec.headers,
            connect_timeout_ms: spec.connect_timeout_ms,
            allow: spec.allow,
            deny: spec.deny,
            rules: spec.rules,
            overrides: spec.overrides,
            metadata: spec.metadata,
            created_at: server.created_at.into(),
            updated_at: server.updated_at.into(),
        }
    }
}

/// What came of asking a server for its tools.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = McpTest)]
pub(super) struct McpTestView {
    /// Who answered.
    server_info: McpServerInfo,
    /// How long it took, in milliseconds.
    duration_ms: u64,
    /// The tools that agents may use.
    tools: Vec<McpToolView>,
    /// The tools that they may not, and why.
    left_out: Vec<LeftOut>,
}

/// A tool of a server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = McpListedTool)]
struct McpToolView {
    /// The name that the server gives it.
    name: String,
    /// Its description, bounded and without control characters.
    description: String,
    /// JSON Schema of its arguments.
    #[schema(value_type = Object)]
    parameters: serde_json::Value,
}

impl McpTestView {
    pub(super) fn of(listing: Listing, spec: &McpServerSpec, duration_ms: u64) -> Self {
        let Listing { info, tools, mut left_out } = listing;
        let (offered, closed): (Vec<_>, Vec<_>) =
            tools.into_iter().partition(|tool| spec.offers(&tool.name));
        let reason = "the server is registered without it";
        left_out.extend(
            closed.into_iter().map(|tool| LeftOut { name: tool.name, reason: reason.to_owned() }),
        );
        let tools = offered.into_iter().map(|tool| McpToolView {
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters,
        });
        Self { server_info: info, duration_ms, tools: tools.collect(), left_out }
    }
}
