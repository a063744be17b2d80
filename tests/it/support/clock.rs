//! A clock that stands still until it is moved.

use std::sync::Mutex;
use std::time::Duration;

use agentling::clock::{Clock, System};
use chrono::{DateTime, Utc};

/// The time of its making, plus what it was moved by.
#[derive(Debug)]
pub(crate) struct ManualClock {
    start: DateTime<Utc>,
    moved: Mutex<Duration>,
}

impl ManualClock {
    /// Stands at the present.
    pub(crate) fn new() -> Self {
        Self { start: System::new().now(), moved: Mutex::default() }
    }

    /// Moves on.
    pub(crate) fn advance(&self, by: Duration) {
        *self.moved.lock().unwrap() += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.start + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        *self.moved.lock().unwrap()
    }
}
