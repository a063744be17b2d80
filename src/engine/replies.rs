//! Replies on their way as far as they were shown, kept so that every reader takes what it has not seen
//! when it can: what has piled up for a slow one comes as one piece.

use std::collections::VecDeque;

use crate::domain::event::{Delta, DeltaKind};

/// A turn and an attempt at it.
pub(super) type Attempt = (u32, u32);

/// Behind every attempt.
pub(super) const END: Attempt = (u32::MAX, u32::MAX);

/// The most bytes that a reader takes at once.
const PIECE: usize = 64 * 1024;

/// How many replies are kept that are over, and of how many bytes: slow readers still come for them.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 256 * 1024;

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
    pub(super) fn of((turn, attempt): Attempt) -> Self {
        Self { turn, attempt, ..Self::default() }
    }

    pub(super) fn append(&mut self, kind: DeltaKind, text: &str) {
        match kind {
            DeltaKind::Text => self.text.push_str(text),
            DeltaKind::Thinking => self.thinking.push_str(text),
            DeltaKind::ToolCall => {}
        }
    }
}

#[derive(Debug)]
struct Shown {
    attempt: Attempt,
    /// How many commits had been told of when it began.
    since: u64,
    is_over: bool,
    /// Neighbours are of different kinds.
    pieces: Vec<(DeltaKind, String)>,
}

impl Shown {
    fn bytes(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.len()).sum()
    }
}

/// How far a reader has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// In which reply.
    pub(super) attempt: Attempt,
    piece: usize,
    offset: usize,
}

/// Which replies a reader takes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Only later ones.
    pub(super) after: Attempt,
    /// Only this one and earlier ones.
    pub(super) until: Attempt,
    /// Only those that began when no more commits had been told of.
    pub(super) since: u64,
}

/// The replies of one run.
#[derive(Debug, Default)]
pub(super) struct Replies {
    shown: VecDeque<Shown>,
}

impl Replies {
    /// Another reply begins; those before are over.
    pub(super) fn begin(&mut self, attempt: Attempt, since: u64) {
        self.end();
        let mut kept = 0;
        let n_kept = self.shown.iter().rev().take(KEPT).take_while(|shown| {
            kept += shown.bytes();
            kept <= KEPT_BYTES
        });
        let n_gone = self.shown.len() - n_kept.count();
        self.shown.drain(..n_gone);
        self.shown.push_back(Shown { attempt, since, is_over: false, pieces: Vec::new() });
    }

    /// A piece of the last reply that has begun.
    pub(super) fn push(&mut self, kind: DeltaKind, text: &str) {
        let Some(shown) = self.shown.back_mut() else { return };
        match shown.pieces.last_mut() {
            Some((last, so_far)) if *last == kind => so_far.push_str(text),
            _ => shown.pieces.push((kind, text.to_owned())),
        }
    }

    /// All of them are over.
    pub(super) fn end(&mut self) {
        for shown in &mut self.shown {
            shown.is_over = true;
        }
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.shown.clear();
    }

    /// The last reply that has begun.
    pub(super) fn current(&self) -> Attempt {
        self.shown.back().map(|shown| shown.attempt).unwrap_or_default()
    }

    /// The last reply that is over.
    pub(super) fn over(&self) -> Attempt {
        let mut over = self.shown.iter().rev().filter(|shown| shown.is_over);
        over.next().map(|shown| shown.attempt).unwrap_or_default()
    }

    /// Whether one is on its way of which something was shown.
    pub(super) fn in_flight(&self) -> bool {
        self.shown.back().is_some_and(|shown| !shown.is_over && !shown.pieces.is_empty())
    }

    /// What comes next for a reader, and lets it go on behind it.
    pub(super) fn take(&self, place: &mut Place, span: Span) -> Option<Delta> {
        let after = span.after.max(place.attempt);
        let is_wanted = |shown: &&Shown| {
            let attempt = shown.attempt;
            let is_next = attempt > after || (attempt == place.attempt && attempt > span.after);
            is_next && attempt <= span.until && shown.since <= span.since
        };
        let wanted: Vec<&Shown> = self.shown.iter().filter(is_wanted).collect();
        wanted.into_iter().find_map(|shown| take_from(shown, place))
    }

    /// All of a reply as far as it was shown, and the place behind it.
    pub(super) fn so_far(&self, attempt: Attempt) -> Option<(Partial, Place)> {
        let shown = self.shown.iter().find(|shown| shown.attempt == attempt)?;
        let mut partial = Partial::of(attempt);
        for (kind, text) in &shown.pieces {
            partial.append(*kind, text);
        }
        let piece = shown.pieces.len().saturating_sub(1);
        let offset = shown.pieces.last().map_or(0, |(_, text)| text.len());
        Some((partial, Place { attempt, piece, offset }))
    }
}

