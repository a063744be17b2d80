//! Endpoints that events of runs are told to, and the deliveries to them.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::agent::Metadata;
use super::event::EventName;
use super::id::{DeliveryId, RunId, WebhookId};
use crate::labels;

/// An endpoint that events of runs are told to.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Where events are sent.
    pub url: String,
    /// Which events.
    pub events: Vec<EventName>,
    /// Whether it is told of every run, or only of those that name it.
    pub all_runs: bool,
    /// The caller's own labels.
    pub metadata: Metadata,
    /// Which of its secrets signs; grows by one with each rotation.
    pub secret_version: i32,
    /// When its secret was changed last.
    pub rotated_at: Option<DateTime<Utc>>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
    /// Since when it is told nothing.
    pub disabled_at: Option<DateTime<Utc>>,
}

labels! {
    /// Where a delivery stands.
    DeliveryState {
        /// It is still to be made.
        Pending = "pending",
        /// The endpoint took it.
        Delivered = "delivered",
        /// It was tried as often as it may be.
        Failed = "failed",
    }
}

labels! {
    /// Why an attempt at a delivery failed.
    DeliveryError {
        /// The server may not call the URL.
        Denied = "denied",
        /// No connection came about, or it broke.
        Unreachable = "unreachable",
        /// The endpoint took too long.
        Timeout = "timeout",
        /// The endpoint answered with a status other than 2xx.
        Status = "status",
        /// What is to be told cannot be read.
        Unreadable = "unreadable",
    }
}

/// An event on its way to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its id, the same at every attempt.
    pub id: DeliveryId,
    /// The endpoint.
    pub webhook_id: WebhookId,
    /// The run.
    pub run_id: RunId,
    /// The event's place in the run.
    pub event_seq: i64,
    /// What happened.
    pub event: EventName,
    /// Where it stands.
    pub state: DeliveryState,
    /// How often it was tried.
    pub n_attempts: i32,
    /// When it may be tried again.
    pub due_at: DateTime<Utc>,
    /// What the endpoint answered last.
    pub last_status: Option<u16>,
    /// Why the last attempt failed.
    pub last_error: Option<DeliveryError>,
    /// When the event was recorded.
    pub created_at: DateTime<Utc>,
    /// When it was tried last.
    pub attempted_at: Option<DateTime<Utc>>,
}

/// How an attempt at a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempted {
    /// What the endpoint answered.
    pub status: Option<u16>,
    /// Why it failed; `None` when the endpoint took it.
    pub error: Option<DeliveryError>,
}

impl Attempted {
    /// An answer with this status.
    pub const fn answered(status: u16) -> Self {
        let is_taken = matches!(status, 200..=299);
        let error = if is_taken { None } else { Some(DeliveryError::Status) };
        Self { status: Some(status), error }
    }

    /// No answer.
    pub const fn failed(error: DeliveryError) -> Self {
        Self { status: None, error: Some(error) }
    }

    /// Whether the endpoint says that it is no more.
    pub const fn is_gone(self) -> bool {
        matches!(self.status, Some(410))
    }
}

/// How long the pauses between the attempts are, in multiples of the first one. With a first pause of
/// five seconds these are 5 s, 1 min, 10 min, 1 h, 3 h, 6 h and 12 h.
const PAUSES: [u32; 7] = [1, 12, 120, 720, 2160, 4320, 8640];

/// How long to wait after so many attempts; `None` when there have been enough. `jitter` is in 0..1 and
/// makes a pause longer, never shorter.
pub fn pause_after(n_attempts: i32, first: Duration, jitter: f64) -> Option<Duration> {
    let place = usize::try_from(n_attempts).ok()?.checked_sub(1)?;
    let pause = first.saturating_mul(*PAUSES.get(place)?);
    Some(pause.mul_f64(0.05f64.mul_add(jitter, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_tried_eight_times_in_less_than_a_day() {
        let first = Duration::from_secs(5);
        let pauses: Vec<Duration> = (1..=8).map_while(|n| pause_after(n, first, 0.999)).collect();
        assert_eq!(pauses.len(), 7);
        assert!(pauses.is_sorted());
        assert!(pauses.iter().sum::<Duration>() < Duration::from_hours(24));
        assert_eq!(pause_after(1, first, 0.0), Some(first));
        assert_eq!(pause_after(8, first, 0.0), None);
    }

    #[test]
    fn an_endpoint_takes_an_event_with_any_2xx_and_nothing_else() {
        for status in [200, 202, 204, 299] {
            assert_eq!(Attempted::answered(status).error, None, "{status}");
        }
        for status in [100, 199, 301, 302, 400, 404, 410, 500, 503] {
            assert_eq!(Attempted::answered(status).error, Some(DeliveryError::Status), "{status}");
        }
    }
}
