//! `GET /v1/agents/{agent_id}/versions`.

use axum::extract::State;

use super::{AgentName, AgentView, find};
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{PageParams, PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::agents;

/// List the versions of an agent
///
/// Newest first.
#[utoipa::path(get, path = "/v1/agents/{agent_id}/versions", tag = "agents",
    operation_id = "agents_versions",
    params(("agent_id" = String, Path, description = "The agent's id or name"), PageParams),
    responses((status = 200, description = "A page of versions", body = PageView<AgentView>)))]
pub(super) async fn versions(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    PathId(name): PathId<AgentName>,
    Query(query): Query<PageParams>,
) -> Result<Reply<PageView<AgentView>>, Problem> {
    let agent = find(&app, &caller, &name).await?;
    let route = format!("/v1/agents/{}/versions", agent.id);
    let scope = CursorScope::new(&caller.tenant, &route, &());
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = agents::versions(&app.store, &caller.tenant, agent.id, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(AgentView::from), |key| app.cursors.seal(&scope, key))))
}
