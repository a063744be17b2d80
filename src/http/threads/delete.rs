//! `DELETE /v1/threads/{thread_id}`.

use axum::extract::State;

use crate::domain::id::ThreadId;
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::erasure;

/// Delete a thread
///
/// It is erased: its runs, their history, events and requests, what endpoints were to be told of them,
/// the idempotency keys that lead to them, and the threads of their sub-runs, unless these were gone on with.
/// Its id and those of its runs answer 410 from then on. Deleting it again changes nothing. It stays while one
/// of these runs is active. A thread whose steps forks share stays until they are deleted.
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
    let is_erased = erasure::thread(&app.store, &caller.tenant, id, app.clock.now()).await?;
    if is_erased { Ok(NoContent) } else { Err(Problem::not_found()) }
}
