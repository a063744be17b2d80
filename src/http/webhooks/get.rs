//! `GET /v1/webhooks/{webhook_id}`.

use axum::extract::State;

use super::find;
use super::view::WebhookView;
use crate::domain::id::WebhookId;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Get an endpoint
#[utoipa::path(get, path = "/v1/webhooks/{webhook_id}", tag = "webhooks",
    operation_id = "webhooks_get",
    params(("webhook_id" = WebhookId, Path, description = "The endpoint")),
    responses((status = 200, description = "The endpoint", body = WebhookView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<WebhookId>,
) -> Result<Reply<WebhookView>, Problem> {
    Ok(Reply::ok(find(&app, &caller, id).await?.into()))
}
