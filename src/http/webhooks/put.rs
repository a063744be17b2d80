//! `PUT /v1/webhooks/{webhook_id}`.

use axum::extract::State;

use super::find;
use super::new_webhook::NewWebhook;
use super::view::WebhookView;
use crate::domain::id::WebhookId;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::{Body, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::webhooks;

/// Change an endpoint
///
/// The body is all that callers say of it; its secret stays. What was not delivered yet goes to the new
/// URL.
#[utoipa::path(put, path = "/v1/webhooks/{webhook_id}", tag = "webhooks",
    operation_id = "webhooks_put",
    params(("webhook_id" = WebhookId, Path, description = "The endpoint")),
    request_body = NewWebhook,
    responses((status = 200, description = "The endpoint", body = WebhookView)),
    extensions(("x-problems" = json!(["egress-denied"]))))]
pub(super) async fn put(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    PathId(id): PathId<WebhookId>,
    Body(new): Body<NewWebhook>,
) -> Result<Reply<WebhookView>, Problem> {
    let webhook = find(&app, &caller, id).await?;
    new.check(&app)?;
    let changed = new.onto(&webhook, app.clock.now());
    let changed = webhooks::replace(&app.store, &caller.tenant, &changed).await?;
    Ok(Reply::ok(changed.ok_or_else(Problem::not_found)?.into()))
}
