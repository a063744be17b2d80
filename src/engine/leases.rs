//! The leases this process holds, their heartbeat, and the signals that come with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use crate::domain::id::{LeaseToken, RunId, TenantId};
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
    tenant: TenantId,
    run: RunId,
    signals: watch::Sender<Signals>,
    /// When the lease was last known to be good, on the monotonic clock.
    good_at: Duration,
}

/// The leases this process holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leases {
    held: Arc<Mutex<BTreeMap<Uuid, Held>>>,
}

impl Leases {
    /// Takes a claimed run into the heartbeat.
    pub(crate) fn hold(
        &self,
        claim: &lease::Claim,
        claimed_at: Duration,
    ) -> (LeaseHold, watch::Receiver<Signals>) {
        let lease::Wishes { cancel, interrupt } = claim.wishes;
        let signals = Signals { cancel, interrupt, lost: false };
        let (signals, receiver) = watch::channel(signals);
        let held =
            Held { tenant: claim.tenant.clone(), run: claim.run, signals, good_at: claimed_at };
        self.lock().insert(claim.token.0, held);
        (LeaseHold { leases: self.clone(), token: claim.token }, receiver)
    }

    /// Tells the driver of a run, if it is in this process, before the next heartbeat does.
    pub(crate) fn tell(&self, tenant: &TenantId, run: RunId, change: impl Fn(&mut Signals)) {
        for held in self.lock().values() {
            if held.run == run && held.tenant == *tenant {
                held.signals.send_modify(&change);
            }
        }
    }

    /// How many runs are held.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Extends every lease in one statement and passes on what callers want. A lease that is gone, or
    /// that could not be extended for longer than is safe, is lost.
    pub(crate) async fn beat(&self, store: &Store, ttl: Duration, now: Duration) {
        let tokens: Vec<Uuid> = self.lock().keys().copied().collect();
        if tokens.is_empty() {
            return;
        }
        match lease::heartbeat(store, &tokens, ttl).await {
            Ok(beats) => self.note(&tokens, &beats, now),
            Err(error) => {
                tracing::warn!(error = %error, "the heartbeat did not go through");
                self.give_up_stale(ttl, now);
            }
        }
    }

    fn note(&self, asked: &[Uuid], beats: &[lease::Beat], now: Duration) {
        let mut held = self.lock();
        for token in asked {
            let Some(entry) = held.get_mut(token) else { continue };
            let beat = beats.iter().find(|beat| beat.token.0 == *token);
            if beat.is_some() {
                entry.good_at = now;
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
        let safe = ttl.saturating_sub(Duration::from_secs(5)).max(ttl / 2);
        for held in self.lock().values() {
            if now.saturating_sub(held.good_at) >= safe {
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
        self.leases.lock().remove(&self.token.0);
    }
}
