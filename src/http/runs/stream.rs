//! `GET /v1/runs/{run_id}/stream`.

use axum::extract::State;
use axum::response::Response;

use super::stream_reply;
use crate::domain::id::RunId;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::{LastEventId, PathId};
use crate::http::problem::Problem;

/// Stream the events of a run
///
/// Server-sent events: durable ones with an `id:`, deltas without. The stream ends after the event
/// that ends the run. `Last-Event-ID` goes on behind that event.
#[utoipa::path(get, path = "/v1/runs/{run_id}/stream", tag = "runs", operation_id = "runs_stream",
    params(("run_id" = RunId, Path, description = "The run"),
        ("Last-Event-ID" = Option<i64>, Header, description = "The last event that was seen")),
    responses((status = 200, description = "The events", content_type = "text/event-stream",
        body = String)),
    extensions(("x-problems" = json!(["invalid-last-event-id", "stream-cursor-ahead",
        "too-many-streams"]))))]
pub(super) async fn stream(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<RunId>,
    LastEventId(after): LastEventId,
) -> Result<Response, Problem> {
    let tenant = caller.tenant.clone();
    let slot = app.streams.take(&tenant)?;
    let watch = app.engine.watch(&tenant, id).behind(after).await?;
    Ok(stream_reply::reply(app, watch, None, slot))
}
