//! `POST /v1/mcp-servers/{server_id}/test`.

use axum::extract::State;

use super::find;
use super::view::McpTestView;
use crate::domain::id::McpServerId;
use crate::engine::servers;
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::extract::{EmptyObject, OptionalBody, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Test an MCP server
///
/// Connects to it in a session of its own and asks for its tools. Nothing is stored: a repeated request asks it once more.
#[utoipa::path(post, path = "/v1/mcp-servers/{server_id}/test", tag = "mcp-servers",
    operation_id = "mcp_servers_test",
    params(("server_id" = McpServerId, Path, description = "The server")),
    request_body = Option<EmptyObject>,
    responses((status = 200, description = "What it lists", body = McpTestView)),
    extensions(("x-problems" = json!(["egress-denied", "mcp-unavailable"]))))]
pub(super) async fn test(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    PathId(id): PathId<McpServerId>,
    OptionalBody(_nothing): OptionalBody<EmptyObject>,
) -> Result<Reply<McpTestView>, Problem> {
    let server = find(&app, &caller, id).await?;
    let began = app.clock.monotonic();
    let listing = servers::test(&app.engine, &caller.tenant, &server.spec).await?;
    let took = app.clock.monotonic().saturating_sub(began);
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    Ok(Reply::ok(McpTestView::of(listing, &server.spec, took)))
}
