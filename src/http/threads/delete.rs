//! `DELETE /v1/threads/{thread_id}`.

use axum::extract::State;

use crate::domain::id::ThreadId;
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::threads;

/// Delete a thread
///
/// Its runs and its history go with it. A thread whose steps forks share stays until they are deleted.
#[utoipa::path(delete, path = "/v1/threads/{thread_id}", tag = "threads",
    operation_id = "threads_delete",
    params(("thread_id" = String, Path, description = "The thread")),
    responses((status = 204, description = "Deleted")),
    extensions(("x-problems" = json!(["thread-busy", "in-use"]))))]
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Scoped<MemoryWrite>,
    PathId(id): PathId<ThreadId>,
) -> Result<NoContent, Problem> {
    let deleted = threads::delete(&app.store, &caller.tenant, id).await?;
    if deleted { Ok(NoContent) } else { Err(Problem::not_found()) }
}
