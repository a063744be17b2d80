//! `GET /metrics`.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::http::AppState;

/// The text format of Prometheus.
const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the server has done, for Prometheus
///
/// Not here where the operator gives metrics an address of their own. No label says anything of a tenant, and
/// no key is asked for.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "health_metrics",
    responses((status = 200, description = "Metrics in the text format of Prometheus",
        body = String, content_type = "text/plain", example = "agentling_runs_active 3")))]
pub(super) async fn scrape(State(app): State<AppState>) -> impl IntoResponse {
    app.engine.instruments().metrics.log_lines_dropped(app.log.lines_dropped());
    ([(CONTENT_TYPE, MEDIA_TYPE)], app.engine.metrics())
}
