//! `POST /v1/agents`.

use axum::extract::State;

use super::{AgentView, check, view};
use crate::domain::agent::AgentSpec;
use crate::domain::id::AgentId;
use crate::http::AppState;
use crate::http::auth::{AgentsWrite, Scoped};
use crate::http::extract::Body;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::agents;

/// Create an agent
#[utoipa::path(post, path = "/v1/agents", tag = "agents", operation_id = "agents_create",
    request_body = AgentSpec,
    responses((status = 201, description = "The agent, at version 1", body = AgentView)),
    extensions(("x-problems" = json!(["id-conflict", "tool-name-conflict", "invalid-tool-schema",
        "schema-too-complex", "remote-ref-forbidden", "egress-denied", "invalid-header-name",
        "unknown-agent"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<AgentsWrite>,
    Body(new): Body<AgentSpec>,
) -> Result<Reply<AgentView>, Problem> {
    check(&app.engine, &caller.tenant, &new).await?;
    app.engine.check_sub_agents(&caller.tenant, &new, "").await?;
    let id = AgentId::from(app.ids.sortable());
    let agent = agents::create(&app.store, &caller.tenant, id, &new, app.clock.now()).await?;
    let tag = view::etag(&agent);
    Ok(Reply::created(format!("/v1/agents/{id}"), agent.into()).etag(tag))
}
