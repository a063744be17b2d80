//! Watching a run: durable events from the store, deltas from the feed, in one order.

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::feed::{Live, Partial, Watch};
use crate::domain::event::{Delta, EventData, EventName, RunEvent};
use crate::domain::id::{RunId, TenantId};
use crate::domain::page::PageRequest;
use crate::domain::run::Run;
use crate::error::AgentlingError;
use crate::store::{events, runs};

/// How often the store is looked at unasked: what another process writes is seen no other way.
const POLL: Duration = Duration::from_millis(500);

/// How many events are read at once.
const PAGE: u32 = 200;

/// What a watcher sees next.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// Durable events, in order.
    Events(Vec<RunEvent>),
    /// What had arrived of the reply in flight when the watch began.
    Snapshot(Partial),
    /// A piece of the reply in flight.
    Delta(Delta),
}

/// A watch of one run.
#[derive(Debug)]
pub struct RunWatch {
    context: Arc<Context>,
    tenant: TenantId,
    run: RunId,
    live: Watch,
    snapshot: Option<Partial>,
    /// The last durable event handed out.
    after: i64,
    /// Whether the store has to be looked at before anything else.
    is_behind: bool,
    /// The last turn and attempt whose deltas are over.
    closed: (u32, u32),
    has_ended: bool,
}

impl RunWatch {
    pub(super) fn new(context: Arc<Context>, tenant: TenantId, run: RunId) -> Self {
        let (snapshot, live) = begin(&context, &tenant, run);
        Self {
            context,
            tenant,
            run,
            live,
            snapshot,
            after: 0,
            is_behind: true,
            closed: (0, 0),
            has_ended: false,
        }
    }

    /// Starts behind a durable event that the watcher has seen.
    #[must_use]
    pub const fn after(mut self, seq: i64) -> Self {
        self.after = seq;
        self
    }

    /// Has nothing more to say: the watcher has seen the event that ends the run.
    #[must_use]
    pub const fn over(mut self) -> Self {
        self.has_ended = true;
        self
    }

    /// What comes next; `None` after the event that ends the run.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn next(&mut self) -> Result<Option<Seen>, AgentlingError> {
        loop {
            if self.has_ended {
                return Ok(None);
            }
            let events = if self.is_behind { self.read().await? } else { Vec::new() };
            if !events.is_empty() {
                return Ok(Some(Seen::Events(events)));
            }
            if let Some(partial) = self.snapshot.take()
                && (partial.turn, partial.attempt) > self.closed
            {
                return Ok(Some(Seen::Snapshot(partial)));
            }
            match tokio::time::timeout(POLL, self.live.next()).await {
                Ok(Live::Delta(delta)) if self.is_open(&delta) => {
                    return Ok(Some(Seen::Delta(delta)));
                }
                Ok(Live::Delta(_)) => {}
                Ok(Live::Committed) | Err(_) => self.is_behind = true,
                // What was lost of the reply in flight comes back as a whole.
                Ok(Live::Lagged) => {
                    (self.snapshot, self.live) = begin(&self.context, &self.tenant, self.run);
                    self.is_behind = true;
                }
            }
        }
    }

    /// Deltas that were sent before a durable event the watcher has already seen say nothing new.
    fn is_open(&self, delta: &Delta) -> bool {
        (delta.turn, delta.attempt) > self.closed
    }

    async fn read(&mut self) -> Result<Vec<RunEvent>, AgentlingError> {
        let page = PageRequest { limit: PAGE, after: Some(self.after) };
        let found = events::list(&self.context.parts.store, &self.tenant, self.run, &page).await?;
        self.is_behind = found.next.is_some();
        for event in &found.items {
            self.note(event);
        }
        Ok(found.items)
    }

    fn note(&mut self, event: &RunEvent) {
        self.after = event.seq;
        match &event.data {
            EventData::Turn { turn, attempt, .. } => {
                self.closed = self.closed.max((*turn, attempt.saturating_sub(1)));
            }
            EventData::Call { turn, .. } | EventData::Step { turn, .. } => {
                self.closed = self.closed.max((*turn, u32::MAX));
            }
            EventData::Run(_) | EventData::Budget(_) => {}
        }
        self.has_ended = event.name.is_last();
        // A run that was interrupted and resumed goes on behind its last event so far.
        if event.name == EventName::RunResumed {
            self.has_ended = false;
        }
    }
}

/// A watch from now on, and what had arrived of the reply in flight.
fn begin(context: &Context, tenant: &TenantId, run: RunId) -> (Option<Partial>, Watch) {
    let (partial, live) = context.feed.watch(tenant, run);
    ((partial.turn > 0).then_some(partial), live)
}

async fn commit(live: &mut Watch) {
    while matches!(live.next().await, Live::Delta(_)) {}
}

pub(super) async fn wait(
    context: &Arc<Context>,
    tenant: &TenantId,
    run: RunId,
    at_most: Duration,
) -> Result<Option<Run>, AgentlingError> {
    let (_, mut live) = context.feed.watch(tenant, run);
    let ended = async {
        loop {
            let found = runs::get(context.store(), tenant, run).await?;
            if found.as_ref().is_none_or(|run| run.facts.status.is_at_rest()) {
                return Ok(found);
            }
            // Deltas are no reason to look; a commit is, and so is the poll.
            drop(tokio::time::timeout(POLL, commit(&mut live)).await);
        }
    };
    // A caller is not kept waiting by a server that is about to go: the run goes on elsewhere.
    tokio::select! {
        found = ended => found,
        () = tokio::time::sleep(at_most) => Ok(runs::get(context.store(), tenant, run).await?),
        () = context.tasks.stopping() => Ok(runs::get(context.store(), tenant, run).await?),
    }
}
