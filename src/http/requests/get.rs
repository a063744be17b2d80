//! `GET /v1/requests/{request_id}`.

use axum::extract::State;

use super::view::ModelRequestView;
use crate::domain::id::RequestId;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::ledger;

/// Get what is known of a request to a model
#[utoipa::path(get, path = "/v1/requests/{request_id}", tag = "requests",
    operation_id = "requests_get",
    params(("request_id" = String, Path, description = "The request")),
    responses((status = 200, description = "The request", body = ModelRequestView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<RequestId>,
) -> Result<Reply<ModelRequestView>, Problem> {
    let entry = ledger::get(&app.store, &caller.tenant, id).await?;
    Ok(Reply::ok(entry.ok_or_else(Problem::not_found)?.into()))
}
