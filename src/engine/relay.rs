//! Passes pieces of replies on to readers on other servers, through the database and only while there are
//! any: nobody who is not watched pays for it.

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::feed::{Hold, Publisher};
use super::replies::{Attempt, END, Place, Span};
use crate::domain::event::DeltaKind;
use crate::store::{StoreError, deltas, scope};

/// How often pieces are passed on.
const TICK: Duration = Duration::from_millis(150);

/// Every how many ticks it is asked which runs are watched.
const ASK: u32 = 3;

/// What was passed on of a run's replies.
#[derive(Debug, Default)]
pub(super) struct Relayed {
    place: Place,
    /// How many pieces of that reply.
    n_pieces: u32,
    /// The last reply that others do without, because a piece of it was lost.
    lost: Attempt,
}

/// Passes on what comes up, until the server stops.
pub(super) async fn relay_loop(context: Arc<Context>) {
    let mut ticks = 0_u32;
    while !context.tasks.is_stopping() {
        tokio::select! {
            () = context.tasks.stopping() => return,
            () = tokio::time::sleep(TICK) => {}
        }
        let flying = context.feed.in_flight();
        if ticks.is_multiple_of(ASK) {
            ask(&context, &flying).await.unwrap_or_else(not_asked);
        }
        ticks = if flying.is_empty() { 0 } else { ticks.wrapping_add(1) };
        for hold in flying {
            pass_on(&context, &hold).await;
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `unwrap_or_else` hands on")]
fn not_asked(error: StoreError) {
    tracing::debug!(%error, "who watches elsewhere could not be read");
}

/// Learns which of the replies are watched from other servers.
async fn ask(context: &Context, flying: &[Hold]) -> Result<(), StoreError> {
    if flying.is_empty() {
        return Ok(());
    }
    let runs: Vec<_> = flying.iter().map(|hold| hold.key().clone()).collect();
    let watched = deltas::watched(context.store(), &runs, context.server).await?;
    for hold in flying {
        hold.watched_elsewhere(watched.contains(&hold.key().1));
    }
    Ok(())
}

/// The reply in flight has arrived to its end. Readers on other servers have all of it before the step is
/// committed that holds it.
pub(super) async fn arrived(context: &Context, publisher: &Publisher) {
    publisher.arrived();
    pass_on(context, publisher.hold()).await;
}

/// Passes on what was not yet, one after the other.
async fn pass_on(context: &Context, hold: &Hold) {
    if !hold.is_watched_elsewhere() {
        return;
    }
    let mut relayed = hold.relayed().lock().await;
    while let Some(Unsent { attempt, pieces, place }) = unsent(hold, &relayed) {
        let first = if attempt == relayed.place.attempt { relayed.n_pieces } else { 0 };
        let (tenant, run) = hold.key();
        let stored = deltas::append(context.store(), tenant, *run, (attempt, first), &pieces);
        if let Err(error) = scope::within(tenant, stored).await {
            tracing::debug!(%run, %error, "readers on other servers do without a reply");
            relayed.lost = attempt;
        }
        let n_new = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        (relayed.place, relayed.n_pieces) = (place, first.saturating_add(n_new));
    }
}

/// Pieces of one attempt that were not passed on, and the place behind them.
struct Unsent {
    attempt: Attempt,
    pieces: Vec<(DeltaKind, String)>,
    place: Place,
}

fn unsent(hold: &Hold, relayed: &Relayed) -> Option<Unsent> {
    let state = hold.lock();
    let replies = &state.replies;
    let after = replies.over().max(relayed.lost);
    let mut place = relayed.place;
    let first = replies.take(&mut place, Span { after, until: END, since: u64::MAX })?;
    let attempt = (first.turn, first.attempt);
    let mut pieces = vec![(first.kind, first.text)];
    let same = Span { after, until: attempt, since: u64::MAX };
    while let Some(next) = replies.take(&mut place, same) {
        pieces.push((next.kind, next.text));
    }
    Some(Unsent { attempt, pieces, place })
}
