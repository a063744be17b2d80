//! `POST /v1/webhooks`.

use axum::extract::State;

use super::new_webhook::NewWebhook;
use super::view::WebhookView;
use crate::domain::agent::Metadata;
use crate::domain::caller::Caller;
use crate::domain::id::WebhookId;
use crate::domain::webhook::Webhook;
use crate::engine::webhooks::secret;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::{Body, Keyed};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::store::webhooks;

/// Register an endpoint
///
/// Events of runs are posted to it as `{"type", "timestamp", "run_id", "event_id", "data"}`, `data` being
/// what the event has in the API. Each is signed as the Standard Webhooks have it: `webhook-id`,
/// `webhook-timestamp` and `webhook-signature`, with the `secret` of this answer, which is not shown again.
/// An event is delivered at least once, every time under the same `webhook-id`; what is not answered with
/// a 2xx is tried up to eight times within a day. Redirects are not followed. An endpoint that answers
/// 410 is disabled.
#[utoipa::path(post, path = "/v1/webhooks", tag = "webhooks", operation_id = "webhooks_create",
    request_body = NewWebhook,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    responses((status = 201, description = "The endpoint, with its secret", body = WebhookView)),
    extensions(("x-problems" = json!(["egress-denied"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    Keyed(Body(new), key): Keyed<Body<NewWebhook>>,
) -> Result<Reply<WebhookView>, Problem> {
    if let Some(id) = led_to(&app, &caller, key.as_ref()).await? {
        let made = webhooks::get(&app.store, &caller.tenant, id).await?;
        let made = made.ok_or_else(Problem::not_found)?;
        return Ok(created(&app, &caller, made).replayed(true));
    }
    new.check(&app)?;
    let blank = blank(&app);
    let webhook = new.onto(&blank, blank.created_at);
    webhooks::create(&app.store, &caller.tenant, &webhook, key.as_ref()).await?;
    Ok(created(&app, &caller, webhook))
}

fn created(app: &AppState, caller: &Caller, webhook: Webhook) -> Reply<WebhookView> {
    let secret = secret(&app.engine, &caller.tenant, &webhook);
    let location = format!("/v1/webhooks/{}", webhook.id);
    Reply::created(location, WebhookView::from(webhook).with_secret(secret))
}

fn blank(app: &AppState) -> Webhook {
    let now = app.clock.now();
    Webhook {
        id: WebhookId::from(app.ids.sortable()),
        url: String::new(),
        events: Vec::new(),
        all_runs: true,
        metadata: Metadata::new(),
        secret_version: 1,
        rotated_at: None,
        created_at: now,
        updated_at: now,
        disabled_at: None,
    }
}
