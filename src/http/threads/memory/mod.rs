//! Memory in portable form: a thread's export, load and reset, and what a document would become.

mod document;
mod export;
mod load;
mod notes;
mod reset;
mod validate;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::domain::id::StepId;
use crate::domain::step::StepContent;
use crate::domain::thread::Thread;
use crate::http::AppState;
use crate::http::extract::IfMatch;
use crate::store::threads::LoadedSteps;

pub(in crate::http) use document::{LoadableMemory, load};
pub(super) use notes::NotesView;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(export::export, load::load, reset::reset))
        .routes(routes!(validate::validate))
}

/// Steps of a document as steps of a thread.
pub(super) fn to_append(app: &AppState, contents: Vec<StepContent>) -> LoadedSteps {
    let ids = contents.iter().map(|_| StepId::from(app.ids.sortable())).collect();
    LoadedSteps { ids, contents, op_id: app.ids.random() }
}

/// The state that a change may start from: the one seen here, when the caller named one.
pub(super) fn seen(if_match: &IfMatch, thread: &Thread) -> Option<(i64, i64)> {
    matches!(if_match, IfMatch::Tags(_)).then_some((thread.revision, thread.head_seq))
}
