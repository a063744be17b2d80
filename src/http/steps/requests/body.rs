//! `GET /v1/steps/{step_id}/requests/{n}/body`.

use axum::extract::State;
use axum::response::Response;

use super::nth;
use crate::domain::id::StepId;
use crate::http::AppState;
use crate::http::auth::{LedgerRead, Scoped};
use crate::http::extract::{IfNoneMatch, PathIdAndNth};
use crate::http::problem::Problem;
use crate::http::requests::body_reply;

/// Get the body of the n-th request for a step
///
/// As `GET /v1/requests/{request_id}/body`.
#[utoipa::path(get, path = "/v1/steps/{step_id}/requests/{n}/body", tag = "steps",
    operation_id = "steps_request_body",
    params(("step_id" = String, Path, description = "The step"),
        ("n" = u32, Path, description = "The place of the request in the step's list, from 1"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of a body at hand")),
    responses((status = 200, description = "The body", body = Value),
        (status = 304, description = "The body at hand is this one")),
    extensions(("x-problems" = json!(["gone"]))))]
pub(in crate::http::steps) async fn body(
    State(app): State<AppState>,
    caller: Scoped<LedgerRead>,
    PathIdAndNth(id, n): PathIdAndNth<StepId>,
    at_hand: IfNoneMatch,
) -> Result<Response, Problem> {
    let request = nth(&app, &caller.tenant, id, n).await?.id;
    body_reply(&app, &caller.tenant, request, &at_hand).await
}
