//! What goes on in the runs that someone on this server writes or watches: replies as they arrive, the
//! latest events, and a hint that something was committed.
//!
//! Watchers get what callers may read; the reply as it really arrived stays with the writer.
//!
//! What is durable is read from the store, once for all watchers of a run; the feed says when to look and
//! carries what is never stored. Losing all of it changes latency and deltas, nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::relay::Relayed;
use super::replies::Replies;
use super::told::Told;
use super::window::Window;
use crate::domain::event::{Delta, DeltaKind};
use crate::domain::id::{RunId, TenantId};
use crate::domain::redaction::RedactionChannel::Api;
use crate::render::redact::{Redactor, StreamRedactor};

pub use super::replies::Partial;

type Key = (TenantId, RunId);

#[derive(Debug, Default)]
struct Channel {
    state: Mutex<State>,
    /// Says that there may be something to read.
    changes: watch::Sender<()>,
    /// Counts the commits that were told of.
    commits: watch::Sender<u64>,
    relayed: tokio::sync::Mutex<Relayed>,
    /// What was read last for readers that lag: they come in crowds, and one reads for all.
    stored: tokio::sync::Mutex<VecDeque<Arc<Told>>>,
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what readers see, and tells them.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changes.send_replace(());
        changed
    }
}

/// What is known of a run.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The reply in flight as it arrived.
    arrived: Partial,
    /// What redacts its pieces, by kind: pieces of one kind go on after those of another.
    redacting: BTreeMap<DeltaKind, StreamRedactor>,
    /// Replies as they were shown.
    pub(super) replies: Replies,
    /// The latest events, once the store was looked at.
    pub(super) window: Option<Window>,
    /// How many on this server work on the run.
    n_drivers: usize,
    /// How many on this server watch it.
    n_watches: usize,
    /// Whether the store is being looked at for them.
    is_tailed: bool,
    /// Whether someone on another server watches it.
    is_watched_elsewhere: bool,
}

impl State {
    /// Whether the run is worked on here, so that its deltas come by themselves.
    pub(super) const fn is_driven(&self) -> bool {
        self.n_drivers > 0
    }

    fn show(&mut self, kind: DeltaKind, text: &str) {
        if !text.is_empty() {
            self.replies.push(kind, text);
        }
    }

    /// Shows what was held back because it might have been the beginning of something.
    fn show_rest(&mut self) {
        for (kind, stream) in std::mem::take(&mut self.redacting) {
            self.show(kind, &stream.finish());
        }
    }

    /// Nothing more comes of the replies so far.
    fn end_replies(&mut self) {
        self.arrived = Partial::default();
        self.redacting.clear();
        self.replies.end();
        if self.n_watches == 0 && !self.is_watched_elsewhere {
            self.replies.clear();
        }
    }
}

/// The feeds of all runs that someone writes or watches.
#[derive(Debug, Clone, Default)]
pub struct Feed {
    channels: Arc<Mutex<BTreeMap<Key, Arc<Channel>>>>,
}

impl Feed {
    /// Opens a run's feed, to say that something was committed.
    pub fn publisher(&self, tenant: &TenantId, run: RunId) -> Publisher {
        let hold = self.open(tenant, run);
        Publisher { hold, redactor: Arc::new(Redactor::none()), is_json: false, driving: None }
    }

    /// Watches a run from now on.
    pub fn watch(&self, tenant: &TenantId, run: RunId) -> Watch {
        let hold = self.open(tenant, run);
        let changes = hold.channel.changes.subscribe();
        hold.lock().n_watches += 1;
        Watch { changes, hold }
    }

    /// Hears of the commits of a run, without watching it.
    pub(super) fn commits(&self, tenant: &TenantId, run: RunId) -> Commits {
        let hold = self.open(tenant, run);
        Commits { counted: hold.channel.commits.subscribe(), _hold: hold }
    }

    /// The runs that this server works on and of whose replies it shows something right now.
    pub(super) fn in_flight(&self) -> Vec<Hold> {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let flying = channels.iter().filter(|(_, channel)| {
            let state = channel.lock();
            state.is_driven() && state.replies.in_flight()
        });
        let hold = |(key, channel): (&Key, &Arc<Channel>)| Hold {
            channel: Arc::clone(channel),
            key: key.clone(),
            feed: self.clone(),
        };
        flying.map(hold).collect()
    }

    /// Tells the watchers of a run, or of every run, that something may have been committed elsewhere.
    pub(crate) fn look(&self, run: Option<RunId>) {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let meant = channels.iter().filter(|((_, id), _)| run.is_none_or(|run| run == *id));
        for (_, channel) in meant {
            channel.commits.send_modify(|n| *n += 1);
        }
    }

    fn open(&self, tenant: &TenantId, run: RunId) -> Hold {
        let key = (tenant.clone(), run);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = Arc::clone(channels.entry(key.clone()).or_default());
        Hold { channel, key, feed: self.clone() }
    }
}

/// Keeps a channel in the map for as long as someone uses it.
#[derive(Debug)]
pub(super) struct Hold {
    channel: Arc<Channel>,
    key: Key,
    feed: Feed,
}

