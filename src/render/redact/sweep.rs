//! From the places found to the text that goes out.

use std::cmp::Reverse;

use super::scan::Hit;
use super::{Redactor, Tally};

/// A piece of a text and where in the text it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) text: &'a str,
    pub(super) base: usize,
}

impl<'a> Window<'a> {
    /// What stands between two offsets of the whole text.
    pub(super) fn between(self, start: usize, end: usize) -> &'a str {
        let range = start.saturating_sub(self.base)..end.saturating_sub(self.base);
        self.text.get(range).unwrap_or_default()
    }

    pub(super) const fn end(self) -> usize {
        self.base + self.text.len()
    }
}

/// How far a text is written.
///
/// Of the places that overlap, the one that begins first is replaced, and of those that begin together
/// the longest. What another one has beyond it is replaced as well, so that no fragment is left.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    at: usize,
    last: String,
}

impl Sweep {
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Writes what comes before `upto`; `hits` are sorted, see [`sort`].
    pub(super) fn write(
        &mut self,
        redactor: &Redactor,
        (window, upto): (Window<'_>, usize),
        hits: &[Hit],
        (out, tally): (&mut String, &mut Tally),
    ) {
        for hit in hits.iter().take_while(|hit| hit.start < upto) {
            if hit.end <= self.at {
                continue;
            }
            let is_overlapped = hit.start < self.at;
            let (name, placeholder) = redactor.stand_in(hit, window.between(hit.start, hit.end));
            out.push_str(window.between(self.at, hit.start));
            // Places of one value that overlap each other are one place.
            if !is_overlapped || placeholder != self.last {
                out.push_str(&placeholder);
                *tally.entry(name.to_owned()).or_default() += 1;
                self.last = placeholder;
            }
            self.at = hit.end;
        }
        if self.at < upto {
            out.push_str(window.between(self.at, upto));
            self.at = upto;
        }
    }
}

/// Puts places in the order in which they are replaced.
pub(super) fn sort(hits: &mut [Hit]) {
    hits.sort_by_key(|hit| (hit.start, Reverse(hit.end), hit.rule));
}
