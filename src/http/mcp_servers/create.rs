//! `POST /v1/mcp-servers`.

use axum::extract::State;

use super::check::check;
use super::view::McpServerView;
use crate::domain::id::McpServerId;
use crate::domain::mcp::{McpServer, McpServerSpec};
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::extract::Body;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::mcp_servers;

/// Register an MCP server
///
/// Agents use its tools by `{"kind": "mcp", "server": name}`. It is not connected to until a run needs it:
/// `test` tries it. What it says of its tools, annotations included, never decides whether a call may be
/// repeated or has to be approved; `rules` and `overrides` do.
#[utoipa::path(post, path = "/v1/mcp-servers", tag = "mcp-servers", operation_id = "mcp_servers_create",
    request_body = McpServerSpec,
    responses((status = 201, description = "The server", body = McpServerView)),
    extensions(("x-problems" = json!(["egress-denied", "id-conflict", "invalid-header-name"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    Body(spec): Body<McpServerSpec>,
) -> Result<Reply<McpServerView>, Problem> {
    check(&app, &caller.tenant, &spec).await?;
    let (id, now) = (McpServerId::from(app.ids.sortable()), app.clock.now());
    let server = McpServer { id, spec, created_at: now, updated_at: now };
    mcp_servers::create(&app.store, &caller.tenant, &server).await?;
    Ok(Reply::created(format!("/v1/mcp-servers/{id}"), server.into()))
}
