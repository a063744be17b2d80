//! Where stored keys come from, remembered for a short while.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use crate::domain::id::KeyId;
use crate::error::AgentlingError;
use crate::store::keys::{self, StoredKey};
use crate::store::{Store, StoreError};

/// How long a stored key is remembered: a revoked one stops working within this time.
const REMEMBERED: Duration = Duration::from_secs(30);

/// How many keys are remembered.
const CAPACITY: usize = 10_000;

/// Looks up stored keys.
pub trait KeyLookup: Send + Sync + std::fmt::Debug {
    /// The key with an id.
    fn find(&self, id: KeyId) -> BoxFuture<'_, Result<Option<StoredKey>, StoreError>>;

    /// Whether there is any key.
    fn any(&self) -> BoxFuture<'_, Result<bool, StoreError>>;
}

impl KeyLookup for Store {
    fn find(&self, id: KeyId) -> BoxFuture<'_, Result<Option<StoredKey>, StoreError>> {
        Box::pin(keys::find(self, id))
    }

    fn any(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(keys::any(self))
    }
}

/// A lookup with a memory.
#[derive(Debug)]
pub struct KeySource {
    lookup: Box<dyn KeyLookup>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    keys: BTreeMap<KeyId, (Duration, StoredKey)>,
    /// How often a key was forgotten: what was looked up before may be out of date.
    n_forgotten: u64,
    any: bool,
}

impl KeySource {
    /// Nothing remembered yet.
    pub fn new(lookup: Box<dyn KeyLookup>) -> Self {
        Self { lookup, memory: Mutex::default() }
    }

    /// The key with an id. Only keys that exist are remembered, so guesses fill no memory.
    pub async fn find(
        &self,
        id: KeyId,
        now: Duration,
    ) -> Result<Option<StoredKey>, AgentlingError> {
        let n_forgotten = match self.remembered(id, now) {
            Ok(key) => return Ok(Some(key)),
            Err(n_forgotten) => n_forgotten,
        };
        let found = self.lookup.find(id).await?;
        let mut memory = self.memory();
        memory.keys.remove(&id);
        if memory.keys.len() >= CAPACITY {
            memory.keys.clear();
        }
        if let Some(key) = &found
            && memory.n_forgotten == n_forgotten
        {
            memory.keys.insert(id, (now, key.clone()));
        }
        drop(memory);
        Ok(found)
    }

    /// A key that is remembered; otherwise how often one was forgotten so far.
    fn remembered(&self, id: KeyId, now: Duration) -> Result<StoredKey, u64> {
        let memory = self.memory();
        let known = memory.keys.get(&id).filter(|(at, _)| is_fresh(*at, now));
        known.map(|(_, key)| key.clone()).ok_or(memory.n_forgotten)
    }

    /// Forgets a key that has changed, whoever looks it up just now.
    pub fn forget(&self, id: KeyId) {
        let mut memory = self.memory();
        memory.keys.remove(&id);
        memory.n_forgotten = memory.n_forgotten.wrapping_add(1);
    }

    /// Whether there is any key.
    pub async fn any(&self) -> Result<bool, AgentlingError> {
        // Once there was a key there always was one. That there is none is looked up every time, so that
        // the first key closes a server at once.
        if self.memory().any {
            return Ok(true);
        }
        let any = self.lookup.any().await?;
        self.memory().any = any;
        Ok(any)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_fresh(at: Duration, now: Duration) -> bool {
    now.saturating_sub(at) < REMEMBERED
}
