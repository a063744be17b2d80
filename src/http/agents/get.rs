//! `GET /v1/agents/{agent_id}`.

use axum::extract::State;

use super::name::VersionQuery;
use super::{AgentName, AgentView, view};
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::extract::{PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::agents;

/// Get an agent
#[utoipa::path(get, path = "/v1/agents/{agent_id}", tag = "agents", operation_id = "agents_get",
    params(("agent_id" = String, Path, description = "The agent's id or name"), VersionQuery),
    responses((status = 200, description = "The agent", body = AgentView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    PathId(name): PathId<AgentName>,
    Query(query): Query<VersionQuery>,
) -> Result<Reply<AgentView>, Problem> {
    let agent = agents::get(&app.store, &caller.tenant, &name.0, query.version)
        .await?
        .ok_or_else(Problem::not_found)?;
    let tag = view::etag(&agent);
    Ok(Reply::ok(agent.into()).etag(tag))
}
