//! How runs are worked on.

use std::time::Duration;

use super::Setting;
use super::reader::Reader;

pub(super) const CONCURRENCY: Setting =
    Setting::plain("AGENTLING_CONCURRENCY", "how many runs this process works on at once").or("64");
pub(super) const POLL: Setting =
    Setting::plain("AGENTLING_POLL_MS", "how often an idle worker looks for runs unasked")
        .or("1000");
pub(super) const LEASE: Setting = Setting::plain(
    "AGENTLING_LEASE_MS",
    "how long a run stays with a worker that shows no sign of life",
)
.or("30000");
pub(super) const HEARTBEAT: Setting =
    Setting::plain("AGENTLING_HEARTBEAT_MS", "how often a worker shows a sign of life").or("10000");
pub(super) const SWEEP: Setting =
    Setting::plain("AGENTLING_SWEEP_MS", "how often abandoned runs are looked for").or("5000");
pub(super) const DRAIN: Setting =
    Setting::plain("AGENTLING_DRAIN_SECS", "how long shutdown waits for what is under way")
        .or("25");

const HOUR_MS: u32 = 3_600_000;

/// The worker.
#[derive(Debug, Clone, Copy)]
pub struct Engine {
    /// The most runs at once.
    pub concurrency: usize,
    /// The time between two looks for runs without a wake-up.
    pub poll: Duration,
    /// The time to live of a lease.
    pub lease: Duration,
    /// The time between two renewals of a lease.
    pub heartbeat: Duration,
    /// The time between two searches for expired leases.
    pub sweep: Duration,
    /// The time that shutdown waits.
    pub drain: Duration,
}

impl Engine {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let concurrency = reader.number(CONCURRENCY, (1, 10_000));
        let poll = reader.millis(POLL, (10, HOUR_MS));
        let lease = reader.millis(LEASE, (100, HOUR_MS));
        let heartbeat = reader.millis(HEARTBEAT, (10, HOUR_MS));
        let sweep = reader.millis(SWEEP, (10, HOUR_MS));
        let drain = reader.secs(DRAIN, (0, 3600));
        Some(Self {
            concurrency: usize::try_from(concurrency?).ok()?,
            poll: poll?,
            lease: lease?,
            heartbeat: survivable(reader, heartbeat?, lease?)?,
            sweep: sweep?,
            drain: drain?,
        })
    }
}

/// A heartbeat of which one may be lost without losing the lease.
fn survivable(reader: &mut Reader<'_>, heartbeat: Duration, lease: Duration) -> Option<Duration> {
    if heartbeat.saturating_mul(2) > lease {
        reader.refuse(HEARTBEAT, format!("must be at most half of {}", LEASE.name));
        return None;
    }
    Some(heartbeat)
}
