//! A run's events as server-sent events.
//!
//! Every durable event carries its place as `id:`, so `Last-Event-ID` always names something stored;
//! deltas and snapshots carry none. The stream pulls, one event at a time: a slow reader slows only
//! itself, and what piles up of the deltas meanwhile comes as one. A reader that takes nothing at all
//! loses its connection, and nothing else: it comes back where it was.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::Stream;
use serde::Serialize;
use utoipa::ToSchema;

use super::client::Client;
use super::slots::StreamSlot;
use super::view::{EventBook, EventView};
use crate::domain::event::Delta;
use crate::engine::feed::Partial;
use crate::engine::{RunWatch, Seen};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::store::scope;

/// How long a client waits before it connects again: at least the first, and up to the second more, so
/// that those who lose a server together do not come back together.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(2));

/// What had arrived of the reply in flight when a stream began.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Snapshot)]
pub(in crate::http) struct SnapshotView {
    /// The turn, from 1.
    turn: u32,
    /// The attempt, from 1.
    attempt: u32,
    /// Its text so far.
    text: String,
    /// Its thinking so far.
    thinking: String,
}

/// A piece of the reply in flight. An attempt after it starts with nothing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Delta)]
pub(in crate::http) struct DeltaView<'a> {
    /// The turn, from 1.
    turn: u32,
    /// The attempt, from 1.
    attempt: u32,
    /// The piece.
    text: &'a str,
}

struct Source {
    app: AppState,
    watch: RunWatch,
    /// What the events at hand are shown with.
    book: Option<EventBook>,
    /// Who started the run in the same request.
    client: Option<Client>,
    has_begun: bool,
    has_ended: bool,
    slot: StreamSlot,
}

/// The reply: everything behind what the watch was told to start from.
pub(super) fn reply(
    app: AppState,
    watch: RunWatch,
    client: Option<Client>,
    slot: StreamSlot,
) -> Response {
    let keep_alive = KeepAlive::new().interval(slot.limits().keep_alive);
    let source =
        Source { app, watch, book: None, client, has_begun: false, has_ended: false, slot };
    Sse::new(events(source)).keep_alive(keep_alive).into_response()
}

fn events(source: Source) -> impl Stream<Item = Result<Event, Infallible>> {
    let began = source.app.clock.monotonic();
    futures::stream::unfold(source, move |mut source| async move {
        let lived = source.app.clock.monotonic().saturating_sub(began);
        let left = source.slot.limits().lifetime.saturating_sub(lived);
        // The body is read when the request has been answered, and is still its caller's.
        let tenant = source.watch.tenant().clone();
        let next = scope::within(&tenant, tokio::time::timeout(left, source.next())).await;
        // A stream that has lasted long enough ends as one does whose server stops.
        let next = next.unwrap_or_else(|_| source.hang_up())?;
        Some((Ok(next), source))
    })
}

impl Source {
    /// The next event; `None` ends the connection, after the last event or when the database is away: the
    /// client connects again where it was.
    async fn next(&mut self) -> Option<Event> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Event::default().retry(self.retry()).comment("agentling"));
        }
        let tasks = self.app.engine.tasks().clone();
        while !self.has_ended {
            let seen = tokio::select! {
                seen = self.watch.next() => seen,
                () = tasks.stopping() => return self.hang_up(),
            };
            match self.shown(seen) {
                Ok(Some(event)) => return Some(event),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, source = ?error, "a stream was cut; its reader will come back");
                    return self.hang_up();
                }
            }
        }
        self.served();
        None
    }

    /// What a client is told when it is the server that hangs up: when to come back.
    fn hang_up(&mut self) -> Option<Event> {
        self.served();
        let is_over = std::mem::replace(&mut self.has_ended, true);
        (!is_over).then(|| Event::default().retry(self.retry()).comment("come back"))
    }

    fn served(&mut self) {
        if let Some(client) = &mut self.client {
            client.served();
        }
    }

    fn retry(&self) -> Duration {
        let (least, spread) = RETRY;
        let (random, _) = self.app.ids.random().as_u64_pair();
        // The top bits are random.
        least + spread.mul_f64(f64::from(u16::try_from(random >> 48).unwrap_or(0)) / 65_536.0)
    }

    fn shown(
        &mut self,
        seen: Result<Option<Seen>, AgentlingError>,
    ) -> Result<Option<Event>, AgentlingError> {
        Ok(match seen? {
            Some(Seen::Event(told, index)) => {
                let kept = self.book.take().filter(|book| book.is_of(&told));
                let is_last = told.events.len() == index + 1;
                let book = kept.unwrap_or_else(|| EventBook::new(told));
                let event = book.nth(index).as_ref().map(durable);
                // Nothing is held that is not needed again.
                self.book = Some(book).filter(|_| !is_last);
                event
            }
            Some(Seen::Snapshot(partial)) => Some(snapshot(partial)),
            Some(Seen::Delta(delta)) => Some(piece(&delta)),
            None => {
                self.has_ended = true;
                None
            }
        })
    }
}

fn durable(event: &EventView) -> Event {
    Event::default().id(event.id().to_string()).event(event.label()).data(event.data_json())
}

fn snapshot(partial: Partial) -> Event {
    let Partial { turn, attempt, text, thinking } = partial;
    live("snapshot", &SnapshotView { turn, attempt, text, thinking })
}

fn piece(delta: &Delta) -> Event {
    let view = DeltaView { turn: delta.turn, attempt: delta.attempt, text: &delta.text };
    live(delta.kind.label(), &view)
}

fn live(name: &str, data: &impl Serialize) -> Event {
    Event::default().event(name).data(serde_json::to_string(data).unwrap_or_default())
}
