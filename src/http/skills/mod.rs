//! Skills: instructions and tools that agents load, in immutable versions.

mod archive;
mod create;
mod get;
mod list;
mod name;
mod put;
mod version;
mod versions;
mod view;
mod written;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::caller::Caller;
use crate::domain::skill::Skill;
use crate::error::AgentlingError;
use crate::store;

use name::SkillName;
use view::SkillView;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(get::get, put::put, archive::archive))
        .routes(routes!(versions::versions))
        .routes(routes!(version::version))
}

/// The skill that a path names, at its newest version.
async fn find(app: &AppState, caller: &Caller, name: &SkillName) -> Result<Skill, AgentlingError> {
    let skill = store::skills::get(&app.store, &caller.tenant, name.wanted()).await?;
    skill.ok_or(AgentlingError::NotFound { kind: "skill" })
}
