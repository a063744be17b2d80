//! Redaction of a text that arrives in pieces.

use std::sync::Arc;

use super::scan::Scan;
use super::sweep::{Sweep, Window, sort};
use super::{Redactor, Tally, bit};
use crate::domain::redaction::RedactionChannel;

/// How many characters are held back while a pattern may still match them. There is no telling where
/// a match of a pattern begins before it is complete, so a match that is longer can get out in part.
const PATTERN_HOLD: usize = 256;

/// The most bytes that a match of a pattern holds back while it grows.
const PATTERN_GROWTH: usize = 4096;

/// Redacts a text as it arrives.
///
/// Of known values no more is held back than what may be the beginning of one, so the pieces that
/// come out are together what redacting the whole text gives. Members of JSON are not looked for.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Arc<Redactor>,
    channel: RedactionChannel,
    scan: Scan,
    sweep: Sweep,
    /// What has not been written yet, and where it begins.
    held: String,
    base: usize,
    replaced: Tally,
}

impl StreamRedactor {
    /// For a text that has not begun.
    pub fn new(redactor: Arc<Redactor>, channel: RedactionChannel) -> Self {
        let scan = Scan::new(&redactor.rules.words, bit(channel));
        Self {
            redactor,
            channel,
            scan,
            sweep: Sweep::default(),
            held: String::new(),
            base: 0,
            replaced: Tally::new(),
        }
    }

    /// Takes a piece; answers what can go out.
    pub fn push(&mut self, piece: &str) -> String {
        if self.redactor.is_empty() {
            return piece.to_owned();
        }
        self.scan.read(&self.redactor.rules.words, &self.redactor.marks, piece);
        self.held.push_str(piece);
        let settled = self.scan.settled();
        self.write(settled, true)
    }

    /// What is left when the text is over.
    pub fn finish(self) -> String {
        self.finish_telling().0
    }

    /// The same, and whether anything of the text was replaced.
    pub fn finish_telling(mut self) -> (String, bool) {
        let end = self.window().end();
        let rest = self.write(end, false);
        (rest, !self.replaced.is_empty())
    }

    /// How many bytes at the end of what came so far may be the beginning of a known value.
    pub fn begun(&self) -> usize {
        self.scan.begun()
    }

    /// What is left when the text breaks off, without what may be the beginning of a known value.
    pub fn cut(mut self) -> String {
        let end = self.window().end().saturating_sub(self.begun());
        self.write(end, false)
    }

    fn window(&self) -> Window<'_> {
        Window { text: &self.held, base: self.base }
    }

    /// Writes what is settled.
    fn write(&mut self, settled: usize, goes_on: bool) -> String {
        let mut hits = self.scan.hits.clone();
        let mut upto = settled;
        let redactor = Arc::clone(&self.redactor);
        if redactor.patterns(self.channel).next().is_some() {
            let from = self.sweep.at().max(self.base);
            let placeholders = &self.scan.placeholders;
            let found = redactor.pattern_hits(self.channel, self.window(), from, placeholders);
            if goes_on {
                upto = upto.min(self.pattern_hold());
                let end = self.window().end();
                let grows = |start: usize| start + PATTERN_GROWTH > end;
                let growing = found.iter().filter(|hit| hit.end == end && grows(hit.start));
                upto = growing.map(|hit| hit.start).fold(upto, usize::min);
            }
            hits.extend(found);
        }
        sort(&mut hits);
        let mut out = String::new();
        let window = Window { text: &self.held, base: self.base };
        self.sweep.write(&redactor, (window, upto), &hits, (&mut out, &mut self.replaced));
        self.forget(upto);
        out
    }

    fn pattern_hold(&self) -> usize {
        let held = self.held.char_indices().rev().nth(PATTERN_HOLD - 1);
        self.base + held.map_or(0, |(at, _)| at)
    }

    /// Drops what is written.
    fn forget(&mut self, upto: usize) {
        self.held.drain(..upto.saturating_sub(self.base).min(self.held.len()));
        self.base = self.base.max(upto);
        self.scan.hits.retain(|hit| hit.start >= upto);
        self.scan.placeholders.retain(|mark| mark.end > upto);
    }
}
