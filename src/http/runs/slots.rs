//! How many streams are open, by tenant and in all, and how long each may last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config;
use crate::domain::id::TenantId;
use crate::error::AgentlingError;

/// The bounds of streams, which the operator sets.
pub type StreamLimits = config::Streams;

/// The streams of this server that are open, by tenant. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StreamSlots {
    limits: StreamLimits,
    open: Arc<Mutex<BTreeMap<TenantId, u64>>>,
}

impl StreamSlots {
    /// None is open yet.
    pub fn new(limits: StreamLimits) -> Self {
        Self { limits, open: Arc::default() }
    }

    /// Takes a place for a stream; it is free again when the slot is dropped.
    ///
    /// # Errors
    /// [`AgentlingError::TooManyStreams`] when the tenant, or the server, holds as many as it may.
    pub(crate) fn take(&self, tenant: &TenantId) -> Result<StreamSlot, AgentlingError> {
        let mut open = self.lock();
        let StreamLimits { per_tenant, per_server, .. } = self.limits;
        if open.get(tenant).is_some_and(|n_open| *n_open >= per_tenant) {
            return Err(AgentlingError::TooManyStreams { limit: per_tenant });
        }
        if open.values().sum::<u64>() >= per_server {
            return Err(AgentlingError::TooManyStreams { limit: per_server });
        }
        *open.entry(tenant.clone()).or_default() += 1;
        Ok(StreamSlot { slots: self.clone(), tenant: tenant.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TenantId, u64>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open stream.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    slots: StreamSlots,
    tenant: TenantId,
}

impl StreamSlot {
    /// The bounds of the stream.
    pub(crate) const fn limits(&self) -> StreamLimits {
        self.slots.limits
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = self.slots.lock();
        if let Some(n_open) = open.get_mut(&self.tenant) {
            *n_open = n_open.saturating_sub(1);
            if *n_open == 0 {
                open.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn slots(per_tenant: u64, per_server: u64) -> StreamSlots {
        let second = Duration::from_secs(1);
        let times = (second, second, second);
        let (lifetime, stall, keep_alive) = times;
        StreamSlots::new(StreamLimits { per_tenant, per_server, lifetime, stall, keep_alive })
    }

    #[test]
    fn a_tenant_holds_so_many_streams_and_no_more_and_other_tenants_are_not_asked() {
        let (slots, tenant) = (slots(3, 100), TenantId::default());
        let mut held: Vec<_> = (0..3).map(|_| slots.take(&tenant).unwrap()).collect();
        let refused = slots.take(&tenant).unwrap_err();
        assert!(matches!(refused, AgentlingError::TooManyStreams { limit: 3 }));
        assert!(slots.take(&TenantId::parse("other").unwrap()).is_ok());
        held.pop();
        assert!(slots.take(&tenant).is_ok());
        held.clear();
        assert!(slots.lock().is_empty());
    }

    #[test]
    fn a_server_holds_so_many_streams_and_no_more_whoever_has_them() {
        let (slots, tenant) = (slots(3, 4), TenantId::default());
        let held: Vec<_> = (0..3).map(|_| slots.take(&tenant).unwrap()).collect();
        let other = TenantId::parse("other").unwrap();
        let last = slots.take(&other).unwrap();
        let refused = slots.take(&other).unwrap_err();
        assert!(matches!(refused, AgentlingError::TooManyStreams { limit: 4 }));
        drop(held);
        assert!(slots.take(&other).is_ok());
        drop(last);
    }
}
