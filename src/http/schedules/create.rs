//! `POST /v1/schedules`.

use axum::extract::State;

use super::new_schedule::NewSchedule;
use super::view::{ScheduleView, etag};
use crate::domain::id::ScheduleId;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::Body;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::schedules;

/// Create a schedule
///
/// A run is started once at each due time, however many servers there are. Due times that passed while
/// none was up count once.
#[utoipa::path(post, path = "/v1/schedules", tag = "schedules", operation_id = "schedules_create",
    request_body = NewSchedule,
    responses((status = 201, description = "The schedule", body = ScheduleView)),
    extensions(("x-problems" = json!(["unknown-agent", "gone"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    Body(new): Body<NewSchedule>,
) -> Result<Reply<ScheduleView>, Problem> {
    let id = ScheduleId::from(app.ids.sortable());
    let schedule = new.schedule(&app, &caller, (id, None)).await?;
    schedules::create(&app.store, &caller.tenant, &schedule).await?;
    let tag = etag(&schedule);
    Ok(Reply::created(format!("/v1/schedules/{id}"), schedule.into()).etag(tag))
}
