//! `GET /v1/threads/{thread_id}`.

use axum::extract::State;

use super::{ThreadView, find, view};
use crate::domain::id::ThreadId;
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Get a thread
#[utoipa::path(get, path = "/v1/threads/{thread_id}", tag = "threads", operation_id = "threads_get",
    params(("thread_id" = String, Path, description = "The thread")),
    responses((status = 200, description = "The thread", body = ThreadView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    PathId(id): PathId<ThreadId>,
) -> Result<Reply<ThreadView>, Problem> {
    let thread = find(&app, &caller, id).await?;
    let tag = view::etag(&thread);
    Ok(Reply::ok(ThreadView::of(&app, thread)).etag(tag))
}
