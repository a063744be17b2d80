//! Looks at the store for all who watch a run on this server: one look a commit that is told of, and one
//! every so often for what another server writes.

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::feed::{Hold, State};
use super::replies::Attempt;
use super::told::{Told, tell_some};
use super::window::{Standing, Window};
use crate::domain::event::RunEvent;
use crate::domain::run::Run;
use crate::error::AgentlingError;
use crate::store::deltas::{self, Piece};
use crate::store::events::{self, Known, News};
use crate::store::runs;

/// How often the store is looked at unasked: what another server writes is seen no other way.
pub(super) const POLL: Duration = Duration::from_millis(500);

/// How many events are read at once.
pub(super) const PAGE: u32 = 200;

/// How long it counts that this server watches a run, and when it says so again.
const WATCHED: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_secs(5);

/// Looks at the store for as long as the run is watched.
struct Tail {
    context: Arc<Context>,
    hold: Hold,
    /// What never changes of the run; read once it is there.
    run: Option<Run>,
    /// How far the run is known.
    standing: Standing,
    /// The last attempt of which pieces came from another server, and the next piece of it.
    heard: (Attempt, u32),
    /// When this server last said that it watches.
    said_at: Option<Duration>,
}

/// Lets the store be looked at for a run that is watched, if nobody does so yet.
pub(super) fn follow(context: &Arc<Context>, hold: &Hold) {
    if !hold.begin_tail() {
        return;
    }
    let tail = Tail {
        context: Arc::clone(context),
        hold: hold.again(),
        run: None,
        standing: Standing::default(),
        heard: ((0, 0), 0),
        said_at: None,
    };
    context.tasks.spawn(tail.go());
}

impl Tail {
    async fn go(mut self) {
        let mut commits = self.hold.commits();
        let tasks = self.context.tasks.clone();
        while !tasks.is_stopping() && self.hold.keep_tail() {
            let n_commits = *commits.borrow_and_update();
            if self.look(n_commits).await.unwrap_or_else(not_read) {
                continue;
            }
            tokio::select! {
                () = tasks.stopping() => {}
                _ = commits.changed() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
        self.say_goodbye().await;
    }

    /// Looks once; whether there is more.
    async fn look(&mut self, n_commits: u64) -> Result<bool, AgentlingError> {
        if self.hold.lock().window.is_none() {
            self.begin().await?;
        }
        let piece = self.next_elsewhere().await?;
        let (tenant, id) = self.hold.key();
        let known = Known { event: self.standing.head, piece };
        let News { events, pieces } =
            events::news(self.context.store(), tenant, *id, known, PAGE).await?;
        let n_events = events.len();
        let told = if events.is_empty() { None } else { self.tell(events).await? };
        let n_told = told.as_ref().map_or(0, |told| told.events.len());
        let before = self.standing;
        for event in told.iter().flat_map(|told| &told.events) {
            self.standing.note(event);
        }
        let has_more = n_told < n_events || n_events == usize::try_from(PAGE).unwrap_or(0);
        let pieces = if has_more { Vec::new() } else { self.next_pieces(pieces) };
        let looked = (!has_more).then_some(n_commits);
        self.hold.change(|state| {
            let window = state.window.get_or_insert_with(|| Window::behind(before));
            if let Some(told) = told {
                window.push(Arc::new(told));
            }
            window.looked = looked.unwrap_or(window.looked);
            show(state, &pieces);
        });
        Ok(has_more && n_told > 0)
    }

    /// Reads how far the run has come before it was watched.
    async fn begin(&mut self) -> Result<(), AgentlingError> {
        let (tenant, id) = self.hold.key();
        let events = events::since_turn(self.context.store(), tenant, *id).await?;
        self.standing = Standing::default();
        for event in &events {
            self.standing.note(event);
        }
        Ok(())
    }

    async fn tell(&mut self, events: Vec<RunEvent>) -> Result<Option<Told>, AgentlingError> {
        let (tenant, id) = self.hold.key();
        if self.run.is_none() {
            self.run = runs::get(self.context.store(), tenant, *id).await?;
        }
        let Some(run) = &self.run else { return Ok(None) };
        tell_some(&self.context, tenant, run, events).await.map(Some)
    }

    /// Where pieces from another server go on, when the run may be in the hands of one; that one is told
    /// that it is watched.
    async fn next_elsewhere(&mut self) -> Result<Option<(u32, u32, u32)>, AgentlingError> {
        let is_elsewhere = !self.hold.lock().is_driven();
        if !is_elsewhere || self.standing.head == 0 || self.standing.has_ended {
            return Ok(None);
        }
        let now = self.context.parts.clock.monotonic();
        if self.said_at.is_none_or(|said_at| now.saturating_sub(said_at) >= AGAIN) {
            let (tenant, run) = self.hold.key();
            let (store, server) = (self.context.store(), self.context.server);
            deltas::watch(store, tenant, *run, server, WATCHED).await?;
            self.said_at = Some(now);
        }
        let ((turn, attempt), next) = self.heard;
        Ok(Some((turn, attempt, next)))
    }

    /// Those of some pieces that go on where the last ones ended. Readers do without a reply of which one
    /// was lost.
    fn next_pieces(&mut self, pieces: Vec<Piece>) -> Vec<Piece> {
        // What this server has told itself it does not tell again.
        let current = self.hold.lock().replies.current();
        let mut goes_on = |piece: &Piece| {
            let attempt = (piece.delta.turn, piece.delta.attempt);
            let is_new = attempt != self.heard.0;
            let next = if is_new { 0 } else { self.heard.1 };
            let goes_on = piece.place == next && (!is_new || attempt > current);
            if goes_on {
                self.heard = (attempt, next + 1);
            }
            goes_on
        };
        pieces.into_iter().filter(|piece| goes_on(piece)).collect()
    }

    async fn say_goodbye(&self) {
        if self.said_at.is_some() {
            let (tenant, run) = self.hold.key();
            let (store, server) = (self.context.store(), self.context.server);
            if let Err(error) = deltas::unwatch(store, tenant, *run, server).await {
                tracing::debug!(%error, "a watch is left to run out");
            }
        }
    }
}

/// Readers hear nothing until it passes, and lose nothing.
#[expect(clippy::needless_pass_by_value, reason = "it is what `unwrap_or_else` hands on")]
fn not_read(error: AgentlingError) -> bool {
    tracing::warn!(%error, source = ?error, "a watched run could not be read");
    false
}

/// Shows pieces that came from another server.
fn show(state: &mut State, pieces: &[Piece]) {
    for Piece { delta, .. } in pieces {
        let attempt = (delta.turn, delta.attempt);
        if attempt > state.replies.current() {
            state.replies.begin(attempt, 0);
        }
        if attempt == state.replies.current() {
            state.replies.push(delta.kind, &delta.text);
        }
    }
}
