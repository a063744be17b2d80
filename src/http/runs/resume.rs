//! `POST /v1/runs/{run_id}/resume`.

use axum::extract::State;

use super::shown;
use super::view::RunView;
use crate::domain::id::RunId;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{EmptyObject, OptionalBody, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Resume an interrupted run
///
/// Goes on where the run was interrupted, without repeating its task. A repeated request is refused, as the run is not interrupted any more.
#[utoipa::path(post, path = "/v1/runs/{run_id}/resume", tag = "runs", operation_id = "runs_resume",
    request_body = Option<EmptyObject>,
    params(("run_id" = RunId, Path, description = "The run")),
    responses((status = 202, description = "The run goes on", body = RunView)),
    extensions(("x-problems" = json!(["run-not-waiting", "thread-busy", "version-conflict", "draining"]))))]
pub(super) async fn resume(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathId(id): PathId<RunId>,
    OptionalBody(_nothing): OptionalBody<EmptyObject>,
) -> Result<Reply<RunView>, Problem> {
    let run = app.engine.resume(&caller.tenant, id).await?;
    Ok(Reply::accepted(format!("/v1/runs/{id}"), shown(&app, &caller.tenant, run).await?))
}
