//! `DELETE /v1/webhooks/{webhook_id}`.

use axum::extract::State;

use crate::domain::id::WebhookId;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::webhooks;

/// Remove an endpoint
///
/// What it was still to be told is not told.
#[utoipa::path(delete, path = "/v1/webhooks/{webhook_id}", tag = "webhooks",
    operation_id = "webhooks_delete",
    params(("webhook_id" = WebhookId, Path, description = "The endpoint")),
    responses((status = 204, description = "Removed")))]
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    PathId(id): PathId<WebhookId>,
) -> Result<NoContent, Problem> {
    let is_gone = webhooks::delete(&app.store, &caller.tenant, id).await?;
    if is_gone { Ok(NoContent) } else { Err(Problem::not_found()) }
}
