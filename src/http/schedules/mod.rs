//! Runs that the clock starts.

mod create;
mod delete;
mod get;
mod list;
mod new_schedule;
mod put;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::caller::Caller;
use crate::domain::id::ScheduleId;
use crate::domain::schedule::Schedule;
use crate::error::AgentlingError;
use crate::store;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(create::create, list::list)).routes(routes!(
        get::get,
        put::put,
        delete::delete
    ))
}

/// The schedule that a path names.
async fn find(app: &AppState, caller: &Caller, id: ScheduleId) -> Result<Schedule, AgentlingError> {
    let schedule = store::schedules::get(&app.store, &caller.tenant, id).await?;
    schedule.ok_or(AgentlingError::NotFound { kind: "schedule" })
}
