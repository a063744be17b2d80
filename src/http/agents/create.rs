//! `POST /v1/agents`.

use axum::extract::State;

use super::{AgentView, check, view};
use crate::domain::agent::{Agent, AgentSpec};
use crate::domain::id::AgentId;
use crate::http::AppState;
use crate::http::auth::{AgentsWrite, Scoped};
use crate::http::extract::{Body, Keyed};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::store::agents::{self, AgentRef};

/// Create an agent
#[utoipa::path(post, path = "/v1/agents", tag = "agents", operation_id = "agents_create",
    request_body = AgentSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    responses((status = 201, description = "The agent, at version 1", body = AgentView)),
    extensions(("x-problems" = json!(["id-conflict", "tool-name-conflict", "invalid-tool-schema",
        "schema-too-complex", "remote-ref-forbidden", "egress-denied", "invalid-header-name",
        "unknown-agent"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<AgentsWrite>,
    Keyed(Body(new), key): Keyed<Body<AgentSpec>>,
) -> Result<Reply<AgentView>, Problem> {
    if let Some(id) = led_to(&app, &caller, key.as_ref()).await? {
        let made = agents::get(&app.store, &caller.tenant, &AgentRef::Id(id), Some(1)).await?;
        return Ok(created(made.ok_or_else(Problem::not_found)?).replayed(true));
    }
    check(&app.engine, &caller.tenant, &new).await?;
    app.engine.check_sub_agents(&caller.tenant, &new, "").await?;
    let id = AgentId::from(app.ids.sortable());
    let (keyed, now) = ((id, key.as_ref()), app.clock.now());
    Ok(created(agents::create(&app.store, &caller.tenant, keyed, &new, now).await?))
}

fn created(agent: Agent) -> Reply<AgentView> {
    let (location, tag) = (format!("/v1/agents/{}", agent.id), view::etag(&agent));
    Reply::created(location, agent.into()).etag(tag)
}
