//! A run is given back before it has ended.

use std::time::Duration;

use super::Driver;
use crate::domain::fault::Fault;
use crate::engine::journal::Stamp;
use crate::machine::effect::Effect;
use crate::store::StoreError;
use crate::store::journal::{self, Appended};
use crate::store::lease::{self, Claim};

/// How long a run that is given back waits for its last requests to be recorded.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl Driver {
    /// Gives the run back to the queue at a boundary; calls in flight are dropped, and the next claim
    /// decides about them by their effect class. A model that is hung up on was asked all the same.
    pub(super) async fn give_back(&mut self) -> Result<(), StoreError> {
        self.effects.clear();
        let abandoned = self.performer.abandoned().await;
        self.sent.extend(abandoned.map(|sent| sent.entry));
        self.record_sent().await;
        let (store, Claim { tenant, run, token, .. }) = (self.context.store(), &self.claim);
        let is_call = |effect: &Effect| matches!(effect, Effect::CallTool { .. });
        if self.running.iter().any(is_call) {
            lease::abandon(store, tenant, (*run, *token), Fault::Drained).await?;
        } else {
            lease::release(store, tenant, *run, *token).await?;
        }
        self.context.claimable();
        Ok(())
    }

    /// Puts on record what was sent and leads to no step here. The run is given back whether that
    /// succeeds or not.
    async fn record_sent(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let parts = &self.context.parts;
        let (now, ids) = (parts.clock.now(), parts.ids.as_ref());
        let stamp = Stamp { now, ids, heard: None, sent: &self.sent };
        let (mut batch, _) = self.journal.plan(&[], &stamp);
        // A cancel is for whoever takes the run next, and nothing of a budget is asked for.
        (batch.despite_cancel, batch.draws.is_budgeted) = (true, true);
        let guard = self.guard();
        let appended = Box::pin(journal::append(self.context.store(), &guard, &batch));
        let appended = tokio::time::timeout(LAST_WORDS, appended).await;
        if !matches!(appended, Ok(Ok(Appended::Stored))) {
            tracing::warn!(run = %self.claim.run, ?appended, "requests were not recorded");
        }
    }
}
