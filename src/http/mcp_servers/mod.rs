//! MCP servers that agents may use.

mod check;
mod create;
mod delete;
mod get;
mod list;
mod put;
mod test;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::caller::Caller;
use crate::domain::id::McpServerId;
use crate::domain::mcp::McpServer;
use crate::error::AgentlingError;
use crate::store;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(get::get, put::put, delete::delete))
        .routes(routes!(test::test))
}

/// The server that a path names.
async fn find(
    app: &AppState,
    caller: &Caller,
    id: McpServerId,
) -> Result<McpServer, AgentlingError> {
    let server = store::mcp_servers::get(&app.store, &caller.tenant, id).await?;
    server.ok_or(AgentlingError::NotFound { kind: "mcp_server" })
}
