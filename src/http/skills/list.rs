//! `GET /v1/skills`.

use axum::extract::State;

use super::SkillView;
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{ListParams, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::skills;

/// List skills
///
/// Newest first, each at its newest version; archived skills are left out. `metadata.{key}=value`
/// narrows the list to skills with that label.
#[utoipa::path(get, path = "/v1/skills", tag = "skills", operation_id = "skills_list",
    params(ListParams),
    responses((status = 200, description = "A page of skills", body = PageView<SkillView>)))]
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    Query(query): Query<ListParams>,
) -> Result<Reply<PageView<SkillView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/skills", &query);
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = skills::list(&app.store, &caller.tenant, &query.filter()?, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(SkillView::from), |key| app.cursors.seal(&scope, key))))
}
