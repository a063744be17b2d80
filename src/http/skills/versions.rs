//! `GET /v1/skills/{skill_id}/versions`.

use axum::extract::State;

use super::{SkillName, SkillView, find};
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{PageParams, PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::skills;

/// List the versions of a skill
///
/// Newest first.
#[utoipa::path(get, path = "/v1/skills/{skill_id}/versions", tag = "skills",
    operation_id = "skills_versions",
    params(("skill_id" = String, Path, description = "The skill's id or name"), PageParams),
    responses((status = 200, description = "A page of versions", body = PageView<SkillView>)))]
pub(super) async fn versions(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    PathId(name): PathId<SkillName>,
    Query(query): Query<PageParams>,
) -> Result<Reply<PageView<SkillView>>, Problem> {
    let skill = find(&app, &caller, &name).await?;
    let route = format!("/v1/skills/{}/versions", skill.id);
    let scope = CursorScope::new(&caller.tenant, &route, &());
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = skills::versions(&app.store, &caller.tenant, skill.id, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(SkillView::from), |key| app.cursors.seal(&scope, key))))
}
