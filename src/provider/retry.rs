//! How long to wait before the next attempt.

use std::time::Duration;

/// The wait before the second attempt, without jitter.
const FIRST: Duration = Duration::from_millis(500);

/// The longest wait of our own choosing.
const CAP: Duration = Duration::from_mins(1);

/// The longest wait a provider may ask for; beyond it the call has failed.
const PATIENCE: Duration = Duration::from_mins(2);

/// The wait after a failed attempt, counted from 1; `None` when the provider asks for more patience
/// than a run has.
///
/// What the provider asks for is a floor. `jitter`, 0 to 1, only adds: up to as much again as the
/// doubling wait, so that callers that failed together do not come back together.
pub fn backoff(attempt: u32, retry_after_ms: Option<u64>, jitter: f64) -> Option<Duration> {
    let floor = Duration::from_millis(retry_after_ms.unwrap_or(0));
    if floor > PATIENCE {
        return None;
    }
    let doubled = FIRST.saturating_mul(2u32.saturating_pow(attempt.saturating_sub(1))).min(CAP);
    let share = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
    let wait = doubled.max(floor) + doubled.mul_f64(share);
    Some(wait.min(CAP).max(floor))
}

/// How long the counters of an account that is used up take to come back, by a provider's
/// `x-ratelimit-` headers: each names how many are left and the span until there are all again, such as
/// `1.8s` or `6m0s`. It is a hint only, so what is longer than a wait of our own choosing says nothing.
pub(super) fn reset_ms<'h>(counters: impl IntoIterator<Item = (&'h str, &'h str)>) -> Option<u64> {
    let used_up = counters.into_iter().filter(|(remaining, _)| remaining.trim() == "0");
    let waits = used_up.filter_map(|(_, reset)| span_ms(reset.trim()));
    waits.filter(|wait| Duration::from_millis(*wait) <= CAP).max()
}

/// Reads a span of hours, minutes, seconds and milliseconds.
fn span_ms(text: &str) -> Option<u64> {
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let digits = rest.find(|letter| !is_number(letter))?;
        let (number, unit) = rest.split_at_checked(digits)?;
        let letters = unit.find(is_number).unwrap_or(unit.len());
        let (unit, after) = unit.split_at_checked(letters)?;
        let scale = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        let secs: f64 = number.parse().ok()?;
        total = total.checked_add(Duration::try_from_secs_f64(secs * scale).ok()?)?;
        rest = after;
    }
    u64::try_from(total.as_millis()).ok().filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_wait_doubles_up_to_a_minute() {
        let waits: Vec<_> = [1, 2, 3, 7, 8, 40, u32::MAX]
            .iter()
            .map(|attempt| backoff(*attempt, None, 0.0).unwrap().as_millis())
            .collect();
        assert_eq!(waits, [500, 1_000, 2_000, 32_000, 60_000, 60_000, 60_000]);
    }

    #[test]
    fn what_the_provider_asks_for_is_a_floor_until_it_is_too_much() {
        let wait = |ms| backoff(1, Some(ms), 0.5).map(|wait| wait.as_millis());
        assert_eq!(wait(0), Some(750));
        assert_eq!(wait(9_000), Some(9_250));
        assert_eq!(wait(90_000), Some(90_000));
        assert_eq!(wait(120_000), Some(120_000));
        assert_eq!(wait(120_001), None);
        assert_eq!(wait(u64::MAX), None);
    }

    #[test]
    fn a_reset_is_a_hint_where_nothing_is_left() {
        for (text, ms) in [
            ("1.8s", Some(1_800)),
            ("6m0s", Some(360_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("120ms", Some(120)),
            ("", None),
            ("soon", None),
            ("7", None),
            ("5d", None),
            ("1.2.3s", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(span_ms(text), ms, "{text}");
        }
        assert_eq!(reset_ms([("0", "1.8s"), ("0", "12s"), ("5", "50s")]), Some(12_000));
        assert_eq!(reset_ms([("1", "1.8s"), ("0", "6m0s")]), None);
        assert_eq!(reset_ms([]), None);
    }

    proptest! {
        #[test]
        fn jitter_only_adds_and_the_bounds_hold(
            attempt in 0u32..50, floor in 0u64..130_000, jitter in -1.0f64..2.0,
        ) {
            let plain = backoff(attempt, Some(floor), 0.0);
            let wait = backoff(attempt, Some(floor), jitter);
            prop_assert_eq!(wait.is_none(), floor > 120_000);
            if let (Some(plain), Some(wait)) = (plain, wait) {
                prop_assert!(wait >= plain);
                prop_assert!(wait >= Duration::from_millis(floor));
                prop_assert!(wait <= CAP.max(Duration::from_millis(floor)));
            }
        }
    }
}
