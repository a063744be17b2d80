//! Waits for a fact that nobody announces.

use std::thread;
use std::time::Duration;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks until there is something or patience is out; looks once without any patience.
pub(super) fn until<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut waited = Duration::ZERO;
    loop {
        let found = look();
        if found.is_some() || waited >= patience {
            return found;
        }
        thread::sleep(PAUSE);
        waited = waited.saturating_add(PAUSE);
    }
}
