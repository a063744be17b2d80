//! `GET /v1/schedules/{schedule_id}`.

use axum::extract::State;

use super::find;
use super::view::{ScheduleView, etag};
use crate::domain::id::ScheduleId;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Get a schedule
#[utoipa::path(get, path = "/v1/schedules/{schedule_id}", tag = "schedules",
    operation_id = "schedules_get",
    params(("schedule_id" = ScheduleId, Path, description = "The schedule")),
    responses((status = 200, description = "The schedule", body = ScheduleView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<ScheduleId>,
) -> Result<Reply<ScheduleView>, Problem> {
    let schedule = find(&app, &caller, id).await?;
    let tag = etag(&schedule);
    Ok(Reply::ok(schedule.into()).etag(tag))
}
