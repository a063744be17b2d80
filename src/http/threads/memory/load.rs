//! `PUT /v1/threads/{thread_id}/memory`.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;

use super::document::ReadQuery;
use super::{LoadableMemory, document, seen, to_append};
use crate::domain::id::ThreadId;
use crate::domain::memory::Loaded;
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::{IfMatch, LargeText, PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::threads::{ThreadView, find, view};
use crate::store::threads::{self, NewMemory};

/// On which terms a memory is loaded.
#[derive(Debug)]
pub(super) struct Terms {
    if_match: IfMatch,
    repair: bool,
}

impl<S: Send + Sync> FromRequestParts<S> for Terms {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let if_match = IfMatch::from_request_parts(parts, state).await?;
        let Query(ReadQuery { repair }) = Query::from_request_parts(parts, state).await?;
        Ok(Self { if_match, repair })
    }
}

/// Load the memory of a thread
///
/// Replaces what a model sees of the thread; the steps before stay stored. Beside the documents that
/// are exported, a list of Pydantic AI messages and a list of OpenAI chat messages are loaded. A
/// document that does not validate changes nothing. With `repair=true`, the answer lists what was mended.
#[utoipa::path(put, path = "/v1/threads/{thread_id}/memory", tag = "threads",
    operation_id = "memory_load",
    params(("thread_id" = String, Path, description = "The thread"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the memory seen"),
        ReadQuery),
    request_body = LoadableMemory,
    responses((status = 200, description = "The thread", body = ThreadView)),
    extensions(("x-problems" = json!(["memory-load-error", "memory-version-unsupported",
        "thread-busy"]))))]
pub(super) async fn load(
    State(app): State<AppState>,
    caller: Scoped<MemoryWrite>,
    PathId(id): PathId<ThreadId>,
    terms: Terms,
    LargeText(text): LargeText,
) -> Result<Reply<ThreadView>, Problem> {
    let Terms { if_match, repair } = terms;
    let thread = find(&app, &caller, id).await?;
    if_match.check(&view::etag(&thread))?;
    let Loaded { memory, repairs, .. } = document::read(&caller, (&text, ""), repair)?;
    // A document may be large, and all that it says has been read.
    drop(text);
    let steps = to_append(&app, memory.steps);
    let new = NewMemory { steps, metadata: memory.metadata, seen: seen(&if_match, &thread) };
    let replaced =
        threads::replace_memory(&app.store, &caller.tenant, id, &new, app.clock.now()).await;
    let thread = replaced.map_err(|error| if_match.explain(error))?;
    let thread = thread.ok_or_else(Problem::not_found)?;
    let tag = view::etag(&thread);
    let view = ThreadView::of(&app, thread).mended(repair.then_some(repairs));
    Ok(Reply::ok(view).etag(tag))
}
