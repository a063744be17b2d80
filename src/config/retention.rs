//! How long what is stored is kept.

use std::time::Duration;

use super::Setting;
use super::reader::Reader;

pub(super) const THREADS: Setting = Setting::plain(
    "AGENTLING_RETAIN_DAYS",
    "after how many days without activity a thread is deleted with its runs; absent: never",
);
pub(super) const LEDGER: Setting = Setting::plain(
    "AGENTLING_RETAIN_LEDGER_DAYS",
    "after how many days without activity the bodies of a thread's requests and answers are dropped; \
     absent: with the thread",
);
pub(super) const DELIVERIES: Setting = Setting::plain(
    "AGENTLING_RETAIN_DELIVERIES_DAYS",
    "how many days deliveries to endpoints stay listed",
)
.or("30");
pub(super) const ITEM_VERSIONS: Setting = Setting::plain(
    "AGENTLING_RETAIN_ITEM_VERSIONS_DAYS",
    "after how many days deleted items of long-term memory are forgotten, and versions of items that others \
     have followed; absent: never",
);
pub(super) const USAGE: Setting = Setting::plain(
    "AGENTLING_RETAIN_USAGE_DAYS",
    "after how many days it is forgotten what calls of models took, as `GET /v1/usage` tells it; absent: never",
);

/// How long what is stored is kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Threads without activity; `None` for ever.
    pub threads: Option<Duration>,
    /// The ledger's bodies of threads without activity; `None` for as long as the thread.
    pub ledger: Option<Duration>,
    /// Deliveries.
    pub deliveries: Duration,
    /// Deleted items, and versions of items behind which there are newer ones; `None` for ever.
    pub item_versions: Option<Duration>,
    /// What calls of models took; `None` for ever.
    pub usage: Option<Duration>,
}

impl Retention {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let threads = reader.optional(THREADS, days);
        let ledger = reader.optional(LEDGER, days);
        let deliveries = reader.required(DELIVERIES, days);
        let item_versions = reader.optional(ITEM_VERSIONS, days);
        let usage = reader.optional(USAGE, days);
        Some(Self { threads, ledger, deliveries: deliveries?, item_versions, usage })
    }
}

fn days(text: &str) -> Result<Duration, String> {
    let days = text.parse().ok().filter(|days| (1..=36_500).contains(days));
    days.map(|days: u32| Duration::from_hours(24) * days)
        .ok_or_else(|| format!("must be a number of days from 1 to 36500, not {text:?}"))
}
