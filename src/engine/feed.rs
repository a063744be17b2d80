//! Live updates inside one process: deltas as they arrive, and a hint that something was committed.
//!
//! What is durable is read from the store; the feed only says when to look and carries what is never
//! stored. Losing all of it changes latency and deltas, nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

use crate::domain::event::{Delta, DeltaKind};
use crate::domain::id::{RunId, TenantId};

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

type Key = (TenantId, RunId);

#[derive(Debug)]
struct Channel {
    sender: broadcast::Sender<Live>,
    partial: Mutex<Partial>,
}

/// The feeds of all runs that someone writes or watches.
#[derive(Debug, Clone, Default)]
pub struct Feed {
    channels: Arc<Mutex<BTreeMap<Key, Arc<Channel>>>>,
}

impl Feed {
    /// Opens a run's feed, to write to it.
    pub fn publisher(&self, tenant: &TenantId, run: RunId) -> Publisher {
        Publisher(self.open(tenant, run))
    }

    /// Watches a run from now on. What had arrived of the reply in flight is in the answer; everything
    /// after it comes through the watch.
    pub fn watch(&self, tenant: &TenantId, run: RunId) -> (Partial, Watch) {
        let hold = self.open(tenant, run);
        // Under the lock of the partial reply no delta can slip between the copy and the watch.
        let partial = hold.channel.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = hold.channel.sender.subscribe();
        let copy = partial.clone();
        drop(partial);
        (copy, Watch { receiver, _hold: hold })
    }

    fn open(&self, tenant: &TenantId, run: RunId) -> Hold {
        let key = (tenant.clone(), run);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = channels.entry(key.clone()).or_insert_with(|| {
            Arc::new(Channel {
                sender: broadcast::Sender::new(BACKLOG),
                partial: Mutex::new(Partial::default()),
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
pub struct Publisher(Hold);

impl Publisher {
    /// A piece of the reply in flight.
    pub fn delta(&self, delta: Delta) {
        let mut partial = self.0.channel.partial.lock().unwrap_or_else(PoisonError::into_inner);
        if (partial.turn, partial.attempt) != (delta.turn, delta.attempt) {
            *partial = Partial { turn: delta.turn, attempt: delta.attempt, ..Partial::default() };
        }
        match delta.kind {
            DeltaKind::Text => partial.text.push_str(&delta.text),
            DeltaKind::Thinking => partial.thinking.push_str(&delta.text),
            DeltaKind::ToolCall => {}
        }
        // No one may be watching; that is no failure.
        drop(self.0.channel.sender.send(Live::Delta(delta)));
    }

    /// Something was committed. No commit falls into the middle of a reply that goes on: it completes
    /// the reply in flight or voids it.
    pub fn committed(&self) {
        let mut partial = self.0.channel.partial.lock().unwrap_or_else(PoisonError::into_inner);
        *partial = Partial::default();
        drop(self.0.channel.sender.send(Live::Committed));
    }

    /// The reply in flight, as far as it has arrived.
    pub fn partial(&self) -> Partial {
        self.0.channel.partial.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    use uuid::Uuid;

    fn delta(text: &str) -> Delta {
        Delta { turn: 1, attempt: 1, kind: DeltaKind::Text, text: text.to_owned() }
    }

    #[tokio::test]
    async fn a_late_watcher_gets_what_had_arrived_and_then_the_rest() {
        let (feed, tenant, run) = (Feed::default(), TenantId::default(), RunId::from(Uuid::nil()));
        let publisher = feed.publisher(&tenant, run);
        publisher.delta(delta("Hel"));
        let (partial, mut watch) = feed.watch(&tenant, run);
        publisher.delta(delta("lo"));
        assert_eq!(partial.text, "Hel");
        assert_eq!(watch.next().await, Live::Delta(delta("lo")));
    }

    #[tokio::test]
    async fn a_watcher_that_lags_is_told_to_begin_again() {
        let (feed, tenant, run) = (Feed::default(), TenantId::default(), RunId::from(Uuid::nil()));
        let publisher = feed.publisher(&tenant, run);
        let (_, mut watch) = feed.watch(&tenant, run);
        for _ in 0..=BACKLOG {
            publisher.delta(delta("x"));
        }
        assert_eq!(watch.next().await, Live::Lagged);
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
        publisher.delta(delta("secret"));
        let (partial, _watch) = feed.watch(&TenantId::parse("other").unwrap(), run);
        assert_eq!(partial, Partial::default());
    }
}
