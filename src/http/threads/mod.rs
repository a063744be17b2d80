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
use crate::domain::step::Step;
use crate::domain::thread::Thread;
use crate::error::AgentlingError;
use crate::http::extract::IfMatch;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::steps::shown_step;
use crate::http::steps::view::StepView;
use crate::store;
use crate::store::idempotency::IdempotencyKey;
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
fn operator_write(
    app: &AppState,
    (if_match, thread): (&IfMatch, &Thread),
    key: Option<IdempotencyKey>,
) -> OperatorWrite {
    OperatorWrite {
        step_id: StepId::from(app.ids.sortable()),
        op_id: app.ids.random(),
        seen: memory::seen(if_match, thread),
        now: app.clock.now(),
        key,
    }
}

/// The answer to who has made a thread.
fn created(app: &AppState, thread: Thread) -> Reply<ThreadView> {
    let (location, tag) = (format!("/v1/threads/{}", thread.id), view::etag(&thread));
    Reply::created(location, ThreadView::of(app, thread)).etag(tag)
}

/// The answer to who has appended a step.
async fn told(app: &AppState, caller: &Caller, step: Step) -> Result<Reply<StepView>, Problem> {
    let location = format!("/v1/steps/{}", step.id);
    Ok(Reply::created(location, shown_step(app, &caller.tenant, step).await?))
}

/// The same to who asks once more.
async fn told_again(
    app: &AppState,
    caller: &Caller,
    id: StepId,
) -> Result<Reply<StepView>, Problem> {
    let step = store::steps::get(&app.store, &caller.tenant, id).await?;
    Ok(told(app, caller, step.ok_or_else(Problem::not_found)?).await?.replayed(true))
}

/// The thread that a path names.
async fn find(app: &AppState, caller: &Caller, id: ThreadId) -> Result<Thread, AgentlingError> {
    let thread = store::threads::get(&app.store, &caller.tenant, id).await?;
    thread.ok_or(AgentlingError::NotFound { kind: "thread" })
}
