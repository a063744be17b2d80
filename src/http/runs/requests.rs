//! `GET /v1/runs/{run_id}/requests`.

use axum::extract::State;

use crate::domain::id::RunId;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{PageParams, PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::http::requests::view::ModelRequestView;
use crate::store::{ledger, runs};

/// List the requests of a run to models
///
/// In the order in which they were sent: every attempt at every turn, those of turns that failed and so
/// have no step too, and requests for summaries. A request is listed once what came of it is on record;
/// one that was under way when its server died is not.
#[utoipa::path(get, path = "/v1/runs/{run_id}/requests", tag = "runs",
    operation_id = "runs_requests",
    params(("run_id" = RunId, Path, description = "The run"), PageParams),
    responses((status = 200, description = "A page of requests", body = PageView<ModelRequestView>)))]
pub(super) async fn requests(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<RunId>,
    Query(query): Query<PageParams>,
) -> Result<Reply<PageView<ModelRequestView>>, Problem> {
    let route = format!("/v1/runs/{id}/requests");
    let scope = CursorScope::new(&caller.tenant, &route, &());
    let page = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    runs::get(&app.store, &caller.tenant, id).await?.ok_or_else(Problem::not_found)?;
    let found = ledger::of_run(&app.store, &caller.tenant, id, &page).await?;
    let shown = found.map(ModelRequestView::from);
    Ok(Reply::ok(PageView::of(shown, |key| app.cursors.seal(&scope, key))))
}