impl Hold {
    /// What is known of the run.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.channel.lock()
    }

    /// Changes what readers see, and tells them.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.channel.change(change)
    }

    /// Whose run it is, and which.
    pub(super) const fn key(&self) -> &Key {
        &self.key
    }

    /// One more.
    pub(super) fn again(&self) -> Self {
        Self { channel: Arc::clone(&self.channel), key: self.key.clone(), feed: self.feed.clone() }
    }

    /// What was passed on to other servers.
    pub(super) fn relayed(&self) -> &tokio::sync::Mutex<Relayed> {
        &self.channel.relayed
    }

    /// What was read last for readers that lag.
    pub(super) fn stored(&self) -> &tokio::sync::Mutex<VecDeque<Arc<Told>>> {
        &self.channel.stored
    }

    /// Counts the commits that were told of.
    pub(super) fn commits(&self) -> watch::Receiver<u64> {
        self.channel.commits.subscribe()
    }

    /// Lets the store be looked at.
    pub(super) fn look(&self) {
        self.channel.commits.send_modify(|n| *n += 1);
    }

    /// Whether the caller is to look at the store for the watchers; nobody else does then.
    pub(super) fn begin_tail(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_tailed, true)
    }

    /// Whether there are still watchers to look at the store for.
    pub(super) fn keep_tail(&self) -> bool {
        let mut state = self.lock();
        state.is_tailed = state.n_watches > 0;
        if !state.is_tailed {
            state.window = None;
            // Whoever watches next reads pieces from elsewhere anew.
            if !state.is_driven() {
                state.replies.clear();
            }
        }
        state.is_tailed
    }

    /// Notes whether someone on another server watches the run.
    pub(super) fn watched_elsewhere(&self, is_watched: bool) {
        self.lock().is_watched_elsewhere = is_watched;
    }

    /// Whether someone on another server watches the run.
    pub(super) fn is_watched_elsewhere(&self) -> bool {
        self.lock().is_watched_elsewhere
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

/// Says that the run is worked on here.
#[derive(Debug)]
struct Driving(Hold);

impl Driving {
    fn begin(hold: Hold) -> Self {
        hold.lock().n_drivers += 1;
        Self(hold)
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.n_drivers -= 1;
            state.end_replies();
        });
    }
}

/// The writing end of a run's feed.
#[derive(Debug)]
pub struct Publisher {
    hold: Hold,
    redactor: Arc<Redactor>,
    is_json: bool,
    driving: Option<Driving>,
}

impl Publisher {
    /// The same for the one who works on the run, showing only what callers may read. `is_json` says
    /// whether text is to be JSON.
    #[must_use]
    pub fn redacting(self, redactor: Arc<Redactor>, is_json: bool) -> Self {
        let driving = Some(Driving::begin(self.hold.again()));
        Self { redactor, is_json, driving, ..self }
    }

    /// A piece of the reply in flight.
    pub fn delta(&self, delta: &Delta) {
        let since = *self.hold.channel.commits.borrow();
        let at = (delta.turn, delta.attempt);
        self.hold.change(|state| {
            if (state.arrived.turn, state.arrived.attempt) != at {
                state.end_replies();
                state.arrived = Partial::of(at);
                state.replies.begin(at, since);
            }
            state.arrived.append(delta.kind, &delta.text);
            if !self.is_withheld(delta.kind) {
                let begin = || StreamRedactor::new(Arc::clone(&self.redactor), Api);
                let stream = state.redacting.entry(delta.kind).or_insert_with(begin);
                let shown = stream.push(&delta.text);
                state.show(delta.kind, &shown);
            }
        });
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
        self.hold.change(State::show_rest);
    }

    /// Something was committed. No commit of the one who works on the run falls into the middle of a
    /// reply that goes on: it completes the reply in flight or voids it.
    pub fn committed(&self) {
        if self.driving.is_some() {
            self.hold.lock().end_replies();
        }
        self.hold.look();
    }

    /// The reply in flight, as far as it has arrived.
    pub fn partial(&self) -> Partial {
        self.hold.lock().arrived.clone()
    }

    /// The feed that is written to.
    pub(super) const fn hold(&self) -> &Hold {
        &self.hold
    }
}

/// The commits of a run.
#[derive(Debug)]
pub(super) struct Commits {
    counted: watch::Receiver<u64>,
    _hold: Hold,
}

impl Commits {
    /// Waits until one more was told of.
    pub(super) async fn next(&mut self) {
        // The hold keeps the sender, so this does not fail.
        drop(self.counted.changed().await);
    }
}

/// The reading end of a run's feed.
#[derive(Debug)]
pub struct Watch {
    changes: watch::Receiver<()>,
    hold: Hold,
}

impl Watch {
    /// The feed that is read.
    pub(super) const fn hold(&self) -> &Hold {
        &self.hold
    }

