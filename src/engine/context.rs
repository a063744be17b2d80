//! What the tasks of an engine share.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use uuid::Uuid;

use super::Parts;
use super::feed::Feed;
use super::hints::Hints;
use super::leases::Leases;
use super::load::Load;
use super::tasks::Tasks;
use crate::domain::id::RunId;
use crate::domain::thread::{Announce, Framing, FramingPolicy};
use crate::error::AgentlingError;
use crate::store::Store;
use crate::store::lease::{self, Claim};

/// Everything the tasks of an engine share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(super) parts: Parts,
    pub(super) feed: Feed,
    pub(super) leases: Leases,
    pub(super) tasks: Tasks,
    pub(super) wake: Notify,
    /// Tells this server from others on the same database.
    pub(super) server: Uuid,
    pub(super) beat: Notify,
    pub(super) hints: Hints,
    pub(super) load: Load,
    pub(super) n_fenced: AtomicU64,
}

impl Context {
    /// The context of an engine whose workers do not run yet.
    pub(super) fn new(parts: Parts) -> Self {
        let hints = Hints::new(parts.ids.random(), parts.settings.notify);
        let server = parts.ids.random();
        Self {
            parts,
            feed: Feed::default(),
            leases: Leases::default(),
            tasks: Tasks::default(),
            wake: Notify::new(),
            server,
            beat: Notify::new(),
            hints,
            load: Load::default(),
            n_fenced: AtomicU64::new(0),
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.parts.store
    }

    pub(super) fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.parts.clock.now()
    }

    /// How a thread that is created now frames its history.
    pub(super) fn framing(&self, policy: FramingPolicy, announce: Announce) -> Framing {
        let tags = self.parts.rendering.framing_tags.clone();
        Framing { policy, announce, tags }
    }

    /// A run became claimable: workers here and elsewhere may look.
    pub(super) fn claimable(&self) {
        self.wake.notify_one();
        self.hints.claimable();
    }

    /// A caller wants something of a run: whoever holds it, here or elsewhere, may look.
    pub(super) fn steered(&self, run: RunId) {
        self.claimable();
        self.hints.changed(run);
    }

    /// Whether a run would be accepted now. Reads, cancels and health are never refused for this.
    pub(super) fn admit(&self) -> Result<(), AgentlingError> {
        if self.tasks.is_stopping() {
            return Err(AgentlingError::Draining);
        }
        let settings = &self.parts.settings;
        if self.load.exceeds(settings.lag_limit, settings.wait_limit) {
            return Err(AgentlingError::Overloaded);
        }
        Ok(())
    }

    /// Counts a write that another worker's claim kept out, and says so once.
    pub(super) async fn fenced(&self, claim: &Claim) {
        self.n_fenced.fetch_add(1, Ordering::Relaxed);
        self.parts.instruments.metrics.write_fenced();
        let newest = lease::epoch(self.store(), &claim.tenant, claim.run).await.ok().flatten();
        let (run, epoch) = (claim.run, claim.epoch);
        tracing::warn!(%run, epoch, newest, "a write was fenced");
    }

    /// A number in 0..1 for jitter, drawn from the ids' randomness.
    pub(super) fn jitter(&self) -> f64 {
        let (high, _) = self.parts.ids.random().as_u64_pair();
        // The top bits are random; 16 of them are plenty for jitter and exact in an f64.
        f64::from(u16::try_from(high >> 48).unwrap_or(0)) / 65_536.0
    }
}
