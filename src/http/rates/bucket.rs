//! A bucket that fills up again at an even pace.

use std::time::Duration;

use crate::config::Rate;

/// A bucket, as the moment at which it is full again: an untouched one is full since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bucket {
    full_at: Duration,
}

/// What is in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// How many can be taken now.
    pub(super) remaining: u32,
    /// When it is full again.
    pub(super) full_in: Duration,
}

impl Bucket {
    /// The bucket after one was taken; otherwise how long it is until one can be.
    pub(super) fn take(self, rate: Rate, now: Duration) -> Result<Self, Duration> {
        let full_at = self.full_at.max(now) + rate.every;
        let too_late = full_at.saturating_sub(now + rate.every * rate.burst);
        if too_late.is_zero() { Ok(Self { full_at }) } else { Err(too_late) }
    }

    pub(super) fn standing(self, rate: Rate, now: Duration) -> Standing {
        let full_in = self.full_at.saturating_sub(now);
        let room = (rate.every * rate.burst).saturating_sub(full_in).as_nanos();
        let remaining = room.checked_div(rate.every.as_nanos()).unwrap_or(0);
        Standing { remaining: u32::try_from(remaining).unwrap_or(rate.burst), full_in }
    }

    pub(super) fn is_full(self, now: Duration) -> bool {
        self.full_at <= now
    }
}
