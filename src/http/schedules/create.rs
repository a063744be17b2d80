//! `POST /v1/schedules`.

use axum::extract::State;

use super::new_schedule::NewSchedule;
use super::view::{ScheduleView, etag};
use crate::domain::id::ScheduleId;
use crate::domain::schedule::Schedule;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{Body, Keyed};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::store::schedules;

/// Create a schedule
///
/// A run is started once at each due time, however many servers there are. Due times that passed while
/// none was up count once.
#[utoipa::path(post, path = "/v1/schedules", tag = "schedules", operation_id = "schedules_create",
    request_body = NewSchedule,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    responses((status = 201, description = "The schedule", body = ScheduleView)),
    extensions(("x-problems" = json!(["egress-denied", "unknown-agent", "gone"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    Keyed(Body(new), key): Keyed<Body<NewSchedule>>,
) -> Result<Reply<ScheduleView>, Problem> {
    if let Some(id) = led_to(&app, &caller, key.as_ref()).await? {
        let made = schedules::get(&app.store, &caller.tenant, id).await?;
        return Ok(created(made.ok_or_else(Problem::not_found)?).replayed(true));
    }
    let id = ScheduleId::from(app.ids.sortable());
    let schedule = new.schedule(&app, &caller, (id, None)).await?;
    schedules::create(&app.store, &caller.tenant, &schedule, key.as_ref()).await?;
    Ok(created(schedule))
}

fn created(schedule: Schedule) -> Reply<ScheduleView> {
    let (location, tag) = (format!("/v1/schedules/{}", schedule.id), etag(&schedule));
    Reply::created(location, schedule.into()).etag(tag)
}
