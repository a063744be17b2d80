//! `PUT /v1/schedules/{schedule_id}`.

use axum::extract::State;

use super::find;
use super::new_schedule::NewSchedule;
use super::view::{ScheduleView, etag};
use crate::domain::id::ScheduleId;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{Body, IfMatch, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::schedules;

/// Change a schedule
///
/// The body is all that callers say of it. It is due next as if it had been created now.
#[utoipa::path(put, path = "/v1/schedules/{schedule_id}", tag = "schedules",
    operation_id = "schedules_put",
    params(("schedule_id" = ScheduleId, Path, description = "The schedule"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the schedule seen")),
    request_body = NewSchedule,
    responses((status = 200, description = "The schedule", body = ScheduleView)),
    extensions(("x-problems" = json!(["egress-denied", "unknown-agent", "gone"]))))]
pub(super) async fn put(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathId(id): PathId<ScheduleId>,
    if_match: IfMatch,
    Body(new): Body<NewSchedule>,
) -> Result<Reply<ScheduleView>, Problem> {
    let seen = find(&app, &caller, id).await?;
    if_match.check(&etag(&seen))?;
    let new = new.schedule(&app, &caller, (id, Some(seen.created_at))).await?;
    let revision = (if_match != IfMatch::Absent).then_some(seen.revision);
    let changed = schedules::replace(&app.store, &caller.tenant, &new, revision).await;
    let changed = changed.map_err(|error| if_match.explain(error))?;
    let schedule = changed.ok_or_else(Problem::not_found)?;
    let tag = etag(&schedule);
    Ok(Reply::ok(schedule.into()).etag(tag))
}
