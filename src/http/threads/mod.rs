//! Threads: conversations that runs append to, and their memory.

mod append;
mod create;
mod delete;
mod get;
mod list;
mod memory;
mod steps;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::caller::Caller;
use crate::domain::id::ThreadId;
use crate::domain::thread::Thread;
use crate::error::AgentlingError;
use crate::store;

use view::ThreadView;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(get::get, delete::delete))
        .routes(routes!(steps::steps, append::append))
        .merge(memory::routes())
}

/// The thread that a path names.
async fn find(app: &AppState, caller: &Caller, id: ThreadId) -> Result<Thread, AgentlingError> {
    let thread = store::threads::get(&app.store, &caller.tenant, id).await?;
    thread.ok_or(AgentlingError::NotFound { kind: "thread" })
}
