//! `DELETE /v1/schedules/{schedule_id}`.

use axum::extract::State;

use crate::domain::id::ScheduleId;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::schedules;

/// Remove a schedule
///
/// Its runs stay.
#[utoipa::path(delete, path = "/v1/schedules/{schedule_id}", tag = "schedules",
    operation_id = "schedules_delete",
    params(("schedule_id" = ScheduleId, Path, description = "The schedule")),
    responses((status = 204, description = "Removed")))]
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathId(id): PathId<ScheduleId>,
) -> Result<NoContent, Problem> {
    let is_gone = schedules::delete(&app.store, &caller.tenant, id).await?;
    if is_gone { Ok(NoContent) } else { Err(Problem::not_found()) }
}
