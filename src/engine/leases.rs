//! The leases this process holds, their heartbeat, and the signals that come with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use crate::clock::SharedClock;
use crate::domain::id::{LeaseToken, RunId};
use crate::store::{Store, lease};

/// What the driver of a run has to know at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// A caller wants the run to end.
    pub(crate) cancel: bool,
    /// A caller wants the run to stop at the next boundary.
    pub(crate) interrupt: bool,
    /// The lease is lost, or so old that it may be: stop, write nothing, start nothing.
    pub(crate) lost: bool,
}

impl Signals {
    /// Resolves when the lease is lost.
    pub(crate) async fn lost(signals: &watch::Receiver<Self>) {
        let mut signals = signals.clone();
        if signals.wait_for(|signals| signals.lost).await.is_err() {
            // Nobody is left who could tell.
            std::future::pending::<()>().await;
        }
    }
}

#[derive(Debug)]
struct Held {
    run: RunId,
    signals: watch::Sender<Signals>,
    /// When what last made the lease good was sent, on the monotonic clock.
    good_at: watch::Sender<Duration>,
}

/// Whether a lease is so young that no one else can have the run yet. An effect starts only then: a
/// process that was stopped, or cut off from the database, must not act on what it once held.
#[derive(Debug, Clone)]
pub(crate) struct Freshness {
    good_at: watch::Receiver<Duration>,
    clock: SharedClock,
    safe: Duration,
}

impl Freshness {
    /// Whether it is, at this moment.
    pub(crate) fn is_fresh(&self) -> bool {
        self.clock.monotonic().saturating_sub(*self.good_at.borrow()) < self.safe
    }

