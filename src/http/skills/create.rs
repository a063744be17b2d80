//! `POST /v1/skills`.

use axum::extract::State;

use super::written::{self, Titles, Written};
use super::{SkillView, view};
use crate::domain::id::SkillId;
use crate::domain::skill::SkillSpec;
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::skills;

/// Create a skill
///
/// The body is JSON, or a `SKILL.md`: YAML front matter with `name`, `description` and, where wanted,
/// `tools` and `metadata` between two lines that are exactly `---`, and the instructions after it. A file
/// that does not begin with such a line is all instructions; the query then says what it is called.
#[utoipa::path(post, path = "/v1/skills", tag = "skills", operation_id = "skills_create",
    params(Titles),
    request_body(content((SkillSpec = "application/json"), (String = "text/markdown"))),
    responses((status = 201, description = "The skill, at version 1", body = SkillView)),
    extensions(("x-problems" = json!(["id-conflict", "skill-load-error", "tool-name-conflict",
        "invalid-tool-schema", "schema-too-complex", "remote-ref-forbidden", "egress-denied",
        "invalid-header-name"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    written: Written,
) -> Result<Reply<SkillView>, Problem> {
    let new = written::read(&app.engine, &caller.tenant, written).await?;
    let id = SkillId::from(app.ids.sortable());
    let skill = skills::create(&app.store, &caller.tenant, id, &new, app.clock.now()).await?;
    let tag = view::etag(&skill);
    Ok(Reply::created(format!("/v1/skills/{id}"), skill.into()).etag(tag))
}
