//! The latest events of a run that is watched, read once for all its readers on this server.

use std::collections::VecDeque;
use std::sync::Arc;

use super::replies::Attempt;
use super::told::{Told, announces, closes};
use crate::domain::event::RunEvent;

/// How many events are kept for readers that lag, and of how many bytes; who lags further reads the store.
const EVENTS: usize = 256;
const BYTES: usize = 1024 * 1024;

/// The latest events.
#[derive(Debug, Default)]
pub(super) struct Window {
    told: VecDeque<Arc<Told>>,
    /// The last event that is not kept any more.
    before: i64,
    /// How far the run has come.
    pub(super) standing: Standing,
    /// How many commits had been told of when the store was last looked at.
    pub(super) looked: u64,
}

/// How far a run has come, by its events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// The last event.
    pub(super) head: i64,
    /// Whether that ended the run.
    pub(super) has_ended: bool,
    /// The last attempt whose deltas are over.
    pub(super) closed: Attempt,
    /// The last attempt that began.
    pub(super) announced: Attempt,
}

impl Standing {
    /// The same behind one more event.
    pub(super) fn note(&mut self, event: &RunEvent) {
        self.head = event.seq;
        self.has_ended = event.name.is_last();
        self.closed = self.closed.max(closes(event));
        self.announced = announces(event).unwrap_or(self.announced);
    }
}

/// Where the event is that comes after another one.
#[derive(Debug)]
pub(super) enum Next {
    /// Here.
    Here(Arc<Told>, usize),
    /// In the store.
    Stored,
    /// There is none yet.
    None,
}

impl Window {
    /// A window that begins behind what is known.
    pub(super) fn behind(standing: Standing) -> Self {
        Self { before: standing.head, standing, ..Self::default() }
    }

    /// More events, which go on where the last ones end.
    pub(super) fn push(&mut self, told: Arc<Told>) {
        for event in &told.events {
            self.standing.note(event);
        }
        self.told.push_back(told);
        while self.told.len() > 1 && self.is_full() {
            if let Some(last) = self.told.pop_front().as_ref().and_then(|told| told.events.last()) {
                self.before = last.seq;
            }
        }
    }

    fn is_full(&self) -> bool {
        let events: usize = self.told.iter().map(|told| told.events.len()).sum();
        let bytes: usize = self.told.iter().map(|told| told.bytes).sum();
        events > EVENTS || bytes > BYTES
    }

    /// The event after another one.
    pub(super) fn after(&self, seq: i64) -> Next {
        if seq >= self.standing.head {
            return Next::None;
        }
        if seq < self.before {
            return Next::Stored;
        }
        let mut told = self.told.iter();
        let found = told.find_map(|told| Some(Next::Here(Arc::clone(told), told.after(seq)?)));
        found.unwrap_or(Next::Stored)
    }
}
