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
    "how long a run stays with a worker that shows no sign of life; at least two heartbeats",
)
.or("30000");
pub(super) const HEARTBEAT: Setting =
    Setting::plain("AGENTLING_HEARTBEAT_MS", "how often a worker shows a sign of life").or("10000");
pub(super) const SWEEP: Setting =
    Setting::plain("AGENTLING_SWEEP_MS", "how often abandoned runs are looked for").or("5000");
pub(super) const DRAIN: Setting =
    Setting::plain("AGENTLING_DRAIN_SECS", "how long shutdown waits for what is under way")
        .or("25");
pub(super) const ROLE: Setting =
    Setting::plain("AGENTLING_ROLE", "what this process does: `all`, `api` or `worker`").or("all");
pub(super) const PER_TENANT: Setting = Setting::plain(
    "AGENTLING_TENANT_RUNNING",
    "how many runs of one tenant all servers together work on at once",
)
.or("1000");
pub(super) const MAX_DEPTH: Setting = Setting::plain(
    "AGENTLING_AGENT_DEPTH",
    "how deep agents may start runs of each other; 0 lets none start any",
)
.or("8");
pub(super) const NOTIFY: Setting = Setting::plain(
    "AGENTLING_NOTIFY",
    "`on` or `off`: whether servers tell each other over LISTEN and NOTIFY where to look; without it \
     they find the same by polling",
)
.or("on");
pub(super) const LAG_LIMIT: Setting = Setting::plain(
    "AGENTLING_LAG_LIMIT_MS",
    "how late this process may come to its work before it refuses new runs",
)
.or("200");
pub(super) const WAIT_LIMIT: Setting = Setting::plain(
    "AGENTLING_DB_WAIT_LIMIT_MS",
    "how long the API may wait for a database connection before it refuses new runs",
)
.or("250");
pub(super) const OLD_TRANSACTION: Setting = Setting::plain(
    "AGENTLING_OLD_TRANSACTION_MS",
    "how long anybody may have a transaction open in the database before it is warned of; it keeps \
     dead rows from being cleared away",
)
.or("600000");

const HOUR_MS: u32 = 3_600_000;

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Both.
    All,
    /// It answers callers and leaves runs to others.
    Api,
    /// It works on runs; of the API it has only what says how it is.
    Worker,
}

impl Role {
    /// Whether it works on runs.
    pub const fn works(self) -> bool {
        match self {
            Self::All | Self::Worker => true,
            Self::Api => false,
        }
    }

    /// Whether it answers callers.
    pub const fn answers(self) -> bool {
        match self {
            Self::All | Self::Api => true,
            Self::Worker => false,
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "api" => Ok(Self::Api),
            "worker" => Ok(Self::Worker),
            _ => Err(format!("must be all, api or worker, not {text:?}")),
        }
    }
}

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
    /// What the process does.
    pub role: Role,
    /// The most runs of a tenant at once.
    pub per_tenant: u32,
    /// How many runs may start each other in a row.
    pub max_depth: usize,
    /// Whether servers send each other hints.
    pub notify: bool,
    /// The lag of the process beyond which it takes no runs.
    pub lag_limit: Duration,
    /// The wait for a connection beyond which it takes no runs.
    pub wait_limit: Duration,
    /// The age beyond which a transaction of anybody is warned of.
    pub old_transaction: Duration,
}

impl Engine {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let concurrency = reader.number(CONCURRENCY, (1, 10_000));
        let poll = reader.millis(POLL, (10, HOUR_MS));
        let lease = reader.millis(LEASE, (100, HOUR_MS));
        let heartbeat = reader.millis(HEARTBEAT, (10, HOUR_MS));
        let sweep = reader.millis(SWEEP, (10, HOUR_MS));
        let drain = reader.secs(DRAIN, (0, 3600));
        let role = reader.required(ROLE, Role::parse);
        let per_tenant = reader.number(PER_TENANT, (1, 1_000_000));
        let max_depth = reader.number(MAX_DEPTH, (0, 64));
        let notify = reader.required(NOTIFY, on_or_off);
        let lag_limit = reader.millis(LAG_LIMIT, (1, HOUR_MS));
        let wait_limit = reader.millis(WAIT_LIMIT, (1, HOUR_MS));
        let old_transaction = reader.millis(OLD_TRANSACTION, (1, 24 * HOUR_MS));
        Some(Self {
            concurrency: usize::try_from(concurrency?).ok()?,
            poll: poll?,
            lease: lease?,
            heartbeat: survivable(reader, heartbeat?, lease?)?,
            sweep: sweep?,
            drain: drain?,
            role: role?,
            per_tenant: per_tenant?,
            max_depth: usize::try_from(max_depth?).ok()?,
            notify: notify?,
            lag_limit: lag_limit?,
            wait_limit: wait_limit?,
            old_transaction: old_transaction?,
        })
    }
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("must be on or off, not {text:?}")),
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
