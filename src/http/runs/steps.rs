//! `GET /v1/runs/{run_id}/steps`.

use axum::extract::State;

use crate::domain::id::RunId;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{PageParams, PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::http::steps::shown;
use crate::http::steps::view::StepView;
use crate::store::{runs, steps};

/// List the steps of a run, in order
#[utoipa::path(get, path = "/v1/runs/{run_id}/steps", tag = "runs", operation_id = "runs_steps",
    params(("run_id" = RunId, Path, description = "The run"), PageParams),
    responses((status = 200, description = "A page of steps", body = PageView<StepView>)))]
pub(super) async fn steps(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<RunId>,
    Query(query): Query<PageParams>,
) -> Result<Reply<PageView<StepView>>, Problem> {
    let route = format!("/v1/runs/{id}/steps");
    let scope = CursorScope::new(&caller.tenant, &route, &());
    let page = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let run = runs::get(&app.store, &caller.tenant, id).await?.ok_or_else(Problem::not_found)?;
    let place = (run.thread_id, Some(id));
    let found = steps::list(&app.store, &caller.tenant, place, &page).await?;
    let shown = shown(&app, &caller.tenant, found).await?;
    Ok(Reply::ok(PageView::of(shown, |key| app.cursors.seal(&scope, key))))
}
