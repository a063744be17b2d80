//! `GET /v1/mcp-servers`.

use axum::extract::State;

use super::view::McpServerView;
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{ListParams, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::mcp_servers;

/// List MCP servers
///
/// Newest first. `metadata.{key}=value` narrows the list to servers with that label. Those of the operator
/// are not among them.
#[utoipa::path(get, path = "/v1/mcp-servers", tag = "mcp-servers", operation_id = "mcp_servers_list",
    params(ListParams),
    responses((status = 200, description = "A page of servers", body = PageView<McpServerView>)))]
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    Query(query): Query<ListParams>,
) -> Result<Reply<PageView<McpServerView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/mcp-servers", &query);
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = mcp_servers::list(&app.store, &caller.tenant, &query.filter()?, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(McpServerView::from), |key| app.cursors.seal(&scope, key))))
}
