//! Runs: started, watched, steered.
#![expect(unused_qualifications, reason = "the expansion of utoipa::path qualifies query types")]

mod cancel;
mod create;
mod events;
mod get;
mod interrupt;
mod list;
mod messages;
mod new_run;
mod resume;
mod slots;
mod steps;
mod stream;
mod stream_new;
mod stream_reply;
pub(super) mod view;

pub use slots::StreamSlots;

use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::event::RunEvent;
use crate::domain::id::TenantId;
use crate::domain::run::Run;
use crate::store::{Store, StoreError};

/// Events by name and data, as a stream shows them.
///
/// # Errors
/// When the database does not answer.
pub async fn shown_events(
    store: &Store,
    tenant: &TenantId,
    run: &Run,
    events: &[RunEvent],
) -> Result<Vec<(&'static str, Value)>, StoreError> {
    let views = events::views(store, tenant, run, events).await?;
    Ok(views.iter().map(|view| (view.label(), view.data_value())).collect())
}

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(stream_new::stream_new))
        .routes(routes!(get::get))
        .routes(routes!(events::events))
        .routes(routes!(stream::stream))
        .routes(routes!(steps::steps))
        .routes(routes!(cancel::cancel))
        .routes(routes!(interrupt::interrupt))
        .routes(routes!(resume::resume))
        .routes(routes!(messages::say))
}
