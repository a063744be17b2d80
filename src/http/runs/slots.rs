//! How many streams each tenant holds open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::id::TenantId;
use crate::error::AgentlingError;
use crate::http::limits::STREAMS_PER_TENANT;

/// The streams of this server that are open, by tenant. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct StreamSlots {
    open: Arc<Mutex<BTreeMap<TenantId, u64>>>,
}

impl StreamSlots {
    /// Takes a place for a stream; it is free again when the slot is dropped.
    ///
    /// # Errors
    /// [`AgentlingError::TooManyStreams`] when the tenant holds as many as it may.
    pub(crate) fn take(&self, tenant: &TenantId) -> Result<StreamSlot, AgentlingError> {
        let mut open = self.lock();
        let n_open = open.entry(tenant.clone()).or_default();
        if *n_open >= STREAMS_PER_TENANT {
            return Err(AgentlingError::TooManyStreams { limit: STREAMS_PER_TENANT });
        }
        *n_open += 1;
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
    /// Whose it is.
    pub(crate) const fn tenant(&self) -> &TenantId {
        &self.tenant
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
    use super::*;

    #[test]
    fn a_tenant_holds_so_many_streams_and_no_more_and_other_tenants_are_not_asked() {
        let (slots, tenant) = (StreamSlots::default(), TenantId::default());
        let mut held: Vec<_> =
            (0..STREAMS_PER_TENANT).map(|_| slots.take(&tenant).unwrap()).collect();
        let refused = slots.take(&tenant).unwrap_err();
        assert!(matches!(refused, AgentlingError::TooManyStreams { limit: STREAMS_PER_TENANT }));
        assert!(slots.take(&TenantId::parse("other").unwrap()).is_ok());
        held.pop();
        assert!(slots.take(&tenant).is_ok());
        held.clear();
        assert!(slots.lock().is_empty());
    }
}
