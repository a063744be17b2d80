//! What callers say of an endpoint.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::agent::Metadata;
use crate::domain::event::EventName;
use crate::domain::webhook::Webhook;
use crate::engine::webhooks::check_url;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::extract::Checks;

/// The longest URL of an endpoint, in characters.
const URL_CHARS: usize = 2_048;

/// An endpoint that events of runs are told to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewWebhook {
    /// Where events are posted to. What holds for the URLs of tools holds for it.
    #[schema(examples("https://example.com/hooks/agentling"), min_length = 1, max_length = 2048)]
    url: String,
    /// Which events; by default the ends of runs and their waiting for somebody. Events are those that
    /// are about a run as a whole, except `run.started`.
    #[serde(default)]
    #[schema(min_items = 1)]
    events: Option<Vec<EventName>>,
    /// Whether it is told of every run of the tenant, or only of runs that name it as their `webhook`.
    #[serde(default = "yes")]
    #[schema(default = true)]
    all_runs: bool,
    /// Whether it is told anything. What happens meanwhile is not told later.
    #[serde(default = "yes")]
    #[schema(default = true)]
    enabled: bool,
    /// The caller's own labels.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
}

const fn yes() -> bool {
    true
}

impl NewWebhook {
    /// Refuses what cannot be stored.
    pub(super) fn check(&self, app: &AppState) -> Result<(), AgentlingError> {
        let mut checks = Checks::new();
        checks.length("/url", &self.url, 1..=URL_CHARS);
        let events = self.events.iter().flatten().enumerate();
        for (place, event) in events {
            let message = "endpoints are not told of this event";
            let pointer = format!("/events/{place}");
            checks.require(event.is_told(), &pointer, "invalid_value", message);
        }
        let says_something = self.events.as_ref().is_none_or(|events| !events.is_empty());
        checks.require(says_something, "/events", "too_few", "must name at least one event");
        checks.metadata("/metadata", &self.metadata);
        checks.finish()?;
        check_url(&app.engine, &self.url, "/url")
    }

    /// An endpoint as it is to be from a moment on, from one as it was.
    pub(super) fn onto(self, webhook: &Webhook, now: DateTime<Utc>) -> Webhook {
        let all = || EventName::ALL.iter().copied();
        let events: BTreeSet<EventName> = match self.events {
            Some(events) => events.into_iter().collect(),
            None => all().filter(|event| event.is_told_by_default()).collect(),
        };
        Webhook {
            url: self.url,
            events: events.into_iter().collect(),
            all_runs: self.all_runs,
            metadata: self.metadata,
            updated_at: now,
            disabled_at: (!self.enabled).then_some(now),
            ..*webhook
        }
    }
}
