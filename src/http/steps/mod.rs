//! Steps: the entries of a thread's history.

mod get;
mod requests;
pub(super) mod view;

use std::collections::BTreeSet;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::id::TenantId;
use crate::domain::page::Page;
use crate::domain::redaction::RedactionChannel;
use crate::domain::step::Step;
use crate::error::AgentlingError;
use view::StepView;

/// A page of steps as callers may read them.
pub(super) async fn shown<K: Send>(
    app: &AppState,
    tenant: &TenantId,
    page: Page<Step, K>,
) -> Result<Page<StepView, K>, AgentlingError> {
    let places = page.items.iter().map(|step| (step.thread_id, step.run_id)).collect();
    let redactors = app.engine.redactors(tenant, RedactionChannel::Api, places).await?;
    Ok(page.map(|step| redactors.step(step).into()))
}

/// A step as callers may read it.
pub(super) async fn shown_step(
    app: &AppState,
    tenant: &TenantId,
    step: Step,
) -> Result<StepView, AgentlingError> {
    let places = BTreeSet::from([(step.thread_id, step.run_id)]);
    let redactors = app.engine.redactors(tenant, RedactionChannel::Api, places).await?;
    Ok(redactors.step(step).into())
}

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(get::get))
        .routes(routes!(requests::list::list))
        .routes(routes!(requests::body::body))
        .routes(routes!(requests::spans::spans))
        .routes(routes!(requests::response::response))
}
