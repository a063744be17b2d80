//! Threads: conversations that runs append to, and their memory.

mod append;
mod compact;
mod context;
mod create;
mod delete;
mod diagnosis;
mod fork;
mod get;
mod list;
pub(super) mod memory;
mod steps;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::caller::Caller;
use crate::domain::id::{StepId, ThreadId};
use crate::domain::thread::Thread;
use crate::error::AgentlingError;
use crate::http::extract::IfMatch;
use crate::store;
use crate::store::operator::OperatorWrite;

use view::ThreadView;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(get::get, delete::delete))
        .routes(routes!(steps::steps, append::append))
        .routes(routes!(context::set))
        .routes(routes!(compact::compact))
        .routes(routes!(diagnosis::diagnose))
        .routes(routes!(fork::fork))
        .merge(memory::routes())
}

/// The write of a step by an operator who saw this thread.
fn operator_write(app: &AppState, if_match: &IfMatch, thread: &Thread) -> OperatorWrite {
    OperatorWrite {
        step_id: StepId::from(app.ids.sortable()),
        op_id: app.ids.random(),
        seen: memory::seen(if_match, thread),
        now: app.clock.now(),
    }
}

/// The thread that a path names.
async fn find(app: &AppState, caller: &Caller, id: ThreadId) -> Result<Thread, AgentlingError> {
    let thread = store::threads::get(&app.store, &caller.tenant, id).await?;
    thread.ok_or(AgentlingError::NotFound { kind: "thread" })
}
