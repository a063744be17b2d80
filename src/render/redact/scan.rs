//! Finds known values in a text that is read byte by byte, in any of their forms.
//!
//! A set of rows of symbols is not a set of strings, so what finds them is an automaton with
//! alternatives, run by following all its threads at once: the time is linear in the text. It is
//! written out here rather than left to a library of patterns because a stream has to know where the
//! oldest match begins that is still possible.

use std::collections::BTreeMap;

use super::forms::{Form, Symbol};
use super::placeholder::{Mark, Marks, Recogniser};

/// A place of a text that a rule takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    /// Where it begins, counted from the beginning of the text.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
    /// The rule's place in the redactor.
    pub(super) rule: usize,
}

/// A row of symbols that belongs to a rule.
#[derive(Debug)]
struct Word {
    rule: usize,
    channels: u8,
    symbols: Vec<usize>,
    /// The place of its first symbol among those of all words.
    base: usize,
}

/// The words of a redactor.
#[derive(Debug)]
pub(super) struct Words {
    rows: Vec<Word>,
    forms: Vec<Vec<Form>>,
    by_symbol: BTreeMap<Symbol, usize>,
    /// By first byte: words, and which form of their first symbol begins with it.
    starts: Vec<Vec<(usize, usize)>>,
    n_symbols: usize,
}

impl Words {
    pub(super) fn new() -> Self {
        Self {
            rows: Vec::new(),
            forms: Vec::new(),
            by_symbol: BTreeMap::new(),
            starts: vec![Vec::new(); 256],
            n_symbols: 0,
        }
    }

    /// Adds a word of a rule, to be looked for on some channels.
    pub(super) fn add(&mut self, symbols: &[Symbol], rule: usize, channels: u8) {
        let symbols: Vec<usize> = symbols.iter().map(|symbol| self.symbol(*symbol)).collect();
        let Some(first) = symbols.first() else { return };
        let word = self.rows.len();
        for (n, form) in self.forms.get(*first).into_iter().flatten().enumerate() {
            let Some((lower, upper)) = form.first().copied() else { continue };
            let bytes = if lower == upper { vec![lower] } else { vec![lower, upper] };
            for byte in bytes {
                self.starts.get_mut(usize::from(byte)).into_iter().for_each(|s| s.push((word, n)));
            }
        }
        let base = self.n_symbols;
        self.n_symbols += symbols.len();
        self.rows.push(Word { rule, channels, symbols, base });
    }

    fn symbol(&mut self, symbol: Symbol) -> usize {
        let next = self.forms.len();
        let known = *self.by_symbol.entry(symbol).or_insert(next);
        if known == next {
            self.forms.push(symbol.forms());
        }
        known
    }

    /// Whether neither a word nor a placeholder begins with a byte.
    fn is_quiet(&self, byte: u8) -> bool {
        let begins_none = self.starts.get(usize::from(byte)).is_none_or(Vec::is_empty);
        begins_none && !Recogniser::is_opening(byte)
    }

    fn forms(&self, place: Place) -> &[Form] {
        let symbol = self.rows.get(place.word).and_then(|word| word.symbols.get(place.symbol));
        symbol.and_then(|symbol| self.forms.get(*symbol)).map_or(&[], Vec::as_slice)
    }
}

/// A symbol of a word.
#[derive(Debug, Clone, Copy)]
struct Place {
    word: usize,
    symbol: usize,
}

/// One way in which the text read so far may be the beginning of a word.
#[derive(Debug, Clone, Copy)]
struct Thread {
    start: usize,
    place: Place,
    /// The form of the symbol that is being read and how much of it has been; `None` ahead of it.
    within: Option<(usize, usize)>,
}

/// A search that is under way.
#[derive(Debug)]
pub(super) struct Scan {
    channel: u8,
    at: usize,
    threads: Vec<Thread>,
    next: Vec<Thread>,
    /// By symbol of all words: where a thread last stood ahead of it. Of two the older one is enough.
    seen: Vec<usize>,
    placeholder: Recogniser,
    /// The places found, in order of their ends.
    pub(super) hits: Vec<Hit>,
    /// The redactor's own placeholders: no pattern reaches into them.
    pub(super) placeholders: Vec<Mark>,
}