fn take_from(shown: &Shown, place: &mut Place) -> Option<Delta> {
    if place.attempt != shown.attempt {
        *place = Place { attempt: shown.attempt, ..Place::default() };
    }
    loop {
        let (kind, text) = shown.pieces.get(place.piece)?;
        let rest = text.get(place.offset..)?;
        if !rest.is_empty() {
            let text = beginning(rest);
            place.offset += text.len();
            let (turn, attempt) = shown.attempt;
            return Some(Delta { turn, attempt, kind: *kind, text: text.to_owned() });
        }
        // The last piece may still grow.
        if place.piece + 1 == shown.pieces.len() {
            return None;
        }
        (place.piece, place.offset) = (place.piece + 1, 0);
    }
}

/// As much of a text as a reader takes at once, cut between two characters.
fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(PIECE)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeltaKind::{Text, Thinking};

    const ALL: Span = Span { after: (0, 0), until: END, since: u64::MAX };

    fn taken(
        replies: &Replies,
        place: &mut Place,
        span: Span,
    ) -> Vec<(Attempt, DeltaKind, String)> {
        std::iter::from_fn(|| replies.take(place, span))
            .map(|delta| ((delta.turn, delta.attempt), delta.kind, delta.text))
            .collect()
    }

    fn piece(attempt: Attempt, kind: DeltaKind, text: &str) -> (Attempt, DeltaKind, String) {
        (attempt, kind, text.to_owned())
    }

    #[test]
    fn what_piles_up_comes_as_one_piece_in_the_order_of_kinds_and_attempts() {
        let (mut replies, mut place) = (Replies::default(), Place::default());
        replies.begin((1, 1), 0);
        replies.push(Text, "a");
        assert_eq!(taken(&replies, &mut place, ALL), [piece((1, 1), Text, "a")]);
        assert_eq!(taken(&replies, &mut place, ALL), []);
        replies.push(Text, "b");
        replies.push(Text, "c");
        replies.push(Thinking, "d");
        replies.push(Text, "e");
        replies.begin((1, 2), 0);
        replies.push(Text, "f");
        let rest = [
            piece((1, 1), Text, "bc"),
            piece((1, 1), Thinking, "d"),
            piece((1, 1), Text, "e"),
            piece((1, 2), Text, "f"),
        ];
        assert_eq!(taken(&replies, &mut place, ALL), rest);
    }

    #[test]
    fn a_reader_takes_only_from_the_replies_of_its_span() {
        let mut replies = Replies::default();
        for turn in 1..=3 {
            replies.begin((turn, 1), turn.into());
            replies.push(Text, "x");
        }
        let only = |after, until, since| {
            let span = Span { after, until, since };
            let taken = taken(&replies, &mut Place::default(), span);
            taken.into_iter().map(|(attempt, ..)| attempt.0).collect::<Vec<_>>()
        };
        assert_eq!(only((1, u32::MAX), END, 9), [2, 3]);
        assert_eq!(only((0, 0), (2, u32::MAX), 9), [1, 2]);
        assert_eq!(only((0, 0), END, 1), [1]);
        assert_eq!((replies.over(), replies.current()), ((2, 1), (3, 1)));
    }

    #[test]
    fn a_reader_that_comes_later_gets_all_at_once_and_then_the_rest() {
        let mut replies = Replies::default();
        replies.begin((1, 1), 0);
        replies.push(Thinking, "so");
        replies.push(Text, "Hel");
        let (partial, mut place) = replies.so_far((1, 1)).unwrap();
        assert_eq!((partial.text.as_str(), partial.thinking.as_str()), ("Hel", "so"));
        replies.push(Text, "lo");
        assert_eq!(taken(&replies, &mut place, ALL), [piece((1, 1), Text, "lo")]);
    }

    #[test]
    fn a_long_piece_is_cut_between_characters_and_old_replies_are_forgotten() {
        let mut replies = Replies::default();
        let long = "正".repeat(KEPT_BYTES / 4);
        for turn in 1..=5 {
            replies.begin((turn, 1), 0);
            replies.push(Text, &long);
        }
        let taken = taken(&replies, &mut Place::default(), ALL);
        assert!(taken.iter().all(|(_, _, text)| text.len() <= PIECE));
        let turns: Vec<u32> = taken.iter().map(|((turn, _), ..)| *turn).collect();
        assert!(turns.contains(&4) && turns.contains(&5) && !turns.contains(&1), "{turns:?}");
        let last = taken.iter().filter(|((turn, _), ..)| *turn == 5).map(|(_, _, text)| &**text);
        assert_eq!(last.collect::<String>(), long);
    }
}
