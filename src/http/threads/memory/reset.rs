//! `DELETE /v1/threads/{thread_id}/memory`.

use axum::extract::State;

use super::{seen, to_append};
use crate::domain::id::ThreadId;
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::{IfMatch, PathId};
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::http::threads::{find, view};
use crate::store::threads::{self, NewMemory};

/// Reset the memory of a thread
///
/// A model sees nothing of what was said before; the steps stay stored.
#[utoipa::path(delete, path = "/v1/threads/{thread_id}/memory", tag = "threads",
    operation_id = "memory_reset",
    params(("thread_id" = String, Path, description = "The thread"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the memory seen")),
    responses((status = 204, description = "Reset")),
    extensions(("x-problems" = json!(["thread-busy"]))))]
pub(super) async fn reset(
    State(app): State<AppState>,
    caller: Scoped<MemoryWrite>,
    PathId(id): PathId<ThreadId>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let thread = find(&app, &caller, id).await?;
    if_match.check(&view::etag(&thread))?;
    let steps = to_append(&app, Vec::new());
    let new = NewMemory { steps, metadata: None, seen: seen(&if_match, &thread) };
    threads::replace_memory(&app.store, &caller.tenant, id, &new, app.clock.now())
        .await
        .map_err(|error| if_match.explain(error))?
        .ok_or_else(Problem::not_found)?;
    Ok(NoContent)
}
