//! Buckets of callers, at moments that a test chooses.

use super::*;
use crate::clock::{Ids as _, System};

const SECOND: Duration = Duration::from_secs(1);

const fn rate(every: Duration, burst: u32) -> Rate {
    Rate { every, burst }
}

fn caller(tenant: &str, key: Option<KeyId>) -> Caller {
    Caller { tenant: TenantId::parse(tenant).unwrap(), key, scopes: [].into() }
}

fn key() -> KeyId {
    KeyId::from(System::new().sortable())
}

/// Whether so many requests in a row pass.
fn passed(limits: &RateLimits, caller: &Caller, n: usize, now: Duration) -> usize {
    (0..n).filter(|_| limits.take(caller, false, now).refused.is_none()).count()
}

#[test]
fn a_burst_passes_and_then_one_each_time_that_one_comes_free() {
    let limits = RateLimits::new(Rates { key: Some(rate(SECOND / 2, 3)), ..Rates::default() });
    let caller = caller("acme", Some(key()));
    assert_eq!(passed(&limits, &caller, 5, SECOND), 3);
    let refused = limits.take(&caller, false, SECOND + SECOND / 4);
    assert_eq!(refused.refused, Some((SECOND / 4, 3)));
    assert_eq!(passed(&limits, &caller, 5, SECOND + SECOND / 2), 1);
    assert_eq!(passed(&limits, &caller, 5, 3 * SECOND), 3, "it holds no more than the burst");
}

#[test]
fn who_floods_slows_nobody_else() {
    let rates =
        Rates { key: Some(rate(SECOND, 2)), tenant: Some(rate(SECOND, 3)), ..Rates::default() };
    let limits = RateLimits::new(rates);
    let (one, other) = (caller("acme", Some(key())), caller("acme", Some(key())));
    assert_eq!(passed(&limits, &one, 9, SECOND), 2);
    assert_eq!(passed(&limits, &other, 9, SECOND), 1, "what the tenant has left");
    assert_eq!(passed(&limits, &caller("other", one.key), 9, SECOND), 2);
    assert_eq!(passed(&limits, &caller("other", None), 9, SECOND), 1);
}

#[test]
fn a_request_that_one_bucket_refuses_is_taken_from_none() {
    let rates = Rates {
        tenant: Some(rate(SECOND, 5)),
        runs: Some(rate(60 * SECOND, 1)),
        ..Rates::default()
    };
    let limits = RateLimits::new(rates);
    let caller = caller("acme", None);
    assert_eq!(limits.take(&caller, true, SECOND).refused, None);
    for _ in 0..9 {
        assert_eq!(limits.take(&caller, true, SECOND).refused, Some((60 * SECOND, 1)));
    }
    assert_eq!(passed(&limits, &caller, 9, SECOND), 4);
}

#[test]
fn an_answer_tells_each_policy_and_what_is_left_of_it() {
    let rates =
        Rates { key: Some(rate(SECOND / 10, 20)), runs: Some(rate(6 * SECOND, 10)), tenant: None };
    let limits = RateLimits::new(rates);
    let headers = limits.take(&caller("acme", None), true, SECOND).headers().unwrap();
    assert_eq!(headers.policy, r#""key";q=20;w=2, "runs";q=10;w=60"#);
    assert_eq!(headers.limit, r#""key";r=19;t=1, "runs";r=9;t=6"#);
    let unlimited = RateLimits::new(Rates::default());
    assert!(unlimited.take(&caller("acme", None), true, SECOND).headers().is_none());
}

#[test]
fn no_more_buckets_are_kept_than_may_be() {
    let limits = RateLimits::new(Rates { key: Some(rate(SECOND, 5)), ..Rates::default() });
    for n in 0..CAPACITY + 10 {
        let caller = caller(&format!("t{n}"), None);
        assert_eq!(limits.take(&caller, false, SECOND).refused, None);
    }
    assert_eq!(limits.lock().len(), CAPACITY);
    assert_eq!(passed(&limits, &caller("late", None), 9, 3 * SECOND), 5);
    assert_eq!(limits.lock().len(), 1, "those that are full again are not kept");
}
