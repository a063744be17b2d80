//! `PUT /v1/skills/{skill_id}`.

use axum::extract::State;

use super::written::{self, Titles, Written};
use super::{SkillName, SkillView, find, view};
use crate::domain::skill::SkillSpec;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::extract::{IfMatch, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::agents::Behind;
use crate::store::skills;

/// Add a version to a skill
///
/// The body is the whole new version, JSON or a `SKILL.md`. Runs keep the version they were started with.
/// Without `If-Match` the newest version is followed whatever it is.
#[utoipa::path(put, path = "/v1/skills/{skill_id}", tag = "skills", operation_id = "skills_put",
    params(("skill_id" = String, Path, description = "The skill's id or name"), Titles,
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the version seen")),
    request_body(content((SkillSpec = "application/json"), (String = "text/markdown"))),
    responses((status = 200, description = "The skill, at its new version", body = SkillView)),
    extensions(("x-problems" = json!(["gone", "id-conflict", "version-conflict", "skill-load-error",
        "tool-name-conflict", "invalid-tool-schema", "schema-too-complex", "remote-ref-forbidden",
        "egress-denied", "invalid-header-name"]))))]
pub(super) async fn put(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    PathId(name): PathId<SkillName>,
    if_match: IfMatch,
    written: Written,
) -> Result<Reply<SkillView>, Problem> {
    let seen = find(&app, &caller, &name).await?;
    if seen.archived_at.is_some() {
        return Err(AgentlingError::Gone { kind: "skill" }.into());
    }
    if_match.check(&view::etag(&seen))?;
    let new = written::read(&app.engine, &caller.tenant, written).await?;
    let behind = if if_match == IfMatch::Absent { Behind::Newest } else { Behind::Seen };
    let (place, now) = ((&seen, behind), app.clock.now());
    let added = skills::add_version(&app.store, &caller.tenant, place, &new, now).await;
    let skill = added.map_err(|error| if_match.explain(error))?;
    let tag = view::etag(&skill);
    Ok(Reply::ok(skill.into()).etag(tag))
}
