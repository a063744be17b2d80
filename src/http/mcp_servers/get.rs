//! `GET /v1/mcp-servers/{server_id}`.

use axum::extract::State;

use super::find;
use super::view::McpServerView;
use crate::domain::id::McpServerId;
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Get an MCP server
#[utoipa::path(get, path = "/v1/mcp-servers/{server_id}", tag = "mcp-servers",
    operation_id = "mcp_servers_get",
    params(("server_id" = McpServerId, Path, description = "The server")),
    responses((status = 200, description = "The server", body = McpServerView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    PathId(id): PathId<McpServerId>,
) -> Result<Reply<McpServerView>, Problem> {
    Ok(Reply::ok(find(&app, &caller, id).await?.into()))
}
