//! Agents: immutable, versioned configurations.

mod archive;
mod create;
mod get;
mod list;
mod name;
mod put;
pub(super) mod spec;
mod versions;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use super::extract::Checks;
use crate::domain::agent::{Agent, AgentSpec};
use crate::domain::caller::Caller;
use crate::domain::id::TenantId;
use crate::engine::Engine;
use crate::error::AgentlingError;
use crate::store;

use name::AgentName;
use view::AgentView;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(get::get, put::put, archive::archive))
        .routes(routes!(versions::versions))
}

/// Refuses an agent that cannot be stored, with everything that is wrong with it.
async fn check(engine: &Engine, tenant: &TenantId, spec: &AgentSpec) -> Result<(), AgentlingError> {
    let mut checks = Checks::new();
    spec::check(spec, "", &mut checks);
    let of_tools = match engine.check_agent(spec, "") {
        Err(AgentlingError::Invalid(findings)) => {
            checks.extend(findings);
            Ok(())
        }
        other => other,
    };
    checks.finish().and(of_tools)?;
    engine.check_secrets(tenant, spec, "").await?;
    engine.check_servers(tenant, spec).await?;
    engine.check_skills(tenant, spec).await
}

/// The agent that a path names, at its newest version.
async fn find(app: &AppState, caller: &Caller, name: &AgentName) -> Result<Agent, AgentlingError> {
    let agent = store::agents::get(&app.store, &caller.tenant, &name.0, None).await?;
    agent.ok_or(AgentlingError::NotFound { kind: "agent" })
}
