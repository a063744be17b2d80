//! Live updates inside one process: deltas as they arrive, and a hint that something was committed.
//!
//! Watchers get what callers may read; the reply as it really arrived stays with the writer.
//!
//! What is durable is read from the store; the feed only says when to look and carries what is never
//! stored. Losing all of it changes latency and deltas, nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use crate::domain::event::{Delta, DeltaKind};
use crate::domain::id::{RunId, TenantId};
use crate::domain::redaction::RedactionChannel::Api;
use crate::render::redact::{Redactor, StreamRedactor};

/// How many updates a slow watcher may lag behind before it has to look at the store instead.
const BACKLOG: usize = 256;

/// Something a watcher of a run learns at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// A piece of the reply in flight.
    Delta(Delta),
    /// Something was committed: look at the store.
    Committed,
    /// The watcher lagged so far behind that updates were lost: begin again.
    Lagged,
}

/// The reply in flight, as far as it has arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partial {
    /// The turn.
    pub turn: u32,
    /// The attempt.
    pub attempt: u32,
    /// Its text.
    pub text: String,
    /// Its thinking.
    pub thinking: String,
}

impl Partial {
    fn append(&mut self, kind: DeltaKind, text: &str) {
        match kind {
            DeltaKind::Text => self.text.push_str(text),
            DeltaKind::Thinking => self.thinking.push_str(text),
            DeltaKind::ToolCall => {}
        }
    }
}

type Key = (TenantId, RunId);

#[derive(Debug)]
struct Channel {
    sender: broadcast::Sender<Live>,
    in_flight: Mutex<InFlight>,
}

/// The reply in flight as it arrived, and as it was shown.
#[derive(Debug, Default)]
struct InFlight {
    arrived: Partial,
    shown: Partial,
    /// What redacts the pieces, by kind: pieces of one kind go on after those of another.
    redacting: BTreeMap<DeltaKind, StreamRedactor>,
}

impl InFlight {
    fn begin(turn: u32, attempt: u32) -> Self {
        let partial = Partial { turn, attempt, ..Partial::default() };
        Self { arrived: partial.clone(), shown: partial, redacting: BTreeMap::new() }
    }

    /// Shows a piece to watchers.
    fn show(&mut self, sender: &broadcast::Sender<Live>, kind: DeltaKind, text: String) {
        if text.is_empty() {
            return;
        }
        self.shown.append(kind, &text);
        let Partial { turn, attempt, .. } = self.shown;
        // No one may be watching; that is no failure.
        drop(sender.send(Live::Delta(Delta { turn, attempt, kind, text })));
    }

    /// Shows what was held back because it might have been the beginning of something.
    fn show_rest(&mut self, sender: &broadcast::Sender<Live>) {
        for (kind, stream) in std::mem::take(&mut self.redacting) {
            self.show(sender, kind, stream.finish());
        }
    }
}

/// The feeds of all runs that someone writes or watches.
#[derive(Debug, Clone, Default)]
pub struct Feed {
    channels: Arc<Mutex<BTreeMap<Key, Arc<Channel>>>>,
}

impl Feed {
    /// Opens a run's feed, to write to it.
    pub fn publisher(&self, tenant: &TenantId, run: RunId) -> Publisher {
        let redactor = Arc::new(Redactor::none());
        Publisher { hold: self.open(tenant, run), redactor, is_json: false }
    }

    /// Watches a run from now on. What had arrived of the reply in flight is in the answer; everything
    /// after it comes through the watch.
    pub fn watch(&self, tenant: &TenantId, run: RunId) -> (Partial, Watch) {
        let hold = self.open(tenant, run);
        // Under the lock of the partial reply no delta can slip between the copy and the watch.
        let in_flight = hold.lock();
        let receiver = hold.channel.sender.subscribe();
        let copy = in_flight.shown.clone();
        drop(in_flight);
        (copy, Watch { receiver, _hold: hold })
    }

    /// Tells the watchers of a run, or of every run, that something may have been committed elsewhere.
    pub(crate) fn look(&self, run: Option<RunId>) {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let meant = channels.iter().filter(|((_, id), _)| run.is_none_or(|run| run == *id));
        for (_, channel) in meant {
            // No one may be watching; that is no failure.
            drop(channel.sender.send(Live::Committed));
        }
    }

