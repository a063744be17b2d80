//! `PUT /v1/agents/{agent_id}`.

use axum::extract::State;

use super::{AgentName, AgentView, check, find, view};
use crate::domain::agent::AgentSpec;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{AgentsWrite, Scoped};
use crate::http::extract::{Body, IfMatch, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::agents::{self, Behind};

/// Add a version to an agent
///
/// The body is the whole new version. Runs keep the version they were started with. Without
/// `If-Match` the newest version is followed whatever it is.
#[utoipa::path(put, path = "/v1/agents/{agent_id}", tag = "agents", operation_id = "agents_put",
    params(("agent_id" = String, Path, description = "The agent's id or name"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the version seen")),
    request_body = AgentSpec,
    responses((status = 200, description = "The agent, at its new version", body = AgentView)),
    extensions(("x-problems" = json!(["gone", "id-conflict", "version-conflict",
        "tool-name-conflict", "invalid-tool-schema", "schema-too-complex", "remote-ref-forbidden",
        "egress-denied", "invalid-header-name", "unknown-agent"]))))]
pub(super) async fn put(
    State(app): State<AppState>,
    caller: Scoped<AgentsWrite>,
    PathId(name): PathId<AgentName>,
    if_match: IfMatch,
    Body(new): Body<AgentSpec>,
) -> Result<Reply<AgentView>, Problem> {
    let seen = find(&app, &caller, &name).await?;
    if seen.archived_at.is_some() {
        return Err(AgentlingError::Gone { kind: "agent" }.into());
    }
    if_match.check(&view::etag(&seen))?;
    check(&app.engine, &caller.tenant, &new).await?;
    app.engine.check_sub_agents(&caller.tenant, &new, "").await?;
    let behind = if if_match == IfMatch::Absent { Behind::Newest } else { Behind::Seen };
    let (place, now) = ((&seen, behind), app.clock.now());
    let added = agents::add_version(&app.store, &caller.tenant, place, &new, now).await;
    let agent = added.map_err(|error| if_match.explain(error))?;
    let tag = view::etag(&agent);
    Ok(Reply::ok(agent.into()).etag(tag))
}
