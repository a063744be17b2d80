//! `POST /v1/runs`.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};

use super::new_run::NewRun;
use super::view::RunView;
use super::{client, shown_with_input};
use crate::domain::caller::Caller;
use crate::domain::run::Run;
use crate::engine::StartRun;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{HashedBody, IdempotencyKey, Prefer};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::idempotency;

/// Start a run
///
/// Answers at once, or, with `Prefer: wait=N`, when the run has ended or waits for a caller, or after N seconds (at most
/// 60). A run that fails is answered like any other: with itself; `Prefer: handling=strict` asks for
/// its problem instead.
#[utoipa::path(post, path = "/v1/runs", tag = "runs", operation_id = "runs_create",
    request_body = NewRun,
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request lead to the same run; 1–255 visible ASCII characters, remembered for 24 hours"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`, `handling=strict`")),
    responses(
        (status = 201, description = "The run was accepted", body = RunView),
        (status = 200, description = "The run has ended, or waits for a caller, within the time to wait", body = RunView),
        (status = 202, description = "The run was accepted and goes on", body = RunView)),
    extensions(("x-problems" = json!(["unknown-agent", "gone", "thread-busy", "id-conflict",
        "idempotency-key-reused", "model-error", "model-timeout", "run-timeout", "run-poisoned",
        "tool-name-conflict", "invalid-tool-schema", "schema-too-complex", "remote-ref-forbidden",
        "egress-denied", "invalid-header-name", "draining", "overloaded", "tenant-queue-full", "budget-exhausted"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    IdempotencyKey(key): IdempotencyKey,
    prefer: Prefer,
    HashedBody(new, request_hash): HashedBody<NewRun>,
) -> Result<Response, Problem> {
    let key = idempotency::IdempotencyKey::of("POST /v1/runs", key, request_hash);
    let start = new.start(&app.engine, &caller, key)?;
    match prefer.wait {
        None => answer_at_once(&app, &caller, start).await,
        Some(at_most) => answer_later(&app, &caller, start, (at_most, prefer.strict)).await,
    }
}

fn location(run: &Run) -> String {
    format!("/v1/runs/{}", run.id)
}

async fn answer_at_once(
    app: &AppState,
    caller: &Caller,
    start: StartRun,
) -> Result<Response, Problem> {
    let started = app.engine.start(&caller.tenant, start).await?;
    let location = location(&started.run);
    let view = shown_with_input(app, &caller.tenant, started.run).await?;
    Ok(Reply::created(location, view).replayed(started.is_replay).into_response())
}

async fn answer_later(
    app: &AppState,
    caller: &Caller,
    start: StartRun,
    (at_most, strict): (Duration, bool),
) -> Result<Response, Problem> {
    let tenant = &caller.tenant;
    let (started, mut client) = client::start(&app.engine, tenant, start).await?;
    let waited = app.engine.wait(tenant, started.run.id, at_most).await;
    client.served();
    let run = waited?.unwrap_or(started.run);
    if let (true, Some(failure)) = (strict, run.facts.failure.clone()) {
        return Err(AgentlingError::RunFailed(failure).into());
    }
    let (location, goes_on) = (location(&run), run.facts.status.is_under_way());
    let view = shown_with_input(app, tenant, run).await?;
    let reply = if goes_on { Reply::accepted(location, view) } else { Reply::ok(view) };
    Ok(reply.replayed(started.is_replay).into_response())
}