    fn open(&self, tenant: &TenantId, run: RunId) -> Hold {
        let key = (tenant.clone(), run);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = channels.entry(key.clone()).or_insert_with(|| {
            Arc::new(Channel {
                sender: broadcast::Sender::new(BACKLOG),
                in_flight: Mutex::new(InFlight::default()),
            })
        });
        Hold { channel: Arc::clone(channel), key, feed: self.clone() }
    }
}

/// Keeps a channel in the map for as long as someone uses it.
#[derive(Debug)]
struct Hold {
    channel: Arc<Channel>,
    key: Key,
    feed: Feed,
}

impl Hold {
    fn lock(&self) -> MutexGuard<'_, InFlight> {
        self.channel.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut channels = self.feed.channels.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's own reference and this one: no one else is left.
        if Arc::strong_count(&self.channel) == 2 {
            channels.remove(&self.key);
        }
    }
}

/// The writing end of a run's feed.
#[derive(Debug)]
pub struct Publisher {
    hold: Hold,
    redactor: Arc<Redactor>,
    is_json: bool,
}

impl Publisher {
    /// The same, showing only what callers may read. `is_json` says whether text is to be JSON.
    #[must_use]
    pub fn redacting(self, redactor: Arc<Redactor>, is_json: bool) -> Self {
        Self { redactor, is_json, ..self }
    }

    /// A piece of the reply in flight.
    pub fn delta(&self, delta: &Delta) {
        let mut in_flight = self.hold.lock();
        let sender = &self.hold.channel.sender;
        let Partial { turn, attempt, .. } = in_flight.arrived;
        if (turn, attempt) != (delta.turn, delta.attempt) {
            *in_flight = InFlight::begin(delta.turn, delta.attempt);
        }
        in_flight.arrived.append(delta.kind, &delta.text);
        if self.is_withheld(delta.kind) {
            return;
        }
        let begin = || StreamRedactor::new(Arc::clone(&self.redactor), Api);
        let shown = in_flight.redacting.entry(delta.kind).or_insert_with(begin).push(&delta.text);
        in_flight.show(sender, delta.kind, shown);
    }

    /// Members of JSON are not recognised in pieces, so JSON in which one may be redacted is shown when
    /// it is complete. So are arguments in which a pattern may match what an escape hides.
    fn is_withheld(&self, kind: DeltaKind) -> bool {
        let (fields, patterns) = (self.redactor.has_fields(Api), self.redactor.has_patterns(Api));
        match kind {
            DeltaKind::ToolCall => fields || patterns,
            DeltaKind::Text => self.is_json && fields,
            DeltaKind::Thinking => false,
        }
    }

    /// The reply in flight has arrived to its end, or breaks off here.
    pub fn arrived(&self) {
        self.hold.lock().show_rest(&self.hold.channel.sender);
    }

    /// Something was committed. No commit falls into the middle of a reply that goes on: it completes
    /// the reply in flight or voids it.
    pub fn committed(&self) {
        let mut in_flight = self.hold.lock();
        *in_flight = InFlight::default();
        drop(self.hold.channel.sender.send(Live::Committed));
    }

    /// The reply in flight, as far as it has arrived.
    pub fn partial(&self) -> Partial {
        self.hold.lock().arrived.clone()
    }
}

/// The reading end of a run's feed.
#[derive(Debug)]
pub struct Watch {
    receiver: broadcast::Receiver<Live>,
    _hold: Hold,
}

