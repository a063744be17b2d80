//! `GET /v1/agents`.

use axum::extract::State;

use super::AgentView;
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{ListParams, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::agents;

/// List agents
///
/// Newest first, each at its newest version; archived agents are left out. `metadata.{key}=value`
/// narrows the list to agents with that label.
#[utoipa::path(get, path = "/v1/agents", tag = "agents", operation_id = "agents_list",
    params(ListParams),
    responses((status = 200, description = "A page of agents", body = PageView<AgentView>)))]
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    Query(query): Query<ListParams>,
) -> Result<Reply<PageView<AgentView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/agents", &query);
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = agents::list(&app.store, &caller.tenant, &query.filter()?, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(AgentView::from), |key| app.cursors.seal(&scope, key))))
}
