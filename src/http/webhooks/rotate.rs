//! `POST /v1/webhooks/{webhook_id}/rotate`.

use axum::extract::State;

use super::view::WebhookView;
use crate::domain::id::WebhookId;
use crate::engine::webhooks::secret;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::{EmptyObject, Keyed, OptionalBody, PathId};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::store::webhooks;

/// Give an endpoint a new secret
///
/// For a day deliveries carry two signatures, the new secret's and that of the one before it, so that the
/// endpoint can change over.
#[utoipa::path(post, path = "/v1/webhooks/{webhook_id}/rotate", tag = "webhooks",
    operation_id = "webhooks_rotate",
    params(("webhook_id" = WebhookId, Path, description = "The endpoint"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    request_body = Option<EmptyObject>,
    responses((status = 200, description = "The endpoint, with its new secret", body = WebhookView)))]
pub(super) async fn rotate(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    PathId(id): PathId<WebhookId>,
    Keyed(OptionalBody(_nothing), key): Keyed<OptionalBody<EmptyObject>>,
) -> Result<Reply<WebhookView>, Problem> {
    let before = led_to::<WebhookId>(&app, &caller, key.as_ref()).await?;
    let (keyed, now) = ((id, key.as_ref()), app.clock.now());
    let webhook = match before {
        Some(id) => webhooks::get(&app.store, &caller.tenant, id).await?,
        None => webhooks::rotate(&app.store, &caller.tenant, keyed, now).await?,
    };
    let webhook = webhook.ok_or_else(Problem::not_found)?;
    let secret = secret(&app.engine, &caller.tenant, &webhook);
    let view = WebhookView::from(webhook).with_secret(secret);
    Ok(Reply::ok(view).replayed(before.is_some()))
}
