//! `POST /v1/runs/{run_id}/cancel`.

use std::time::Duration;

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::shown;
use super::view::RunView;
use crate::domain::id::RunId;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{OptionalBody, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::{AppState, limits};

/// How long `wait` waits at most.
const WAIT: Duration = Duration::from_secs(limits::WAIT_SECS);

/// How a run is cancelled.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelRun {
    /// Answers when the run is over, after at most 60 seconds.
    #[serde(default)]
    wait: bool,
}

/// Cancel a run
///
/// Ends the run: at once when it has not begun, else as soon as a worker hears of it. What was recorded stays, open calls are closed, and the thread can be used again. `stopped` says what was under way. A repeated request changes nothing and is answered the same.
#[utoipa::path(post, path = "/v1/runs/{run_id}/cancel", tag = "runs", operation_id = "runs_cancel",
    request_body = Option<CancelRun>,
    params(("run_id" = RunId, Path, description = "The run")),
    responses((status = 202, description = "The run ends or has been cancelled", body = RunView)),
    extensions(("x-problems" = json!(["run-already-terminal"]))))]
pub(super) async fn cancel(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathId(id): PathId<RunId>,
    OptionalBody(cancel): OptionalBody<CancelRun>,
) -> Result<Reply<RunView>, Problem> {
    let mut run = app.engine.cancel(&caller.tenant, id).await?;
    if cancel.unwrap_or_default().wait {
        let ended = app.engine.wait(&caller.tenant, id, WAIT).await?;
        run = ended.unwrap_or(run);
    }
    Ok(Reply::accepted(format!("/v1/runs/{id}"), shown(&app, &caller.tenant, run).await?))
}
