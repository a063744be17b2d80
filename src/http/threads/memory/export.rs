//! `GET /v1/threads/{thread_id}/memory`.

use axum::extract::State;
use axum::response::Response;

use super::LoadableMemory;
use super::document::ExportQuery;
use crate::domain::caller::Caller;
use crate::domain::id::ThreadId;
use crate::domain::memory::Memory;
use crate::domain::redaction::RedactionChannel;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::extract::{PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::raw;
use crate::http::threads::{find, view};
use crate::store::steps;

/// Export the memory of a thread
///
/// The steps that a model sees, as they stand; of a run under way, those that are complete. Version 1
/// answers `validation-failed` with what would be lost, unless `lossy=true`, and a list of chat messages
/// does so with `lossy=false`.
#[utoipa::path(get, path = "/v1/threads/{thread_id}/memory", tag = "threads",
    operation_id = "memory_export",
    params(("thread_id" = String, Path, description = "The thread"), ExportQuery),
    responses((status = 200, description = "The memory", body = LoadableMemory)),
    extensions(("x-problems" = json!(["validation-failed"]))))]
pub(super) async fn export(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    PathId(id): PathId<ThreadId>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, Problem> {
    let written = query.written()?;
    let (memory, tag) = snapshot(&app, &caller, id).await?;
    let document = written.of(&memory)?;
    // A document may be large: it goes out as it was written, and not once more through a serialiser.
    Ok(raw("application/json", document.into_bytes(), Some(&tag)))
}

/// A thread's memory with its `ETag`, both as of one moment.
///
/// History only grows, so the steps up to the head that was read with the thread are those of that
/// moment, whatever is appended meanwhile. An action whose calls are still under way is left out, and
/// the tag names the last step that is in.
async fn snapshot(
    app: &AppState,
    caller: &Caller,
    id: ThreadId,
) -> Result<(Memory, String), AgentlingError> {
    let mut thread = find(app, caller, id).await?;
    let mut steps = steps::memory(&app.store, &caller.tenant, id, thread.memory_from).await?;
    let before = thread.memory_from - 1;
    steps.truncate(usize::try_from(thread.head_seq - before).unwrap_or(0));
    thread.head_seq = i64::try_from(steps.len()).map_or(thread.head_seq, |n| before + n);
    let tag = view::etag(&thread);
    let places = steps.iter().map(|step| (step.thread_id, step.run_id)).collect();
    let redactors = app.engine.redactors(&caller.tenant, RedactionChannel::Export, places).await?;
    let memory = Memory {
        metadata: Some(redactors.labels(&thread.metadata)),
        framing_policy: Some(thread.framing.policy),
        // In a document, steps are counted from its first one.
        steps: steps.into_iter().map(|step| redactors.step(step).content.moved(-before)).collect(),
    };
    Ok((memory, tag))
}
