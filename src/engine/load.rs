//! How busy this process is: how late it comes to its work, and how long callers wait for the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Context;

/// How often it is measured.
const LOOK: Duration = Duration::from_millis(250);

/// Two measures, each smoothed over about the last second: one bad moment is not a load.
#[derive(Debug, Default)]
pub(crate) struct Load {
    lag_us: AtomicU64,
    wait_us: AtomicU64,
}

impl Load {
    /// Whether either is beyond its bound.
    pub(crate) fn exceeds(&self, lag: Duration, wait: Duration) -> bool {
        let beyond = |measure: &AtomicU64, bound: Duration| {
            Duration::from_micros(measure.load(Ordering::Relaxed)) > bound
        };
        beyond(&self.lag_us, lag) || beyond(&self.wait_us, wait)
    }

    fn note(&self, lag: Duration, wait: Duration) {
        for (measure, new) in [(&self.lag_us, lag), (&self.wait_us, wait)] {
            let before = measure.load(Ordering::Relaxed);
            let new = u64::try_from(new.as_micros()).unwrap_or(u64::MAX / 4);
            measure.store((before / 4) * 3 + new / 4, Ordering::Relaxed);
        }
    }
}

pub(super) fn start(context: &Arc<Context>) {
    if context.parts.settings.role.answers() {
        context.tasks.spawn(look_loop(Arc::clone(context)));
    }
}

async fn look_loop(context: Arc<Context>) {
    let clock = &context.parts.clock;
    while !context.tasks.is_stopping() {
        let asleep_at = clock.monotonic();
        tokio::select! {
            () = context.tasks.stopping() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let awake_at = clock.monotonic();
        // That it took too long, and was given up, is a measure too.
        drop(context.store().try_api().await);
        let lag = awake_at.saturating_sub(asleep_at).saturating_sub(LOOK);
        context.load.note(lag, clock.monotonic().saturating_sub(awake_at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_moment_is_no_load_and_a_bad_second_is_until_it_is_over() {
        let load = Load::default();
        let (bound, none) = (Duration::from_millis(200), Duration::ZERO);
        load.note(Duration::from_millis(500), none);
        assert!(!load.exceeds(bound, bound));
        (0..10).for_each(|_| load.note(Duration::from_millis(500), none));
        assert!(load.exceeds(bound, bound));
        (0..10).for_each(|_| load.note(none, none));
        assert!(!load.exceeds(bound, bound));
        (0..10).for_each(|_| load.note(none, Duration::from_millis(500)));
        assert!(load.exceeds(bound, bound));
    }
}
