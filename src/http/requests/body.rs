//! `GET /v1/requests/{request_id}/body`.

use axum::extract::State;
use axum::response::Response;

use crate::domain::id::{RequestId, TenantId};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{LedgerRead, Scoped};
use crate::http::extract::{IfNoneMatch, PathId};
use crate::http::problem::Problem;
use crate::http::reply::{not_modified, raw};
use crate::store::ledger::{self, Bytes, StoredBody};

/// Get the body of a request to a model
///
/// Exactly the bytes that were sent, checked against their SHA-256, which is the `ETag`. No rule of
/// redaction applies to them beyond those that applied when they were sent, so the key needs
/// `ledger:read`. Answers `gone` for a request from before bodies were kept.
#[utoipa::path(get, path = "/v1/requests/{request_id}/body", tag = "requests",
    operation_id = "requests_body",
    params(("request_id" = String, Path, description = "The request"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of a body at hand")),
    responses((status = 200, description = "The body", body = Value),
        (status = 304, description = "The body at hand is this one")),
    extensions(("x-problems" = json!(["gone"]))))]
pub(super) async fn body(
    State(app): State<AppState>,
    caller: Scoped<LedgerRead>,
    PathId(id): PathId<RequestId>,
    at_hand: IfNoneMatch,
) -> Result<Response, Problem> {
    body_reply(&app, &caller.tenant, id, &at_hand).await
}

/// The body of a request, unless the caller has it.
pub(in crate::http) async fn body_reply(
    app: &AppState,
    tenant: &TenantId,
    id: RequestId,
    at_hand: &IfNoneMatch,
) -> Result<Response, Problem> {
    let StoredBody { request, sha256 } = find_body(app, tenant, id, false).await?;
    let tag = format!("\"{sha256}\"");
    if at_hand.has(&tag) {
        return Ok(not_modified(&tag));
    }
    Ok(raw("application/json", request.body, Some(&tag)))
}

/// The body of a request, with its spans where they are wanted.
pub(in crate::http) async fn find_body(
    app: &AppState,
    tenant: &TenantId,
    id: RequestId,
    with_spans: bool,
) -> Result<StoredBody, AgentlingError> {
    match ledger::body(&app.store, tenant, id, with_spans).await? {
        None => Err(AgentlingError::NotFound { kind: "request" }),
        Some(Bytes::NotKept) => Err(AgentlingError::Gone { kind: "body of the request" }),
        Some(Bytes::Kept(body)) => Ok(body),
    }
}
