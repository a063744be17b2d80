//! `POST /v1/runs/stream`.

use axum::extract::State;
use axum::response::Response;

use super::new_run::NewRun;
use super::{client, stream_reply};
use crate::domain::id::RunId;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{HashedBody, IdempotencyKey};
use crate::http::problem::Problem;
use crate::http::reply::replayed;
use crate::store::idempotency;

/// Start a run and stream its events
///
/// The same as starting a run and then streaming it, in one request.
#[utoipa::path(post, path = "/v1/runs/stream", tag = "runs", operation_id = "runs_create_stream",
    request_body = NewRun,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Makes a repeated request lead to the same run")),
    responses((status = 200, description = "The events", content_type = "text/event-stream",
        body = String)),
    extensions(("x-problems" = json!(["unknown-agent", "gone", "thread-busy", "id-conflict",
        "idempotency-key-reused", "tool-name-conflict", "invalid-tool-schema",
        "schema-too-complex", "remote-ref-forbidden", "egress-denied", "invalid-header-name",
        "draining", "overloaded", "too-many-streams", "tenant-queue-full", "budget-exhausted"]))))]
pub(super) async fn stream_new(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    IdempotencyKey(key): IdempotencyKey,
    HashedBody(new, request_hash): HashedBody<NewRun>,
) -> Result<Response, Problem> {
    let tenant = caller.tenant.clone();
    let slot = app.streams.take(&tenant)?;
    let key = idempotency::IdempotencyKey::of("POST /v1/runs/stream", key, request_hash);
    let mut start = new.start(&app.engine, &caller, key)?;
    // The id is made here, so that the watch begins before the run does and misses no delta.
    let id = *start.id.get_or_insert_with(|| RunId::from(app.ids.sortable()));
    let mut watch = app.engine.watch(&tenant, id);
    let (started, client) = client::start(&app.engine, &tenant, start).await?;
    if started.run.id != id {
        watch = app.engine.watch(&tenant, started.run.id).behind(None).await?;
    }
    Ok(replayed(stream_reply::reply(app, watch, Some(client), slot), started.is_replay))
}
