//! How many streams may be open, and for how long.

use std::time::Duration;

use super::Setting;
use super::reader::Reader;

pub(super) const PER_TENANT: Setting =
    Setting::plain("AGENTLING_STREAMS_PER_TENANT", "how many streams a tenant may hold open here")
        .or("100");
pub(super) const PER_SERVER: Setting =
    Setting::plain("AGENTLING_STREAMS", "how many streams this server holds open in all")
        .or("10000");
pub(super) const LIFETIME: Setting = Setting::plain(
    "AGENTLING_STREAM_SECS",
    "how long a stream lasts before its reader has to connect again",
)
.or("1800");
pub(super) const STALL: Setting = Setting::plain(
    "AGENTLING_STALL_MS",
    "how long a client may take nothing of what it is sent before its connection is closed",
)
.or("30000");
pub(super) const KEEP_ALIVE: Setting =
    Setting::plain("AGENTLING_KEEP_ALIVE_MS", "how often a silent stream shows that it lives")
        .or("15000");

const HOUR_MS: u32 = 3_600_000;

/// The bounds of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// Streams of one tenant.
    pub per_tenant: u64,
    /// Streams of all tenants.
    pub per_server: u64,
    /// The time that a stream lasts.
    pub lifetime: Duration,
    /// The time in which a client has to take something of what it is sent.
    pub stall: Duration,
    /// The time between two signs of life.
    pub keep_alive: Duration,
}

impl Streams {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let per_tenant = reader.number(PER_TENANT, (1, 1_000_000));
        let per_server = reader.number(PER_SERVER, (1, 1_000_000));
        let lifetime = reader.secs(LIFETIME, (1, 86_400));
        let stall = reader.millis(STALL, (100, HOUR_MS));
        let keep_alive = reader.millis(KEEP_ALIVE, (100, HOUR_MS));
        Some(Self {
            per_tenant: per_tenant?.into(),
            per_server: per_server?.into(),
            lifetime: lifetime?,
            stall: stall?,
            keep_alive: keep_alive?,
        })
    }
}
