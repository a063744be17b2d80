//! `GET /healthz`.

use super::HealthView;
use crate::http::reply::Reply;

/// Whether the process answers
#[utoipa::path(get, path = "/healthz", tag = "health", operation_id = "health_live",
    responses((status = 200, description = "It does", body = HealthView)))]
pub(super) async fn live() -> Reply<HealthView> {
    Reply::ok(HealthView::OK)
}
