//! `POST /v1/runs/{run_id}/interrupt`.

use axum::extract::State;

use super::shown;
use super::view::RunView;
use crate::domain::id::RunId;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{EmptyObject, OptionalBody, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Interrupt a run
///
/// Stops the run at the next boundary, also in the middle of a reply; what had arrived is kept. `resume` goes on from there. A repeated request changes nothing; once the run has stopped it is refused.
#[utoipa::path(post, path = "/v1/runs/{run_id}/interrupt", tag = "runs", operation_id = "runs_interrupt",
    request_body = Option<EmptyObject>,
    params(("run_id" = RunId, Path, description = "The run")),
    responses((status = 202, description = "The run stops or has stopped", body = RunView)),
    extensions(("x-problems" = json!(["run-not-active"]))))]
pub(super) async fn interrupt(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathId(id): PathId<RunId>,
    OptionalBody(_nothing): OptionalBody<EmptyObject>,
) -> Result<Reply<RunView>, Problem> {
    let run = app.engine.interrupt(&caller.tenant, id).await?;
    Ok(Reply::accepted(format!("/v1/runs/{id}"), shown(&app, &caller.tenant, run).await?))
}
