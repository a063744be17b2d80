//! How fast callers may ask.

use std::time::Duration;

use super::Setting;
use super::reader::Reader;

pub(super) const KEY: Setting = Setting::plain(
    "AGENTLING_RATE_KEY",
    "how many requests a second one key may send to this server, or `n/burst`; `off`: any number",
)
.or("off");
pub(super) const TENANT: Setting = Setting::plain(
    "AGENTLING_RATE_TENANT",
    "how many requests a second all keys of a tenant may send to this server, or `n/burst`; \
     `off`: any number",
)
.or("off");
pub(super) const RUNS: Setting = Setting::plain(
    "AGENTLING_RATE_RUNS",
    "how many requests for a run a minute a tenant may send to this server, or `n/burst`; `off`: any \
     number",
)
.or("off");

/// The most that a rate or a burst can be.
const MOST: u32 = 1_000_000;

/// Which rates are bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// Requests of a key.
    pub key: Option<Rate>,
    /// Requests of a tenant.
    pub tenant: Option<Rate>,
    /// Runs that a tenant starts.
    pub runs: Option<Rate>,
}

/// How fast something may go on, and how much of it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The time in which one more comes free.
    pub every: Duration,
    /// How many there may be at once.
    pub burst: u32,
}

impl Rates {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let key = reader.required(KEY, |text| rate(text, Duration::from_secs(1)));
        let tenant = reader.required(TENANT, |text| rate(text, Duration::from_secs(1)));
        let runs = reader.required(RUNS, |text| rate(text, Duration::from_mins(1)));
        Some(Self { key: key?, tenant: tenant?, runs: runs? })
    }
}

fn rate(text: &str, span: Duration) -> Result<Option<Rate>, String> {
    if text == "off" {
        return Ok(None);
    }
    let (number, burst) = text.split_once('/').unwrap_or((text, text));
    let read = |text: &str| text.parse().ok().filter(|number| (1..=MOST).contains(number));
    match (read(number), read(burst)) {
        (Some(number), Some(burst)) => Ok(Some(Rate { every: span / number, burst })),
        _ => Err(format!("must be `off`, a number from 1 to {MOST}, or two as `n/burst`")),
    }
}
