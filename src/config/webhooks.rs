//! How endpoints are told of events.

use std::time::Duration;

use super::Setting;
use super::reader::Reader;

pub(super) const TIMEOUT: Setting =
    Setting::plain("AGENTLING_WEBHOOK_TIMEOUT_MS", "how long an endpoint has to take an event")
        .or("10000");
pub(super) const RETRY: Setting = Setting::plain(
    "AGENTLING_WEBHOOK_RETRY_MS",
    "how long after a failed delivery the second attempt is made; up to six more follow, each later",
)
.or("5000");

/// Deliveries to endpoints.
#[derive(Debug, Clone, Copy)]
pub struct Webhooks {
    /// The time an endpoint has.
    pub timeout: Duration,
    /// The first pause between attempts.
    pub retry: Duration,
}

impl Webhooks {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let timeout = reader.millis(TIMEOUT, (100, 60_000));
        let retry = reader.millis(RETRY, (1, 3_600_000));
        Some(Self { timeout: timeout?, retry: retry? })
    }
}
