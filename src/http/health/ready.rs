//! `GET /readyz`.

use std::sync::Arc;

use axum::extract::State;

use super::HealthView;
use crate::http::Readiness;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Whether a run would be accepted
#[utoipa::path(get, path = "/readyz", tag = "health", operation_id = "health_ready",
    responses((status = 200, description = "It would", body = HealthView)),
    extensions(("x-problems" = json!(["draining", "overloaded", "database-busy", "database-unavailable"]))))]
pub(super) async fn ready(
    State(readiness): State<Arc<dyn Readiness>>,
) -> Result<Reply<HealthView>, Problem> {
    readiness.check().await?;
    Ok(Reply::ok(HealthView::OK))
}
