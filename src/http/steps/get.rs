//! `GET /v1/steps/{step_id}`.

use axum::extract::State;

use super::shown_step;
use super::view::StepView;
use crate::domain::id::StepId;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::steps;

/// Get a step
#[utoipa::path(get, path = "/v1/steps/{step_id}", tag = "steps", operation_id = "steps_get",
    params(("step_id" = String, Path, description = "The step")),
    responses((status = 200, description = "The step", body = StepView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<StepId>,
) -> Result<Reply<StepView>, Problem> {
    let step = steps::get(&app.store, &caller.tenant, id).await?;
    let step = step.ok_or_else(Problem::not_found)?;
    Ok(Reply::ok(shown_step(&app, &caller.tenant, step).await?))
}
