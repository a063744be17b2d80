//! `GET /v1/runs/{run_id}`.

use std::time::Duration;

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::shown_with_input;
use super::view::RunView;
use crate::domain::id::RunId;
use crate::domain::memory::Finding;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::{PathId, Query};
use crate::http::problem::{Problem, ProblemKind};
use crate::http::reply::Reply;
use crate::http::{AppState, limits};
use crate::store::runs;

/// How a run is read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct GetRun {
    /// Holds the answer back until the run has ended, at most this many seconds, 0–60.
    #[serde(default)]
    #[param(maximum = 60)]
    wait: Option<u64>,
}

/// Read a run
#[utoipa::path(get, path = "/v1/runs/{run_id}", tag = "runs", operation_id = "runs_get",
    params(("run_id" = RunId, Path, description = "The run"), GetRun),
    responses((status = 200, description = "The run", body = RunView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<RunId>,
    Query(query): Query<GetRun>,
) -> Result<Reply<RunView>, Problem> {
    let tenant = &caller.tenant;
    let run = match query.wait {
        None => runs::get(&app.store, tenant, id).await?,
        Some(secs) => app.engine.wait(tenant, id, wait(secs)?).await?,
    };
    let run = run.ok_or_else(Problem::not_found)?;
    Ok(Reply::ok(shown_with_input(&app, tenant, run).await?))
}

fn wait(secs: u64) -> Result<Duration, Problem> {
    if secs <= limits::WAIT_SECS {
        return Ok(Duration::from_secs(secs));
    }
    let message = format!("must be from 0 to {}", limits::WAIT_SECS);
    let finding = Finding::new("wait", "out_of_range", message);
    Err(Problem::with_errors(ProblemKind::InvalidParameter, vec![finding]))
}
