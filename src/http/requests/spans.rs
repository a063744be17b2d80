//! `GET /v1/requests/{request_id}/spans`.

use axum::extract::State;

use super::find_body;
use super::view::SpanMapView;
use crate::domain::id::{RequestId, TenantId};
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Get where the bytes of a request come from
///
/// The spans tile the body: each begins where the one before it ends. Answers `gone` for a request from
/// before bodies were kept.
#[utoipa::path(get, path = "/v1/requests/{request_id}/spans", tag = "requests",
    operation_id = "requests_spans",
    params(("request_id" = String, Path, description = "The request")),
    responses((status = 200, description = "The spans", body = SpanMapView)),
    extensions(("x-problems" = json!(["gone"]))))]
pub(super) async fn spans(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<RequestId>,
) -> Result<Reply<SpanMapView>, Problem> {
    span_map(&app, &caller.tenant, id).await
}

/// The span map of a request.
pub(in crate::http) async fn span_map(
    app: &AppState,
    tenant: &TenantId,
    id: RequestId,
) -> Result<Reply<SpanMapView>, Problem> {
    Ok(Reply::ok(find_body(app, tenant, id, true).await?.into()))
}
