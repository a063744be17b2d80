//! `POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver`.

use axum::extract::State;

use super::view::DeliveryView;
use crate::domain::id::{DeliveryId, WebhookId};
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::{EmptyObject, Keyed, OptionalBody, PathIds};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::store::outbox;

/// Deliver an event again
///
/// It becomes due at once, as if it had never been tried, under the same `webhook-id`. An endpoint that is
/// disabled is told when it is enabled again.
#[utoipa::path(post, path = "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    tag = "webhooks", operation_id = "webhooks_redeliver",
    params(("webhook_id" = WebhookId, Path, description = "The endpoint"),
        ("delivery_id" = DeliveryId, Path, description = "The delivery"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    request_body = Option<EmptyObject>,
    responses((status = 202, description = "The delivery, which is due", body = DeliveryView)))]
pub(super) async fn redeliver(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    PathIds(webhook, id): PathIds<WebhookId, DeliveryId>,
    Keyed(OptionalBody(_nothing), key): Keyed<OptionalBody<EmptyObject>>,
) -> Result<Reply<DeliveryView>, Problem> {
    let before = led_to::<DeliveryId>(&app, &caller, key.as_ref()).await?;
    let (tenant, place) = (&caller.tenant, (webhook, id));
    let delivery = match before {
        Some(_) => outbox::get(&app.store, tenant, place).await?,
        None => outbox::redeliver(&app.store, tenant, place, key.as_ref()).await?,
    };
    let delivery = delivery.ok_or_else(Problem::not_found)?;
    let reply = Reply::accepted(format!("/v1/webhooks/{webhook}/deliveries"), delivery.into());
    Ok(reply.replayed(before.is_some()))
}
