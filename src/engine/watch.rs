//! Watching a run: durable events from the store, deltas from the feed, in one order.

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::feed::{Partial, State, Watch};
use super::replies::{Attempt, END, Place, Span};
use super::tail::{self, PAGE, POLL};
use super::told::{Told, announces, closes, tell_some};
use super::window::{Next, Standing};
use crate::domain::event::Delta;
use crate::domain::id::{RunId, TenantId};
use crate::domain::page::PageRequest;
use crate::domain::run::Run;
use crate::error::AgentlingError;
use crate::store::{events, runs};

/// How long the first look at a run may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much of what was read for readers that lag is kept for the next of them.
const SHARED: usize = 4;

/// What a watcher sees next.
#[derive(Debug, Clone)]
pub enum Seen {
    /// A durable event, by its place among those it is told with.
    Event(Arc<Told>, usize),
    /// What had arrived of the reply in flight when the watch began.
    Snapshot(Partial),
    /// A piece of the reply in flight.
    Delta(Delta),
}

/// A watch of one run. What it holds is what is to be seen next, however slow its reader is.
#[derive(Debug)]
pub struct RunWatch {
    context: Arc<Context>,
    live: Watch,
    /// The event that comes next, where it is known.
    next: Option<(Arc<Told>, usize)>,
    /// The last durable event handed out.
    after: i64,
    /// How far deltas were handed out.
    place: Place,
    /// The last attempt whose deltas are over.
    closed: Attempt,
    /// The last attempt whose beginning was handed out: of it nothing can have been missed.
    announced: Attempt,
    /// The attempt whose reply was on its way when the watch began: it is shown as far as it had come.
    missed: Attempt,
    has_ended: bool,
}

impl RunWatch {
    /// Whose run it is.
    pub fn tenant(&self) -> &TenantId {
        &self.live.hold().key().0
    }

    pub(super) fn new(context: Arc<Context>, tenant: &TenantId, run: RunId) -> Self {
        let live = context.feed.watch(tenant, run);
        tail::follow(&context, live.hold());
        Self {
            context,
            live,
            next: None,
            after: 0,
            place: Place::default(),
            closed: (0, 0),
            announced: (0, 0),
            missed: (0, 0),
            has_ended: false,
        }
    }

    /// Goes on behind an event that the watcher has seen, or from the beginning, in a run that was there
    /// before the watch.
    ///
    /// # Errors
    /// When there is no such run or event, or the database does not answer.
    pub async fn behind(mut self, after: Option<i64>) -> Result<Self, AgentlingError> {
        self.after = after.unwrap_or(0);
        let tasks = self.context.tasks.clone();
        let standing = tokio::select! {
            standing = self.join() => standing?,
            // The watcher is sent elsewhere at once.
            () = tasks.stopping() => return Ok(self),
        };
        if standing.head == 0 {
            return Err(AgentlingError::NotFound { kind: "run" });
        }
        if standing.head < self.after {
            return Err(AgentlingError::StreamCursorAhead { last: standing.head });
        }
        self.has_ended = standing.has_ended && standing.head == self.after && after.is_some();
        let state = self.live.hold().lock();
        self.closed = standing.closed.max(state.replies.over());
        if state.replies.current() > self.closed {
            self.missed = state.replies.current();
        } else if state.is_driven() {
            // Nothing has arrived yet of a reply that only this server can tell of.
            self.announced = standing.announced;
        }
        drop(state);
        Ok(self)
    }

    /// How far the run has come, by a look that is fresh where the watcher has seen more than the last one.
    async fn join(&mut self) -> Result<Standing, AgentlingError> {
        let standing = self.standing(0).await?;
        if standing.head >= self.after.max(1) {
            return Ok(standing);
        }
        let wanted = *self.live.hold().commits().borrow() + 1;
        self.live.hold().look();
        self.standing(wanted).await
    }

    /// How far the run has come, by a look after so many commits.
    async fn standing(&mut self, n_commits: u64) -> Result<Standing, AgentlingError> {
        // When the database is slow to answer, others wait for it already.
        let known = tokio::time::timeout(PATIENCE, self.looked(n_commits)).await;
        known.map_err(|_| AgentlingError::Overloaded)
    }

    async fn looked(&mut self, n_commits: u64) -> Standing {
        loop {
            self.live.note();
            if let Some(standing) = self.known(n_commits) {
                return standing;
            }
            self.live.changed().await;
        }
    }

    fn known(&self, n_commits: u64) -> Option<Standing> {
        let state = self.live.hold().lock();
        let window = state.window.as_ref().filter(|window| window.looked >= n_commits);
        window.map(|window| window.standing)
    }

