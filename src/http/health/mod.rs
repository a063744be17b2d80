//! Whether the server works, whether it takes work, and what it has done.

mod live;
mod ready;
mod scrape;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::routing::get;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(live::live)).routes(routes!(ready::ready))
}

/// The endpoint that may have an address of its own.
pub(super) fn metrics() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(scrape::scrape))
}

/// The endpoint that answers before there is anything to work with.
pub(super) fn alive() -> Router {
    Router::new().route("/healthz", get(live::live))
}

/// The server is well.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HealthView {
    /// Always `ok`; anything else is a problem.
    #[schema(examples("ok"))]
    status: &'static str,
}

impl HealthView {
    const OK: Self = Self { status: "ok" };
}
