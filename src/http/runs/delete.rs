//! `DELETE /v1/runs/{run_id}`.

use axum::extract::State;

use crate::domain::id::RunId;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::erasure;

/// Delete a run
///
/// A run that has ended is erased: its steps, events and requests, what endpoints were to be told of it,
/// the idempotency key that leads to it, and the threads of its sub-runs, unless these were gone on with. Later runs on its thread stay, but not the bodies of their
/// requests, which repeat what was said in it. Its id answers 410 from then on. Deleting it again changes
/// nothing.
#[utoipa::path(delete, path = "/v1/runs/{run_id}", tag = "runs", operation_id = "runs_delete",
    params(("run_id" = RunId, Path, description = "The run")),
    responses((status = 204, description = "Deleted")),
    extensions(("x-problems" = json!(["thread-busy", "in-use"]))))]
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathId(id): PathId<RunId>,
) -> Result<NoContent, Problem> {
    let is_erased = erasure::run(&app.store, &caller.tenant, id, app.clock.now()).await?;
    if is_erased { Ok(NoContent) } else { Err(Problem::not_found()) }
}
