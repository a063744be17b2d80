//! `GET /v1/threads/{thread_id}/steps`.

use axum::extract::State;

use super::find;
use crate::domain::id::ThreadId;
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{PageParams, PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::http::steps::shown;
use crate::http::steps::view::StepView;
use crate::store::steps;

/// List the steps of a thread
///
/// In order, those before a reset or a loaded memory included.
#[utoipa::path(get, path = "/v1/threads/{thread_id}/steps", tag = "threads",
    operation_id = "threads_steps",
    params(("thread_id" = String, Path, description = "The thread"), PageParams),
    responses((status = 200, description = "A page of steps", body = PageView<StepView>)))]
pub(super) async fn steps(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    PathId(id): PathId<ThreadId>,
    Query(query): Query<PageParams>,
) -> Result<Reply<PageView<StepView>>, Problem> {
    let route = format!("/v1/threads/{id}/steps");
    let scope = CursorScope::new(&caller.tenant, &route, &());
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    find(&app, &caller, id).await?;
    let page = steps::list(&app.store, &caller.tenant, (id, None), &request).await?;
    let shown = shown(&app, &caller.tenant, page).await?;
    Ok(Reply::ok(PageView::of(shown, |key| app.cursors.seal(&scope, key))))
}
