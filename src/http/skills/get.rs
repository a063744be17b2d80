//! `GET /v1/skills/{skill_id}`.

use axum::extract::State;

use super::{SkillName, SkillView, find, view};
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Get a skill
///
/// At its newest version.
#[utoipa::path(get, path = "/v1/skills/{skill_id}", tag = "skills", operation_id = "skills_get",
    params(("skill_id" = String, Path, description = "The skill's id or name")),
    responses((status = 200, description = "The skill", body = SkillView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    PathId(name): PathId<SkillName>,
) -> Result<Reply<SkillView>, Problem> {
    let skill = find(&app, &caller, &name).await?;
    let tag = view::etag(&skill);
    Ok(Reply::ok(skill.into()).etag(tag))
}
