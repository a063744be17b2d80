//! What an endpoint reads: an event as the API shows it, by the rules of redaction that watch webhooks.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::domain::event::EventName;
use crate::domain::id::RunId;
use crate::domain::page::PageRequest;
use crate::domain::redaction::RedactionChannel;
use crate::engine::webhooks::Wording;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::runs::views_on;
use crate::http::time::Time;
use crate::store::outbox::DueDelivery;
use crate::store::{events, runs};

/// The body of a delivery.
#[derive(Debug, Serialize)]
struct Body {
    #[serde(rename = "type")]
    event: EventName,
    timestamp: Time,
    run_id: RunId,
    /// The event's place in the run.
    event_id: i64,
    data: Value,
}

/// Words events as callers see them.
pub fn wording(app: &AppState) -> Arc<dyn Wording> {
    Arc::new(Words(app.clone()))
}

#[derive(Debug)]
struct Words(AppState);

impl Wording for Words {
    fn body<'a>(
        &'a self,
        delivery: &'a DueDelivery,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, AgentlingError>> {
        Box::pin(body(&self.0, delivery))
    }
}

fn written(body: &Body) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(body)
}

/// The body of a delivery that nobody gets, with this data in it.
pub(in crate::http) fn sample(data: Value) -> String {
    let body = Body {
        event: EventName::RunCompleted,
        timestamp: DateTime::<Utc>::UNIX_EPOCH.into(),
        run_id: RunId::from(Uuid::nil()),
        event_id: 1,
        data,
    };
    String::from_utf8(written(&body).unwrap_or_default()).unwrap_or_default()
}

async fn body(app: &AppState, due: &DueDelivery) -> Result<Option<Vec<u8>>, AgentlingError> {
    let Some(run) = runs::get(&app.store, &due.tenant, due.run).await? else { return Ok(None) };
    // The one behind it is read too: what a run was asked is in the step that is recorded with it.
    let page = PageRequest { limit: 2, after: Some(due.event_seq - 1) };
    let found = events::list(&app.store, &due.tenant, due.run, &page).await?.items;
    let channel = RedactionChannel::Webhook;
    let who = (&due.tenant, channel);
    let Some(event) = found.first().cloned() else { return Ok(None) };
    let views = views_on(&app.engine, who, &run, found).await?;
    let view = views.iter().find(|view| view.id() == due.event_seq);
    let Some(view) = view else { return Ok(None) };
    let body = Body {
        event: event.name,
        timestamp: event.created_at.into(),
        run_id: due.run,
        event_id: event.seq,
        data: view.data_value(),
    };
    written(&body).map(Some).map_err(|error| AgentlingError::internal(error.to_string()))
}