impl Scan {
    pub(super) fn new(words: &Words, channel: u8) -> Self {
        Self {
            channel,
            at: 0,
            threads: Vec::new(),
            next: Vec::new(),
            seen: vec![0; words.n_symbols],
            placeholder: Recogniser::default(),
            hits: Vec::new(),
            placeholders: Vec::new(),
        }
    }

    /// Reads on.
    pub(super) fn read(&mut self, words: &Words, marks: &Marks, text: &str) {
        let mut rest = text.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            if self.is_idle() && words.is_quiet(byte) {
                // Most of a text begins nothing, and is passed over at the speed of a table.
                let quiet = rest.iter().take_while(|byte| words.is_quiet(**byte)).count();
                self.at += quiet;
                rest = rest.get(quiet..).unwrap_or_default();
                continue;
            }
            rest = after;
            self.step(words, byte);
            let ended = self.placeholder.take(marks, byte, self.at);
            self.at += 1;
            if let Some(mark) = ended {
                self.pass(mark);
            }
        }
    }

    /// A placeholder has come to its end. A value inside what the redactor itself writes gives nothing
    /// away; one that reaches beyond it does.
    fn pass(&mut self, mark: Mark) {
        let at = self.hits.iter().rev().take_while(|hit| hit.end > mark.start).count();
        let late = self.hits.split_off(self.hits.len() - at);
        let is_inside = |hit: &Hit| hit.start >= mark.start && hit.end <= mark.sure;
        self.hits.extend(late.into_iter().filter(|hit| !is_inside(hit)));
        self.placeholders.push(mark);
    }

    /// How many bytes at the end may be the beginning of a word.
    pub(super) fn begun(&self) -> usize {
        self.threads.first().map_or(0, |thread| self.at.saturating_sub(thread.start))
    }

    /// Up to where nothing that is still to come changes what was found.
    pub(super) fn settled(&self) -> usize {
        let begun = self.placeholder.begun().unwrap_or(self.at);
        let oldest = self.threads.first().map_or(self.at, |thread| thread.start);
        begun.min(oldest)
    }

    /// Whether nothing that was read so far has a bearing on what comes.
    const fn is_idle(&self) -> bool {
        self.threads.is_empty() && self.placeholder.begun().is_none()
    }

    fn step(&mut self, words: &Words, byte: u8) {
        let mut threads = std::mem::take(&mut self.threads);
        for thread in &threads {
            self.follow(words, *thread, byte);
        }
        for (word, form) in words.starts.get(usize::from(byte)).into_iter().flatten() {
            let is_on = words.rows.get(*word).is_some_and(|w| w.channels & self.channel != 0);
            if is_on {
                let place = Place { word: *word, symbol: 0 };
                let thread = Thread { start: self.at, place, within: None };
                self.advance(words, thread, (*form, 1));
            }
        }
        threads.clear();
        self.threads = std::mem::replace(&mut self.next, threads);
    }

    fn follow(&mut self, words: &Words, thread: Thread, byte: u8) {
        let forms = words.forms(thread.place);
        let accepts = |form: &Form, read: usize| {
            form.get(read).is_some_and(|(lower, upper)| *lower == byte || *upper == byte)
        };
        if let Some((n, read)) = thread.within {
            if forms.get(n).is_some_and(|form| accepts(form, read)) {
                self.advance(words, thread, (n, read + 1));
            }
            return;
        }
        for (n, form) in forms.iter().enumerate() {
            if accepts(form, 0) {
                self.advance(words, thread, (n, 1));
            }
        }
    }

    /// A thread has read so many bytes of a form.
    fn advance(&mut self, words: &Words, thread: Thread, (form, read): (usize, usize)) {
        let is_over = words.forms(thread.place).get(form).is_none_or(|f| f.len() == read);
        if !is_over {
            self.next.push(Thread { within: Some((form, read)), ..thread });
            return;
        }
        let Place { word, symbol } = thread.place;
        let Some(found) = words.rows.get(word) else { return };
        let symbol = symbol + 1;
        if symbol == found.symbols.len() {
            self.hits.push(Hit { start: thread.start, end: self.at + 1, rule: found.rule });
        } else if let Some(seen) = self.seen.get_mut(found.base + symbol)
            && *seen != self.at + 1
        {
            *seen = self.at + 1;
            self.next.push(Thread {
                start: thread.start,
                place: Place { word, symbol },
                within: None,
            });
        }
    }
}
