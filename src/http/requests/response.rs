//! `GET /v1/requests/{request_id}/response`.

use axum::extract::State;
use axum::response::Response;

use crate::domain::id::{RequestId, TenantId};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{LedgerRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::raw;
use crate::store::ledger::{self, Bytes};

/// Get what came back for a request
///
/// The bytes of the answer's body as far as they came, of a failed request too, after any content
/// encoding is undone; a key of the server that was echoed in them is masked. No rule of redaction
/// applies to them, so the key needs `ledger:read`. They are never answered as what they claim to be,
/// since a browser might believe it: the type that their server named is the request's
/// `response_type`. Answers `gone` where nothing came back.
#[utoipa::path(get, path = "/v1/requests/{request_id}/response", tag = "requests",
    operation_id = "requests_response",
    params(("request_id" = String, Path, description = "The request")),
    responses((status = 200, description = "The bytes", body = [u8],
        content_type = "application/octet-stream")),
    extensions(("x-problems" = json!(["gone"]))))]
pub(super) async fn response(
    State(app): State<AppState>,
    caller: Scoped<LedgerRead>,
    PathId(id): PathId<RequestId>,
) -> Result<Response, Problem> {
    response_reply(&app, &caller.tenant, id).await
}

/// What came back for a request.
pub(in crate::http) async fn response_reply(
    app: &AppState,
    tenant: &TenantId,
    id: RequestId,
) -> Result<Response, Problem> {
    match ledger::response(&app.store, tenant, id).await? {
        None => Err(Problem::not_found()),
        Some(Bytes::NotKept) => Err(AgentlingError::Gone { kind: "response" }.into()),
        Some(Bytes::Kept(bytes)) => Ok(raw("application/octet-stream", bytes, None)),
    }
}
