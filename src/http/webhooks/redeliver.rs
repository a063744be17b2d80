//! `POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver`.

use axum::extract::State;

use super::view::DeliveryView;
use crate::domain::id::{DeliveryId, WebhookId};
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::{EmptyObject, OptionalBody, PathIds};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::outbox;

/// Deliver an event again
///
/// It becomes due at once, as if it had never been tried, under the same `webhook-id`. An endpoint that is
/// disabled is told when it is enabled again.
#[utoipa::path(post, path = "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    tag = "webhooks", operation_id = "webhooks_redeliver",
    params(("webhook_id" = WebhookId, Path, description = "The endpoint"),
        ("delivery_id" = DeliveryId, Path, description = "The delivery")),
    request_body = Option<EmptyObject>,
    responses((status = 202, description = "The delivery, which is due", body = DeliveryView)))]
pub(super) async fn redeliver(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    PathIds(webhook, id): PathIds<WebhookId, DeliveryId>,
    OptionalBody(_nothing): OptionalBody<EmptyObject>,
) -> Result<Reply<DeliveryView>, Problem> {
    let delivery = outbox::redeliver(&app.store, &caller.tenant, (webhook, id)).await?;
    let delivery = delivery.ok_or_else(Problem::not_found)?;
    Ok(Reply::accepted(format!("/v1/webhooks/{webhook}/deliveries"), delivery.into()))
}
