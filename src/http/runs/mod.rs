//! Runs: started, watched, steered.
#![expect(unused_qualifications, reason = "the expansion of utoipa::path qualifies query types")]

mod approvals;
mod cancel;
mod client;
mod create;
mod delete;
mod diff;
mod events;
mod get;
mod interrupt;
mod list;
mod messages;
pub(super) mod new_run;
mod replay;
mod requests;
mod resolution;
mod resume;
mod slots;
mod steps;
mod stream;
mod stream_new;
mod stream_reply;
mod tool_results;
pub(super) mod view;

pub(super) use events::views_on;
pub use slots::{StreamLimits, StreamSlots};
pub(super) use stream_reply::{DeltaView, SnapshotView};

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::id::{CallId, TenantId};
use crate::domain::redaction::RedactionChannel;
use crate::domain::run::Run;
use crate::engine::Told;
use crate::error::AgentlingError;
use crate::http::extract::Checks;
use crate::store::runs;
use view::{EventBook, RunView};

/// An event by name and data, as a stream shows it.
pub fn shown_event(told: &Arc<Told>, index: usize) -> Option<(&'static str, Value)> {
    let view = EventBook::new(Arc::clone(told)).nth(index)?;
    Some((view.label(), view.data_value()))
}

/// A run as callers may read it.
async fn shown(app: &AppState, tenant: &TenantId, run: Run) -> Result<RunView, AgentlingError> {
    let places = BTreeSet::from([(run.thread_id, Some(run.id))]);
    Ok(app.engine.redactors(tenant, RedactionChannel::Api, places).await?.run(run).into())
}

/// The same with what was asked.
async fn shown_with_input(
    app: &AppState,
    tenant: &TenantId,
    run: Run,
) -> Result<RunView, AgentlingError> {
    let places = BTreeSet::from([(run.thread_id, Some(run.id))]);
    let redactors = app.engine.redactors(tenant, RedactionChannel::Api, places).await?;
    let input = runs::input(&app.store, tenant, run.id).await?;
    let input = input.map(|parts| redactors.input(&run, parts));
    Ok(RunView::from(redactors.run(run)).with_input(input))
}

/// The most calls that are answered at once: as many as an agent has tools.
const ANSWERS: usize = 128;

/// Checks that there is one answer a call, at least one and not too many.
fn one_each<'a>(checks: &mut Checks, pointer: &str, calls: impl Iterator<Item = &'a CallId>) {
    let mut seen = BTreeSet::new();
    for (n, call_id) in calls.enumerate() {
        let at = format!("{pointer}/{n}/tool_call_id");
        let is_new = seen.insert(call_id);
        checks.require(is_new, &at, "duplicate", "is answered twice");
    }
    let message = format!("must have 1–{ANSWERS} items");
    checks.require((1..=ANSWERS).contains(&seen.len()), pointer, "length", &message);
}

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(stream_new::stream_new))
        .routes(routes!(get::get, delete::delete))
        .routes(routes!(events::events))
        .routes(routes!(stream::stream))
        .routes(routes!(steps::steps))
        .routes(routes!(requests::requests))
        .routes(routes!(replay::replay))
        .routes(routes!(diff::diff))
        .merge(steering())
}

/// Those that change how a run goes on.
fn steering() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(cancel::cancel))
        .routes(routes!(interrupt::interrupt))
        .routes(routes!(resume::resume))
        .routes(routes!(messages::say))
        .routes(routes!(tool_results::post_tool_results))
        .routes(routes!(approvals::decide))
        .routes(routes!(resolution::resolve))
}
