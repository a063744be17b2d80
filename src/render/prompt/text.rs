//! Text that knows where each piece of it comes from.

use std::fmt;
use std::ops::Deref;

use crate::domain::ledger::Origin;

/// A text and the origins of its pieces.
///
/// Two texts are equal when they read the same: where they come from is for the ledger.
#[derive(Debug, Clone, Default)]
pub struct MarkedText {
    text: String,
    /// Where each piece ends, and its origin; ascending, the last one at the end of the text.
    marks: Vec<(usize, Origin)>,
    /// Where a text without pieces comes from.
    place: Origin,
}

impl MarkedText {
    /// A text of one origin.
    pub fn of(text: impl Into<String>, origin: Origin) -> Self {
        let text = text.into();
        let marks = if text.is_empty() { Vec::new() } else { vec![(text.len(), origin.clone())] };
        Self { text, marks, place: origin }
    }

    /// Where the text comes from, for what belongs to it: where its beginning does, or, when it is
    /// empty, what it is empty of.
    pub fn origin(&self) -> &Origin {
        self.marks.first().map_or(&self.place, |(_, origin)| origin)
    }

    /// Adds a piece.
    pub fn push(&mut self, piece: &str, origin: &Origin) {
        if piece.is_empty() {
            return;
        }
        self.text.push_str(piece);
        let end = self.text.len();
        match self.marks.last_mut() {
            Some((last, same)) if same == origin => *last = end,
            _ => self.marks.push((end, origin.clone())),
        }
    }

    /// The same with a piece more.
    #[must_use]
    pub fn with(mut self, piece: &str, origin: &Origin) -> Self {
        self.push(piece, origin);
        self
    }

    /// Adds another text with its origins.
    pub fn append(&mut self, other: &Self) {
        for (piece, origin) in other.pieces() {
            self.push(piece, origin);
        }
    }

    /// The pieces in order, each with its origin.
    pub fn pieces(&self) -> impl Iterator<Item = (&str, &Origin)> {
        let mut start = 0;
        self.marks.iter().filter_map(move |(end, origin)| {
            let piece = self.text.get(start..*end)?;
            start = *end;
            Some((piece, origin))
        })
    }

    /// Marks the pieces that a test of text and origin picks as redacted.
    pub fn mark_redacted(&mut self, is: impl Fn(&str, &Origin) -> bool) {
        let mut start = 0;
        for (end, origin) in &mut self.marks {
            let piece = self.text.get(start..*end).unwrap_or_default();
            origin.redacted |= is(piece, origin);
            start = *end;
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text alone.
    pub fn into_string(self) -> String {
        self.text
    }
}

impl Deref for MarkedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for MarkedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for MarkedText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for MarkedText {}

impl PartialEq<str> for MarkedText {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

/// Texts that only tests make up.
#[cfg(test)]
mod made_up {
    use super::{MarkedText, Origin};

    impl From<&str> for MarkedText {
        fn from(text: &str) -> Self {
            Self::of(text, Origin::default())
        }
    }

    impl From<String> for MarkedText {
        fn from(text: String) -> Self {
            Self::of(text, Origin::default())
        }
    }

    impl PartialEq<&str> for MarkedText {
        fn eq(&self, other: &&str) -> bool {
            self.text == *other
        }
    }

    impl PartialEq<String> for MarkedText {
        fn eq(&self, other: &String) -> bool {
            self.text == *other
        }
    }
}
