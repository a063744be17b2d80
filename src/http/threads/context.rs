//! `PUT /v1/threads/{thread_id}/context/{block_id}`.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ThreadView, find, operator_write, view};
use crate::domain::id::{BlockId, ThreadId};
use crate::domain::step::ContextStep;
use crate::http::AppState;
use crate::http::auth::{MemorySystem, Scoped};
use crate::http::extract::{Body, Checks, IfMatch, PathIdAndName};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::operator;

/// What a block of context says from now on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewContext {
    /// The text, which is not blank; null withdraws the block.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required = true, pattern = r"\S")]
    text: Option<String>,
}

/// Set or withdraw a block of context
///
/// What is set before the first run belongs to the standing instructions; a later change is told to
/// the model in the system voice with the next run, as a difference where that is shorter. What the
/// block says already changes nothing. While a run is active nothing can be set.
#[utoipa::path(put, path = "/v1/threads/{thread_id}/context/{block_id}", tag = "threads",
    operation_id = "threads_set_context",
    params(("thread_id" = String, Path, description = "The thread"),
        ("block_id" = BlockId, Path, description = "The block"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the thread seen")),
    request_body = NewContext,
    responses((status = 200, description = "The thread", body = ThreadView)),
    extensions(("x-problems" = json!(["thread-busy", "invalid-parameter"]))))]
pub(super) async fn set(
    State(app): State<AppState>,
    caller: Scoped<MemorySystem>,
    PathIdAndName(id, block): PathIdAndName<ThreadId, BlockId>,
    if_match: IfMatch,
    Body(new): Body<NewContext>,
) -> Result<Reply<ThreadView>, Problem> {
    let thread = find(&app, &caller, id).await?;
    if_match.check(&view::etag(&thread))?;
    let mut checks = Checks::new();
    checks.not_blank("/text", new.text.as_deref().unwrap_or("withdrawn"));
    checks.finish()?;
    let write = operator_write(&app, (&if_match, &thread), None);
    let block = ContextStep { id: block, text: new.text };
    let set = operator::set_context(&app.store, &caller.tenant, id, block, write).await;
    let thread = set.map_err(|error| if_match.explain(error))?.ok_or_else(Problem::not_found)?;
    let tag = view::etag(&thread);
    Ok(Reply::ok(ThreadView::of(&app, thread)).etag(tag))
}
