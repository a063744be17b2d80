//! `DELETE /v1/agents/{agent_id}`.

use axum::extract::State;

use super::{AgentName, find, view};
use crate::http::AppState;
use crate::http::auth::{AgentsWrite, Scoped};
use crate::http::extract::{IfMatch, PathId};
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::agents;

/// Archive an agent
///
/// It takes no new runs and gives its name back; its runs keep their version. It stays readable by
/// its id.
#[utoipa::path(delete, path = "/v1/agents/{agent_id}", tag = "agents",
    operation_id = "agents_archive",
    params(("agent_id" = String, Path, description = "The agent's id or name"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the version seen")),
    responses((status = 204, description = "Archived")))]
pub(super) async fn archive(
    State(app): State<AppState>,
    caller: Scoped<AgentsWrite>,
    PathId(name): PathId<AgentName>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let agent = find(&app, &caller, &name).await?;
    if_match.check(&view::etag(&agent))?;
    agents::archive(&app.store, &caller.tenant, agent.id, app.clock.now()).await?;
    Ok(NoContent)
}