impl Watch {
    /// The next update.
    pub async fn next(&mut self) -> Live {
        match self.receiver.recv().await {
            Ok(live) => live,
            Err(broadcast::error::RecvError::Lagged(_)) => Live::Lagged,
            // Nobody writes any more, which the hold rules out; waiting is then the poll's business.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::redact::{PlaceholderKey, RuleSet};
    use uuid::Uuid;

    fn delta(text: &str) -> Delta {
        Delta { turn: 1, attempt: 1, kind: DeltaKind::Text, text: text.to_owned() }
    }

    #[tokio::test]
    async fn a_late_watcher_gets_what_had_arrived_and_then_the_rest() {
        let (feed, tenant, run) = (Feed::default(), TenantId::default(), RunId::from(Uuid::nil()));
        let publisher = feed.publisher(&tenant, run);
        publisher.delta(&delta("Hel"));
        let (partial, mut watch) = feed.watch(&tenant, run);
        publisher.delta(&delta("lo"));
        assert_eq!(partial.text, "Hel");
        assert_eq!(watch.next().await, Live::Delta(delta("lo")));
    }

    #[tokio::test]
    async fn a_watcher_that_lags_is_told_to_begin_again() {
        let (feed, tenant, run) = (Feed::default(), TenantId::default(), RunId::from(Uuid::nil()));
        let publisher = feed.publisher(&tenant, run);
        let (_, mut watch) = feed.watch(&tenant, run);
        for _ in 0..=BACKLOG {
            publisher.delta(&delta("x"));
        }
        assert_eq!(watch.next().await, Live::Lagged);
    }

    #[tokio::test]
    async fn watchers_see_redacted_pieces_and_the_writer_the_reply() {
        let (feed, tenant, run) = (Feed::default(), TenantId::default(), RunId::from(Uuid::nil()));
        let key = PlaceholderKey::of(&[1; 32], "t");
        let redactor = Arc::new(Redactor::new([&RuleSet::secrets(["hunter22"])], key));
        let shown = redactor.text(Api, "hunter22").into_owned();
        let publisher = feed.publisher(&tenant, run).redacting(redactor, false);
        let (_, mut watch) = feed.watch(&tenant, run);
        publisher.delta(&delta("is hun"));
        publisher.delta(&delta("ter22"));
        publisher.delta(&delta(", hun"));
        let (partial, _) = feed.watch(&tenant, run);
        assert_eq!(partial.text, format!("is {shown}, "));
        assert_eq!(publisher.partial().text, "is hunter22, hun");
        publisher.arrived();
        for piece in ["is ", &shown, ", ", "hun"] {
            assert_eq!(watch.next().await, Live::Delta(delta(piece)));
        }
    }

    #[test]
    fn a_value_is_found_though_pieces_of_another_kind_come_between() {
        let (feed, tenant, run) = (Feed::default(), TenantId::default(), RunId::from(Uuid::nil()));
        let key = PlaceholderKey::of(&[1; 32], "t");
        let redactor = Arc::new(Redactor::new([&RuleSet::secrets(["hunter22"])], key));
        let shown = redactor.text(Api, "hunter22").into_owned();
        let publisher = feed.publisher(&tenant, run).redacting(redactor, false);
        publisher.delta(&delta("hun"));
        publisher.delta(&Delta { kind: DeltaKind::Thinking, ..delta("so") });
        publisher.delta(&delta("ter22"));
        publisher.arrived();
        let (partial, _) = feed.watch(&tenant, run);
        assert_eq!((partial.text, partial.thinking), (shown, "so".to_owned()));
    }

    #[tokio::test]
    async fn arguments_are_withheld_where_a_pattern_may_match_them() {
        let (feed, tenant, run) = (Feed::default(), TenantId::default(), RunId::from(Uuid::nil()));
        let rule = serde_json::json!([{ "kind": "pattern", "name": "p", "pattern": "sk-[a-z]+" }]);
        let rules = RuleSet::of(&serde_json::from_value::<Vec<_>>(rule).unwrap());
        let redactor = Arc::new(Redactor::new([&rules], PlaceholderKey::of(&[1; 32], "t")));
        let publisher = feed.publisher(&tenant, run).redacting(redactor, false);
        let (_, mut watch) = feed.watch(&tenant, run);
        publisher.delta(&Delta { kind: DeltaKind::ToolCall, ..delta(r#"{"a":"sk\u002dab"}"#) });
        publisher.arrived();
        publisher.committed();
        assert_eq!(watch.next().await, Live::Committed);
    }

    #[test]
    fn a_channel_is_gone_with_its_last_user() {
        let (feed, tenant, run) = (Feed::default(), TenantId::default(), RunId::from(Uuid::nil()));
        let publisher = feed.publisher(&tenant, run);
        let watch = feed.watch(&tenant, run);
        drop(publisher);
        assert_eq!(feed.channels.lock().unwrap().len(), 1);
        drop(watch);
        assert!(feed.channels.lock().unwrap().is_empty());
    }

    #[test]
    fn runs_of_different_tenants_do_not_hear_each_other() {
        let (feed, run) = (Feed::default(), RunId::from(Uuid::nil()));
        let publisher = feed.publisher(&TenantId::default(), run);
        publisher.delta(&delta("secret"));
        let (partial, _watch) = feed.watch(&TenantId::parse("other").unwrap(), run);
        assert_eq!(partial, Partial::default());
    }
}
