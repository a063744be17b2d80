//! `DELETE /v1/skills/{skill_id}`.

use axum::extract::State;

use super::{SkillName, find, view};
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::extract::{IfMatch, PathId};
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::skills;

/// Archive a skill
///
/// No new agent can name it, and it gives its name back. Agents that name it keep it, as do their runs.
/// It stays readable by its id.
#[utoipa::path(delete, path = "/v1/skills/{skill_id}", tag = "skills",
    operation_id = "skills_archive",
    params(("skill_id" = String, Path, description = "The skill's id or name"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the version seen")),
    responses((status = 204, description = "Archived")))]
pub(super) async fn archive(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    PathId(name): PathId<SkillName>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let skill = find(&app, &caller, &name).await?;
    if_match.check(&view::etag(&skill))?;
    skills::archive(&app.store, &caller.tenant, skill.id, app.clock.now()).await?;
    Ok(NoContent)
}
