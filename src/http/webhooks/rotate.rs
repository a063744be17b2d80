//! `POST /v1/webhooks/{webhook_id}/rotate`.

use axum::extract::State;

use super::view::WebhookView;
use crate::domain::id::WebhookId;
use crate::engine::webhooks::secret;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::{EmptyObject, OptionalBody, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::webhooks;

/// Give an endpoint a new secret
///
/// For a day deliveries carry two signatures, the new secret's and that of the one before it, so that the
/// endpoint can change over.
#[utoipa::path(post, path = "/v1/webhooks/{webhook_id}/rotate", tag = "webhooks",
    operation_id = "webhooks_rotate",
    params(("webhook_id" = WebhookId, Path, description = "The endpoint")),
    request_body = Option<EmptyObject>,
    responses((status = 200, description = "The endpoint, with its new secret", body = WebhookView)))]
pub(super) async fn rotate(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    PathId(id): PathId<WebhookId>,
    OptionalBody(_nothing): OptionalBody<EmptyObject>,
) -> Result<Reply<WebhookView>, Problem> {
    let rotated = webhooks::rotate(&app.store, &caller.tenant, id, app.clock.now()).await?;
    let webhook = rotated.ok_or_else(Problem::not_found)?;
    let secret = secret(&app.engine, &caller.tenant, &webhook);
    Ok(Reply::ok(WebhookView::from(webhook).with_secret(secret)))
}
