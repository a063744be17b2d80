//! `POST /v1/mcp-servers`.

use axum::extract::State;

use super::check::check;
use super::view::McpServerView;
use crate::domain::id::McpServerId;
use crate::domain::mcp::{McpServer, McpServerSpec};
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::extract::{Body, Keyed};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::store::mcp_servers;

/// Register an MCP server
///
/// Agents use its tools by `{"kind": "mcp", "server": name}`. It is not connected to until a run needs it:
/// `test` tries it. What it says of its tools, annotations included, never decides whether a call may be
/// repeated or has to be approved; `rules` and `overrides` do.
#[utoipa::path(post, path = "/v1/mcp-servers", tag = "mcp-servers", operation_id = "mcp_servers_create",
    request_body = McpServerSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    responses((status = 201, description = "The server", body = McpServerView)),
    extensions(("x-problems" = json!(["egress-denied", "id-conflict", "invalid-header-name"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    Keyed(Body(spec), key): Keyed<Body<McpServerSpec>>,
) -> Result<Reply<McpServerView>, Problem> {
    if let Some(id) = led_to(&app, &caller, key.as_ref()).await? {
        let made = mcp_servers::get(&app.store, &caller.tenant, id).await?;
        return Ok(created(made.ok_or_else(Problem::not_found)?).replayed(true));
    }
    check(&app, &caller.tenant, &spec).await?;
    let (id, now) = (McpServerId::from(app.ids.sortable()), app.clock.now());
    let server = McpServer { id, spec, created_at: now, updated_at: now };
    mcp_servers::create(&app.store, &caller.tenant, &server, key.as_ref()).await?;
    Ok(created(server))
}

fn created(server: McpServer) -> Reply<McpServerView> {
    Reply::created(format!("/v1/mcp-servers/{}", server.id), server.into())
}
