//! `GET /v1/schedules`.

use axum::extract::State;

use super::view::ScheduleView;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{ListParams, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::schedules;

/// List schedules
///
/// Newest first. `metadata.{key}=value` narrows the list to schedules with that label.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules", operation_id = "schedules_list",
    params(ListParams),
    responses((status = 200, description = "A page of schedules", body = PageView<ScheduleView>)))]
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    Query(query): Query<ListParams>,
) -> Result<Reply<PageView<ScheduleView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/schedules", &query);
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = schedules::list(&app.store, &caller.tenant, &query.filter()?, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(ScheduleView::from), |key| app.cursors.seal(&scope, key))))
}
