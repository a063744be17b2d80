//! The one place that reads time, makes ids or draws random bytes.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SubsecRound, Utc};
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

/// Where time comes from.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time of day, to the millisecond that the API shows.
    fn now(&self) -> DateTime<Utc>;

    /// A reading that only grows, for measuring spans. It goes on while the machine is suspended, as the
    /// clocks of other machines do that judge how old a lease is.
    fn monotonic(&self) -> Duration;
}

/// Where ids and random bytes come from.
pub trait Ids: Send + Sync + std::fmt::Debug {
    /// A UUIDv7: sortable by creation.
    fn sortable(&self) -> Uuid;

    /// A UUIDv4: unguessable.
    fn random(&self) -> Uuid;

    /// 32 random bytes from the operating system.
    ///
    /// # Errors
    /// When the operating system has none to give.
    fn secret(&self) -> std::io::Result<[u8; 32]>;
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// A shared source of ids.
pub type SharedIds = Arc<dyn Ids>;

/// The machine's own clock and randomness.
#[derive(Debug)]
pub struct System {
    origin: Duration,
}

/// The clock of the operating system that counts the time of a suspended machine.
#[cfg(any(target_os = "linux", target_os = "android"))]
const EVER_GROWING: ClockId = ClockId::Boottime;
/// The clock of the operating system that counts the time of a suspended machine, on macOS.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const EVER_GROWING: ClockId = ClockId::Monotonic;

fn reading() -> Duration {
    clock_gettime(EVER_GROWING).try_into().unwrap_or_default()
}

impl System {
    /// Starts its monotonic reading at zero.
    pub fn new() -> Self {
        Self { origin: reading() }
    }
}

impl Default for System {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for System {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(3)
    }

    fn monotonic(&self) -> Duration {
        reading().saturating_sub(self.origin)
    }
}

impl Ids for System {
    #[expect(clippy::disallowed_methods, reason = "this is where ids are made")]
    fn sortable(&self) -> Uuid {
        Uuid::now_v7()
    }

    #[expect(clippy::disallowed_methods, reason = "this is where ids are made")]
    fn random(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn secret(&self) -> std::io::Result<[u8; 32]> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(bytes)
    }
}
