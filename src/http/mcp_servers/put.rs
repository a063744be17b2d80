//! `PUT /v1/mcp-servers/{server_id}`.

use axum::extract::State;

use super::check::check;
use super::view::McpServerView;
use crate::domain::id::McpServerId;
use crate::domain::mcp::McpServerSpec;
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::extract::{Body, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::mcp_servers;

/// Replace an MCP server
///
/// Calls of runs that are under way go where the server now is; the tools that they were given stay.
#[utoipa::path(put, path = "/v1/mcp-servers/{server_id}", tag = "mcp-servers",
    operation_id = "mcp_servers_put", request_body = McpServerSpec,
    params(("server_id" = McpServerId, Path, description = "The server")),
    responses((status = 200, description = "The server as it is now", body = McpServerView)),
    extensions(("x-problems" = json!(["egress-denied", "id-conflict", "invalid-header-name"]))))]
pub(super) async fn put(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    PathId(id): PathId<McpServerId>,
    Body(spec): Body<McpServerSpec>,
) -> Result<Reply<McpServerView>, Problem> {
    check(&app, &caller.tenant, &spec).await?;
    let now = app.clock.now();
    let server = mcp_servers::replace(&app.store, &caller.tenant, id, (&spec, now)).await?;
    Ok(Reply::ok(server.ok_or_else(Problem::not_found)?.into()))
}
