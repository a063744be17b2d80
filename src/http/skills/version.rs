//! `GET /v1/skills/{skill_id}/versions/{version}`.

use axum::extract::State;

use super::{SkillName, SkillView, find, view};
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::extract::PathPair;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::skills;

/// Get one version of a skill
#[utoipa::path(get, path = "/v1/skills/{skill_id}/versions/{version}", tag = "skills",
    operation_id = "skills_version",
    params(("skill_id" = String, Path, description = "The skill's id or name"),
        ("version" = i32, Path, description = "The version, from 1")),
    responses((status = 200, description = "The version", body = SkillView)))]
pub(super) async fn version(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    PathPair(name, version): PathPair<SkillName, i32>,
) -> Result<Reply<SkillView>, Problem> {
    let skill = find(&app, &caller, &name).await?;
    let found = skills::version(&app.store, &caller.tenant, (skill.id, version)).await?;
    let skill = found.ok_or_else(Problem::not_found)?;
    let tag = view::etag(&skill);
    Ok(Reply::ok(skill.into()).etag(tag))
}
