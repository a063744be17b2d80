//! `GET /v1/steps/{step_id}/requests/{n}/response`.

use axum::extract::State;
use axum::response::Response;

use super::nth;
use crate::domain::id::StepId;
use crate::http::AppState;
use crate::http::auth::{LedgerRead, Scoped};
use crate::http::extract::PathIdAndNth;
use crate::http::problem::Problem;
use crate::http::requests::response_reply;

/// Get what came back for the n-th request for a step
///
/// As `GET /v1/requests/{request_id}/response`.
#[utoipa::path(get, path = "/v1/steps/{step_id}/requests/{n}/response", tag = "steps",
    operation_id = "steps_request_response",
    params(("step_id" = String, Path, description = "The step"),
        ("n" = u32, Path, description = "The place of the request in the step's list, from 1")),
    responses((status = 200, description = "The bytes", body = [u8],
        content_type = "application/octet-stream")),
    extensions(("x-problems" = json!(["gone"]))))]
pub(in crate::http::steps) async fn response(
    State(app): State<AppState>,
    caller: Scoped<LedgerRead>,
    PathIdAndNth(id, n): PathIdAndNth<StepId>,
) -> Result<Response, Problem> {
    let request = nth(&app, &caller.tenant, id, n).await?.id;
    response_reply(&app, &caller.tenant, request).await
}