    /// What comes next; `None` after the event that ends the run.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn next(&mut self) -> Result<Option<Seen>, AgentlingError> {
        while !self.has_ended {
            self.live.note();
            if self.next.is_none() {
                self.next = self.read().await?;
            }
            // What belongs before the next event comes first.
            if let Some(seen) = self.piece().or_else(|| self.event()) {
                return Ok(Some(seen));
            }
            self.live.changed().await;
        }
        Ok(None)
    }

    /// The next durable event, when there is one.
    async fn read(&mut self) -> Result<Option<(Arc<Told>, usize)>, AgentlingError> {
        let next = {
            let state = self.live.hold().lock();
            state.window.as_ref().map_or(Next::None, |window| window.after(self.after))
        };
        match next {
            Next::None => Ok(None),
            Next::Here(told, index) => Ok(Some((told, index))),
            Next::Stored => self.stored().await,
        }
    }

    /// Events that a reader lags too far behind to find in the window.
    async fn stored(&self) -> Result<Option<(Arc<Told>, usize)>, AgentlingError> {
        let mut shared = self.live.hold().stored().lock().await;
        let mut known = shared.iter();
        let found = known.find_map(|told| Some((Arc::clone(told), told.after(self.after)?)));
        if found.is_some() {
            return Ok(found);
        }
        let told = Arc::new(self.load().await?);
        shared.push_back(Arc::clone(&told));
        if shared.len() > SHARED {
            shared.pop_front();
        }
        Ok(Some((told, 0)))
    }

    async fn load(&self) -> Result<Told, AgentlingError> {
        let (store, (tenant, id)) = (self.context.store(), self.live.hold().key());
        let page = PageRequest { limit: PAGE, after: Some(self.after) };
        let found = events::list(store, tenant, *id, &page).await?.items;
        let run = runs::get(store, tenant, *id).await?.filter(|_| !found.is_empty());
        let run = run.ok_or(AgentlingError::NotFound { kind: "run" })?;
        tell_some(&self.context, tenant, &run, found).await
    }

    /// The next piece of a reply that belongs before the next event.
    fn piece(&mut self) -> Option<Seen> {
        let state = self.live.hold().lock();
        let span = self.span(&state)?;
        let mut place = self.place;
        let delta = state.replies.take(&mut place, span)?;
        let attempt = (delta.turn, delta.attempt);
        let is_whole = attempt == self.announced && attempt != self.missed;
        if attempt != self.place.attempt && !is_whole {
            let (partial, place) = state.replies.so_far(attempt)?;
            self.place = place;
            return Some(Seen::Snapshot(partial));
        }
        self.place = place;
        Some(Seen::Delta(delta))
    }

    /// Which replies come before the next event, or, where that is not there yet, of which attempts the
    /// watcher has seen the beginning.
    fn span(&self, state: &State) -> Option<Span> {
        let after = self.closed;
        if let Some((told, index)) = &self.next {
            let until = told.events.get(*index).map(closes)?;
            return Some(Span { after, until, since: u64::MAX });
        }
        let window = state.window.as_ref()?;
        let is_up_to_date = window.standing.head <= self.after;
        is_up_to_date.then_some(Span { after, until: END, since: window.looked })
    }

    fn event(&mut self) -> Option<Seen> {
        let (told, index) = self.next.take()?;
        let event = told.events.get(index)?;
        self.after = event.seq;
        if !event.name.is_last() {
            self.closed = self.closed.max(closes(event));
        }
        self.announced = announces(event).unwrap_or(self.announced);
        let is_last = event.name.is_last();
        if told.events.len() > index + 1 {
            self.next = Some((Arc::clone(&told), index + 1));
        } else {
            let state = self.live.hold().lock();
            let head = state.window.as_ref().map_or(0, |window| window.standing.head);
            // A run that was interrupted and resumed goes on behind its last event so far.
            self.has_ended = is_last && head <= self.after;
        }
        Some(Seen::Event(told, index))
    }
}

pub(super) async fn wait(
    context: &Arc<Context>,
    tenant: &TenantId,
    run: RunId,
    at_most: Duration,
) -> Result<Option<Run>, AgentlingError> {
    let mut commits = context.feed.commits(tenant, run);
    let settled = async {
        loop {
            let found = runs::get(context.store(), tenant, run).await?;
            if found.as_ref().is_none_or(|run| !run.facts.status.is_under_way()) {
                return Ok(found);
            }
            // Deltas are no reason to look; a commit is, and so is the poll.
            drop(tokio::time::timeout(POLL, commits.next()).await);
        }
    };
    // A caller is not kept waiting by a server that is about to go: the run goes on elsewhere.
    tokio::select! {
        found = settled => found,
        () = tokio::time::sleep(at_most) => Ok(runs::get(context.store(), tenant, run).await?),
        () = context.tasks.stopping() => Ok(runs::get(context.store(), tenant, run).await?),
    }
}
