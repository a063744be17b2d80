//! Endpoints and deliveries as callers see them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::agent::Metadata;
use crate::domain::event::EventName;
use crate::domain::id::{DeliveryId, RunId, WebhookId};
use crate::domain::webhook::{Delivery, DeliveryError, DeliveryState, Webhook};
use crate::http::time::Time;

/// An endpoint that events of runs are told to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub(super) struct WebhookView {
    /// Its id.
    id: WebhookId,
    /// Where events are posted to.
    url: String,
    /// Which events.
    events: Vec<EventName>,
    /// Whether it is told of every run, or only of runs that name it.
    all_runs: bool,
    /// Whether it is told anything.
    enabled: bool,
    /// The caller's own labels.
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    /// What deliveries are signed with, for the endpoint to check; only in the answer that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(examples("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))]
    secret: Option<String>,
    /// When its secret was changed last: for a day the one before it signs as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotated_at: Option<Time>,
    /// When it was created.
    created_at: Time,
    /// When it was changed last.
    updated_at: Time,
    /// Since when it is told nothing: a caller said so, or it answered 410.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_at: Option<Time>,
}

impl From<Webhook> for WebhookView {
    fn from(webhook: Webhook) -> Self {
        Self {
            id: webhook.id,
            url: webhook.url,
            events: webhook.events,
            all_runs: webhook.all_runs,
            enabled: webhook.disabled_at.is_none(),
            metadata: webhook.metadata,
            secret: None,
            rotated_at: webhook.rotated_at.map(Time::from),
            created_at: webhook.created_at.into(),
            updated_at: webhook.updated_at.into(),
            disabled_at: webhook.disabled_at.map(Time::from),
        }
    }
}

impl WebhookView {
    /// The same with its secret.
    pub(super) fn with_secret(self, secret: String) -> Self {
        Self { secret: Some(secret), ..self }
    }
}

/// An event on its way to an endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookDelivery)]
pub(super) struct DeliveryView {
    /// Its id: the `webhook-id` of every attempt.
    id: DeliveryId,
    /// The endpoint.
    webhook_id: WebhookId,
    /// The run.
    run_id: RunId,
    /// The event's place in the run.
    event_id: i64,
    /// What happened.
    event: EventName,
    /// Where it stands.
    state: DeliveryState,
    /// How often it was tried.
    attempts: i32,
    /// When it is tried again, at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Time>,
    /// The status that the endpoint answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_status: Option<u16>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<DeliveryError>,
    /// When the event was recorded.
    created_at: Time,
    /// When it was tried last.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempted_at: Option<Time>,
}

impl From<Delivery> for DeliveryView {
    fn from(delivery: Delivery) -> Self {
        let is_pending = delivery.state == DeliveryState::Pending;
        Self {
            id: delivery.id,
            webhook_id: delivery.webhook_id,
            run_id: delivery.run_id,
            event_id: delivery.event_seq,
            event: delivery.event,
            state: delivery.state,
            attempts: delivery.n_attempts,
            next_attempt_at: is_pending.then(|| delivery.due_at.into()),
            last_status: delivery.last_status,
            last_error: delivery.last_error,
            created_at: delivery.created_at.into(),
            attempted_at: delivery.attempted_at.map(Time::from),
        }
    }
}
