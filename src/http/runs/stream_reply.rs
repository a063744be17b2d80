//! A run's events as server-sent events.
//!
//! Every durable event carries its place as `id:`, so `Last-Event-ID` always names something stored;
//! deltas and snapshots carry none. The stream pulls: a slow reader slows only itself, and what it
//! misses of the deltas is in the step that follows.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::Stream;
use serde::Serialize;
use utoipa::ToSchema;

use super::events::views;
use super::slots::StreamSlot;
use super::view::EventView;
use crate::domain::event::Delta;
use crate::domain::id::TenantId;
use crate::domain::run::Run;
use crate::engine::feed::Partial;
use crate::engine::{RunWatch, Seen};
use crate::error::AgentlingError;
use crate::http::AppState;

/// How often a silent stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a connection may last; the client then connects again and loses nothing.
const LIFETIME: Duration = Duration::from_mins(30);

/// How long a client waits before it connects again.
const RETRY: Duration = Duration::from_secs(1);

/// What had arrived of the reply in flight when a stream began.
#[derive(Debug, Serialize, ToSchema)]
struct SnapshotView {
    turn: u32,
    attempt: u32,
    text: String,
    thinking: String,
}

#[derive(Debug, Serialize)]
struct DeltaView<'a> {
    turn: u32,
    attempt: u32,
    text: &'a str,
}

struct Source {
    app: AppState,
    tenant: TenantId,
    run: Run,
    watch: RunWatch,
    queue: VecDeque<Event>,
    has_begun: bool,
    _slot: StreamSlot,
}

/// The reply: everything behind what the watch was told to start from.
pub(super) fn reply(app: AppState, run: Run, watch: RunWatch, slot: StreamSlot) -> Response {
    let (tenant, queue) = (slot.tenant().clone(), VecDeque::new());
    let source = Source { app, tenant, run, watch, queue, has_begun: false, _slot: slot };
    Sse::new(events(source)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

fn events(source: Source) -> impl Stream<Item = Result<Event, Infallible>> {
    let began = source.app.clock.monotonic();
    futures::stream::unfold(source, move |mut source| async move {
        let lived = source.app.clock.monotonic().saturating_sub(began);
        let left = LIFETIME.saturating_sub(lived);
        let next = tokio::time::timeout(left, source.next()).await.ok().flatten()?;
        Some((Ok(next), source))
    })
}

impl Source {
    /// The next event; `None` ends the connection, after the last event or when the server stops or
    /// the database is away: the client connects again where it was.
    async fn next(&mut self) -> Option<Event> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Event::default().retry(RETRY).comment("agentling"));
        }
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            let tasks = self.app.engine.tasks().clone();
            let seen = tokio::select! {
                seen = self.watch.next() => seen,
                () = tasks.stopping() => return None,
            };
            self.queue_up(seen).await?;
        }
    }

    async fn queue_up(&mut self, seen: Result<Option<Seen>, AgentlingError>) -> Option<()> {
        match seen {
            Ok(Some(Seen::Events(events))) => {
                let AppState { engine, store, .. } = &self.app;
                let found = views(engine, store, &self.tenant, (&self.run, &events)).await;
                let found = found.map_err(|error| interrupted(&error)).ok()?;
                self.queue.extend(found.iter().map(durable));
            }
            Ok(Some(Seen::Snapshot(partial))) => self.queue.push_back(snapshot(partial)),
            Ok(Some(Seen::Delta(delta))) => self.queue.push_back(piece(&delta)),
            Ok(None) => return None,
            Err(error) => {
                interrupted(&error);
                return None;
            }
        }
        Some(())
    }
}

fn interrupted(error: &AgentlingError) {
    tracing::warn!(%error, source = ?error, "a stream was cut; its reader will come back");
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
