//! `DELETE /v1/mcp-servers/{server_id}`.

use axum::extract::State;

use crate::domain::id::McpServerId;
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::mcp_servers;

/// Remove an MCP server
///
/// Runs that were given its tools keep them, and their calls fail.
#[utoipa::path(delete, path = "/v1/mcp-servers/{server_id}", tag = "mcp-servers",
    operation_id = "mcp_servers_delete",
    params(("server_id" = McpServerId, Path, description = "The server")),
    responses((status = 204, description = "Removed")))]
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    PathId(id): PathId<McpServerId>,
) -> Result<NoContent, Problem> {
    let is_gone = mcp_servers::delete(&app.store, &caller.tenant, id).await?;
    if is_gone { Ok(NoContent) } else { Err(Problem::not_found()) }
}