    /// Resolves once it is; never when the lease is lost, which whoever waits is told otherwise.
    pub(crate) async fn fresh(mut self) {
        while !self.is_fresh() {
            if self.good_at.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// How young a lease must be for an effect to start: five seconds less than it lives, or half of that
/// where it lives for less than ten.
fn safe(ttl: Duration) -> Duration {
    ttl.saturating_sub(Duration::from_secs(5)).max(ttl / 2)
}

/// What a driver learns of its lease.
#[derive(Debug)]
pub(crate) struct Grip {
    /// What it has to know at once.
    pub(crate) signals: watch::Receiver<Signals>,
    /// Whether effects may start.
    pub(crate) freshness: Freshness,
}

/// The leases this process holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leases {
    held: Arc<Mutex<BTreeMap<Uuid, Held>>>,
    n_held: Arc<watch::Sender<usize>>,
}

impl Leases {
    /// Takes a claimed run into the heartbeat.
    pub(crate) fn hold(
        &self,
        claim: &lease::Claim,
        claimed_at: Duration,
        (clock, ttl): (&SharedClock, Duration),
    ) -> (LeaseHold, Grip) {
        let lease::Wishes { cancel, interrupt } = claim.wishes;
        let signals = Signals { cancel, interrupt, lost: false };
        let (signals, receiver) = watch::channel(signals);
        let (good_at, good) = watch::channel(claimed_at);
        let held = Held { run: claim.run, signals, good_at };
        let mut all = self.lock();
        all.insert(claim.token.0, held);
        self.n_held.send_replace(all.len());
        drop(all);
        let freshness = Freshness { good_at: good, clock: Arc::clone(clock), safe: safe(ttl) };
        let hold = LeaseHold { leases: self.clone(), token: claim.token };
        (hold, Grip { signals: receiver, freshness })
    }

    /// Whether a run is held here, by any tenant.
    pub(crate) fn holds(&self, run: RunId) -> bool {
        self.lock().values().any(|held| held.run == run)
    }

    /// How many runs are held.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Resolves when no run is held.
    pub(crate) async fn emptied(&self) {
        // It fails when the sender is gone, and `self` has it.
        drop(self.n_held.subscribe().wait_for(|n_held| *n_held == 0).await);
    }

    /// Extends every lease in one statement and passes on what callers want. A lease that is gone, or
    /// that could not be extended for longer than is safe, is lost. Answers whether it went through.
    pub(crate) async fn beat(&self, store: &Store, ttl: Duration, now: Duration) -> bool {
        let tokens: Vec<Uuid> = self.lock().keys().copied().collect();
        if tokens.is_empty() {
            return true;
        }
        match lease::heartbeat(store, &tokens, ttl).await {
            Ok(beats) => {
                self.note(&tokens, &beats, now);
                true
            }
            Err(error) => {
                tracing::warn!(error = %error, "the heartbeat did not go through");
                self.give_up_stale(ttl, now);
                false
            }
        }
    }

    fn note(&self, asked: &[Uuid], beats: &[lease::Beat], now: Duration) {
        let mut held = self.lock();
        for token in asked {
            let Some(entry) = held.get_mut(token) else { continue };
            let beat = beats.iter().find(|beat| beat.token.0 == *token);
            if beat.is_some() {
                entry.good_at.send_replace(now);
            }
            entry.signals.send_if_modified(|signals| {
                let after = Signals {
                    cancel: signals.cancel || beat.is_some_and(|beat| beat.cancel),
                    interrupt: signals.interrupt || beat.is_some_and(|beat| beat.interrupt),
                    lost: signals.lost || beat.is_none(),
                };
                std::mem::replace(signals, after) != after
            });
        }
    }

    /// An effect may only start while the last good heartbeat is clearly younger than the lease.
    fn give_up_stale(&self, ttl: Duration, now: Duration) {
        for held in self.lock().values() {
            if now.saturating_sub(*held.good_at.borrow()) >= safe(ttl) {
                held.signals.send_modify(|signals| signals.lost = true);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Uuid, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a lease in the heartbeat until it is dropped.
#[derive(Debug)]
pub(crate) struct LeaseHold {
    leases: Leases,
    token: LeaseToken,
}

impl Drop for LeaseHold {
    fn drop(&mut self) {
        let mut all = self.leases.lock();
        all.remove(&self.token.0);
        self.leases.n_held.send_replace(all.len());
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::clock::Clock;
    use crate::domain::id::TenantId;
    use crate::store::lease::{Beat, Claim, Wishes};

    #[derive(Debug, Default)]
    struct Hands(Mutex<Duration>);

    impl Clock for Hands {
        fn now(&self) -> chrono::DateTime<chrono::Utc> {
            chrono::DateTime::UNIX_EPOCH
        }

        fn monotonic(&self) -> Duration {
            *self.0.lock().unwrap()
        }
    }

    const TTL: Duration = Duration::from_secs(30);

    fn at(clock: &Hands, seconds: u64) -> Duration {
        *clock.0.lock().unwrap() = Duration::from_secs(seconds);
        clock.monotonic()
    }

    fn held(leases: &Leases, clock: &Arc<Hands>) -> (Uuid, LeaseHold, Grip) {
        let token = Uuid::from_u128(1);
        let claim = Claim {
            tenant: TenantId::default(),
            run: RunId::from(Uuid::nil()),
            token: LeaseToken(token),
            epoch: 1,
            begins: true,
            is_poisoned: false,
            last_fault: None,
            wishes: Wishes { cancel: false, interrupt: false },
            waited: Duration::ZERO,
        };
        let clock: SharedClock = Arc::<Hands>::clone(clock);
        let (hold, grip) = leases.hold(&claim, Duration::ZERO, (&clock, TTL));
        (token, hold, grip)
    }

    #[test]
    fn an_effect_starts_until_five_seconds_before_the_lease_ends_and_again_after_a_heartbeat() {
        let (leases, clock) = (Leases::default(), Arc::new(Hands::default()));
        let (token, hold, grip) = held(&leases, &clock);
        for (second, fresh) in [(0, true), (24, true), (25, false), (60, false)] {
            at(&clock, second);
            assert_eq!(grip.freshness.is_fresh(), fresh, "{second}");
            assert_eq!(grip.freshness.clone().fresh().now_or_never().is_some(), fresh);
        }
        let mut waiting = Box::pin(grip.freshness.clone().fresh());
        assert!(waiting.as_mut().now_or_never().is_none());
        // What counts is when the heartbeat was sent.
        let beat = Beat { token: LeaseToken(token), cancel: false, interrupt: false };
        leases.note(&[token], &[beat], Duration::from_secs(50));
        assert!(waiting.now_or_never().is_some());
        at(&clock, 75);
        assert!(!grip.freshness.is_fresh());
        // Of a lease that is lost nothing starts ever again.
        leases.note(&[token], &[], Duration::from_secs(75));
        assert!(grip.signals.borrow().lost);
        drop(hold);
        assert!(grip.freshness.fresh().now_or_never().is_none());
    }

    #[test]
    fn a_lease_that_cannot_be_extended_in_time_is_given_up() {
        let (leases, clock) = (Leases::default(), Arc::new(Hands::default()));
        let (_, _hold, grip) = held(&leases, &clock);
        for (second, lost) in [(10, false), (24, false), (25, true)] {
            leases.give_up_stale(TTL, at(&clock, second));
            assert_eq!(grip.signals.borrow().lost, lost, "{second}");
        }
    }

    #[test]
    fn short_leases_keep_half_of_their_life_as_margin() {
        for (ttl, wanted) in [(30_000, 25_000), (12_000, 7_000), (10_000, 5_000), (2_000, 1_000)] {
            assert_eq!(safe(Duration::from_millis(ttl)), Duration::from_millis(wanted));
        }
    }
}
