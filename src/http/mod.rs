//! HTTP: endpoints, problems, streams. The only layer that names axum.
//!
//! A request passes `layers` (ids, size, panics), then `auth`, then an endpoint: extract → one call →
//! view. Whatever fails on the way becomes a `problem`.

mod agents;
pub mod auth;
mod budgets;
pub mod cursor;
mod demo_tool;
mod docs;
pub mod extract;
mod health;
mod keys;
pub mod layers;
pub mod limits;
mod mac;
mod mcp_servers;
mod memory_items;
pub mod openapi;
mod probe;
pub mod problem;
mod rates;
mod redaction;
mod render;
mod repeats;
pub mod reply;
mod requests;
mod runs;
mod schedules;
mod secrets;
pub mod serve;
mod skills;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod threads;
mod time;
mod tools;
mod webhooks;

use std::sync::{Arc, LazyLock};

use axum::Extension;
pub use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use serde_json::Value;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use crate::clock::SharedIds;
use problem::{Problem, ProblemKind};

pub use demo_tool::demo_tool;
pub use probe::ask_readiness;
pub use rates::RateLimits;
pub use runs::{StreamLimits, StreamSlots, shown_event};
pub use state::{AppState, LogLines, Readiness};
pub use webhooks::wording;

/// Endpoints that belong to a tenant: one line a resource.
fn tenant_endpoints() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(agents::routes())
        .merge(threads::routes())
        .merge(runs::routes())
        .merge(steps::routes())
        .merge(requests::routes())
        .merge(budgets::routes())
        .merge(render::routes())
        .merge(redaction::routes())
        .merge(mcp_servers::routes())
        .merge(tools::routes())
        .merge(skills::routes())
        .merge(webhooks::routes())
        .merge(schedules::routes())
        .merge(secrets::routes())
        .merge(memory_items::routes())
        .merge(keys::routes())
}

/// Endpoints that need no key.
fn open_endpoints() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(openapi::Base::openapi()).merge(health::routes())
}

/// Endpoints with what they say of themselves.
type Described = (Router<AppState>, utoipa::openapi::OpenApi);

// To describe an endpoint takes a hundred times as long as to route it, and every server of a process has
// the same ones.
static TENANT: LazyLock<Described> = LazyLock::new(|| tenant_endpoints().split_for_parts());
static OPEN: LazyLock<Described> = LazyLock::new(|| open_endpoints().split_for_parts());
static METRICS: LazyLock<Described> = LazyLock::new(|| health::metrics().split_for_parts());

/// The whole service.
pub fn router(state: AppState) -> Router {
    let ((tenant, tenant_document), open) = (&*TENANT, open(&state));
    let queryless = Arc::new(layers::Queryless::of(tenant_document));
    let tenant = tenant
        .clone()
        .layer(Extension(state.body_limits))
        .layer(from_fn_with_state(state.clone(), layers::tell_gone))
        .layer(from_fn_with_state(queryless, layers::check_query))
        .layer(from_fn(layers::check_accept))
        .layer(from_fn_with_state(state.clone(), rates::limit))
        .layer(from_fn_with_state(Arc::clone(&state.auth), auth::authenticate));
    let around = state.clone();
    let docs = docs::routes(state.public_url.as_deref());
    let router = open.merge(tenant).with_state(state).merge(docs);
    wrapped(router, &around)
}

/// What a server answers that leaves the API to others: how it is.
pub fn health_router(state: &AppState) -> Router {
    wrapped(open(state).with_state(state.clone()), state)
}

/// What is served where metrics have an address of their own: they alone.
pub fn metrics_router(state: &AppState) -> Router {
    let (metrics, _) = &*METRICS;
    wrapped(metrics.clone().with_state(state.clone()), state)
}

/// What needs no key, with the metrics unless they have an address of their own.
fn open(state: &AppState) -> Router<AppState> {
    let ((open, _), (metrics, _)) = (&*OPEN, &*METRICS);
    if state.serves_metrics { open.clone().merge(metrics.clone()) } else { open.clone() }
}

fn wrapped(router: Router, state: &AppState) -> Router {
    let (ids, engine) = (Arc::clone(&state.ids), &state.engine);
    let redactor = engine.redaction().of_server();
    layers::wrap_observing(router, ids, redactor, engine.instruments().clone())
}

/// The service while the database has no schema that it can work with: alive and not ready.
pub fn waiting_router(ids: SharedIds) -> Router {
    let detail = "the database schema is not up to date: `agentling migrate` brings it there";
    let refuse = async move || Problem::new(ProblemKind::DatabaseUnavailable, detail);
    layers::wrap(health::alive().fallback(refuse), ids)
}

/// The OpenAPI document that the service publishes.
pub fn openapi_document() -> Value {
    let mut document = OPEN.1.clone();
    document.merge(METRICS.1.clone());
    document.merge(TENANT.1.clone());
    openapi::finish(&document)
}
