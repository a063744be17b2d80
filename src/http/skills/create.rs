//! `POST /v1/skills`.

use axum::extract::State;

use super::written::{self, Titles, Written};
use super::{SkillView, view};
use crate::domain::id::SkillId;
use crate::domain::skill::{PinnedSkill, Skill, SkillRef, SkillSpec};
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::extract::Keyed;
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::store::skills;

/// Create a skill
///
/// The body is JSON, or a `SKILL.md`: YAML front matter with `name`, `description` and, where wanted,
/// `tools` and `metadata` between two lines that are exactly `---`, and the instructions after it. A file
/// that does not begin with such a line is all instructions; the query then says what it is called.
#[utoipa::path(post, path = "/v1/skills", tag = "skills", operation_id = "skills_create",
    params(Titles, ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    request_body(content((SkillSpec = "application/json"), (String = "text/markdown"))),
    responses((status = 201, description = "The skill, at version 1", body = SkillView)),
    extensions(("x-problems" = json!(["id-conflict", "skill-load-error", "tool-name-conflict",
        "invalid-tool-schema", "schema-too-complex", "remote-ref-forbidden", "egress-denied",
        "invalid-header-name"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    Keyed(written, key): Keyed<Written>,
) -> Result<Reply<SkillView>, Problem> {
    if let Some(id) = led_to::<SkillId>(&app, &caller, key.as_ref()).await? {
        let first = SkillRef::Pinned(PinnedSkill { name: id.to_string(), version: 1 });
        let mut made = skills::resolve(&app.store, &caller.tenant, &[first]).await?;
        let made = made.pop().flatten().ok_or_else(Problem::not_found)?;
        return Ok(created(made).replayed(true));
    }
    let new = written::read(&app.engine, &caller.tenant, written).await?;
    let id = SkillId::from(app.ids.sortable());
    let (keyed, now) = ((id, key.as_ref()), app.clock.now());
    Ok(created(skills::create(&app.store, &caller.tenant, keyed, &new, now).await?))
}

fn created(skill: Skill) -> Reply<SkillView> {
    let (location, tag) = (format!("/v1/skills/{}", skill.id), view::etag(&skill));
    Reply::created(location, skill.into()).etag(tag)
}