    /// What changes from now on has not been seen.
    pub(super) fn note(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits until there may be something to read.
    pub(super) async fn changed(&mut self) {
        // The hold keeps the sender, so this does not fail.
        drop(self.changes.changed().await);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hold.lock().n_watches -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::replies::{END, Place, Span};
    use super::*;
    use crate::render::redact::{PlaceholderKey, RuleSet};
    use uuid::Uuid;

    const ALL: Span = Span { after: (0, 0), until: END, since: u64::MAX };

    fn delta(text: &str) -> Delta {
        Delta { turn: 1, attempt: 1, kind: DeltaKind::Text, text: text.to_owned() }
    }

    fn hiding(value: &str) -> (Arc<Redactor>, String) {
        let key = PlaceholderKey::of(&[1; 32], "t");
        let redactor = Arc::new(Redactor::new([&RuleSet::secrets([value])], key));
        let shown = redactor.text(Api, value).into_owned();
        (redactor, shown)
    }

    fn feed() -> (Feed, TenantId, RunId) {
        (Feed::default(), TenantId::default(), RunId::from(Uuid::nil()))
    }

    fn shown(watch: &Watch) -> Option<Partial> {
        watch.hold().lock().replies.so_far((1, 1)).map(|(partial, _)| partial)
    }

    #[tokio::test]
    async fn watchers_see_redacted_pieces_and_the_writer_the_reply() {
        let (feed, tenant, run) = feed();
        let (redactor, placeholder) = hiding("hunter22");
        let publisher = feed.publisher(&tenant, run).redacting(redactor, false);
        let mut watch = feed.watch(&tenant, run);
        watch.note();
        publisher.delta(&delta("is hun"));
        watch.changed().await;
        assert_eq!(shown(&watch).unwrap().text, "is ");
        publisher.delta(&delta("ter22"));
        publisher.delta(&delta(", hun"));
        assert_eq!(shown(&watch).unwrap().text, format!("is {placeholder}, "));
        assert_eq!(publisher.partial().text, "is hunter22, hun");
        publisher.arrived();
        assert_eq!(shown(&watch).unwrap().text, format!("is {placeholder}, hun"));
    }

    #[test]
    fn a_value_is_found_though_pieces_of_another_kind_come_between() {
        let (feed, tenant, run) = feed();
        let (redactor, placeholder) = hiding("hunter22");
        let publisher = feed.publisher(&tenant, run).redacting(redactor, false);
        let watch = feed.watch(&tenant, run);
        publisher.delta(&delta("hun"));
        publisher.delta(&Delta { kind: DeltaKind::Thinking, ..delta("so") });
        publisher.delta(&delta("ter22"));
        publisher.arrived();
        let partial = shown(&watch).unwrap();
        assert_eq!((partial.text, partial.thinking), (placeholder, "so".to_owned()));
    }

    #[test]
    fn arguments_are_withheld_where_a_pattern_may_match_them() {
        let (feed, tenant, run) = feed();
        let rule = serde_json::json!([{ "kind": "pattern", "name": "p", "pattern": "sk-[a-z]+" }]);
        let rules = RuleSet::of(&serde_json::from_value::<Vec<_>>(rule).unwrap());
        let redactor = Arc::new(Redactor::new([&rules], PlaceholderKey::of(&[1; 32], "t")));
        let publisher = feed.publisher(&tenant, run).redacting(redactor, false);
        let watch = feed.watch(&tenant, run);
        publisher.delta(&Delta { kind: DeltaKind::ToolCall, ..delta(r#"{"a":"sk\u002dab"}"#) });
        publisher.arrived();
        assert_eq!(watch.hold().lock().replies.take(&mut Place::default(), ALL), None);
    }

    #[test]
    fn a_commit_ends_the_reply_of_the_one_who_works_on_the_run_and_of_no_one_else() {
        let (feed, tenant, run) = feed();
        let driver = feed.publisher(&tenant, run).redacting(Arc::new(Redactor::none()), false);
        let watch = feed.watch(&tenant, run);
        driver.delta(&delta("Hel"));
        feed.publisher(&tenant, run).committed();
        assert_eq!(driver.partial().text, "Hel");
        assert_eq!(watch.hold().lock().replies.over(), (0, 0));
        driver.committed();
        assert_eq!(driver.partial(), Partial::default());
        assert_eq!(watch.hold().lock().replies.over(), (1, 1));
        assert_eq!(*watch.hold().commits().borrow(), 2);
    }

    #[test]
    fn a_channel_is_gone_with_its_last_user() {
        let (feed, tenant, run) = feed();
        let driver = feed.publisher(&tenant, run).redacting(Arc::new(Redactor::none()), false);
        driver.delta(&delta("x"));
        assert_eq!(feed.in_flight().len(), 1);
        let watch = feed.watch(&tenant, run);
        drop(driver);
        assert_eq!(feed.in_flight().len(), 0);
        assert_eq!(feed.channels.lock().unwrap().len(), 1);
        drop(watch);
        assert!(feed.channels.lock().unwrap().is_empty());
    }

    #[test]
    fn runs_of_different_tenants_do_not_hear_each_other() {
        let (feed, tenant, run) = feed();
        let publisher = feed.publisher(&tenant, run);
        publisher.delta(&delta("secret"));
        let watch = feed.watch(&TenantId::parse("other").unwrap(), run);
        assert_eq!(shown(&watch), None);
    }
}
