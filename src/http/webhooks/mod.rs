//! Endpoints that events of runs are told to, and the deliveries to them.
#![expect(unused_qualifications, reason = "the expansion of utoipa::path qualifies query types")]

mod create;
mod delete;
mod deliveries;
mod get;
mod list;
mod new_webhook;
mod put;
mod redeliver;
mod rotate;
mod view;
mod wording;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::caller::Caller;
use crate::domain::id::WebhookId;
use crate::domain::webhook::Webhook;
use crate::error::AgentlingError;
use crate::store;

pub(in crate::http) use wording::sample;
pub use wording::wording;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(get::get, put::put, delete::delete))
        .routes(routes!(rotate::rotate))
        .routes(routes!(deliveries::deliveries))
        .routes(routes!(redeliver::redeliver))
}

/// The endpoint that a path names.
async fn find(app: &AppState, caller: &Caller, id: WebhookId) -> Result<Webhook, AgentlingError> {
    let webhook = store::webhooks::get(&app.store, &caller.tenant, id).await?;
    webhook.ok_or(AgentlingError::NotFound { kind: "webhook" })
}
