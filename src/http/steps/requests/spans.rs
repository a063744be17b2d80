//! `GET /v1/steps/{step_id}/requests/{n}/spans`.

use axum::extract::State;

use super::nth;
use crate::domain::id::StepId;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::PathIdAndNth;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::requests::span_map;
use crate::http::requests::view::SpanMapView;

/// Get the spans of the n-th request for a step
///
/// As `GET /v1/requests/{request_id}/spans`.
#[utoipa::path(get, path = "/v1/steps/{step_id}/requests/{n}/spans", tag = "steps",
    operation_id = "steps_request_spans",
    params(("step_id" = String, Path, description = "The step"),
        ("n" = u32, Path, description = "The place of the request in the step's list, from 1")),
    responses((status = 200, description = "The spans", body = SpanMapView)),
    extensions(("x-problems" = json!(["gone"]))))]
pub(in crate::http::steps) async fn spans(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathIdAndNth(id, n): PathIdAndNth<StepId>,
) -> Result<Reply<SpanMapView>, Problem> {
    let request = nth(&app, &caller.tenant, id, n).await?.id;
    span_map(&app, &caller.tenant, request).await
}
