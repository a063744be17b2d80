//! Redaction: known values, patterns and members are replaced before they leave the server.
//!
//! It is a pass over the history that comes before framing and truncation, so that neither can break a
//! value apart. A placeholder holds no character that a frame, JSON or a URL gives a meaning to other
//! than brackets and colons. No rule reaches into one that is the redactor's own; as anyone can write the
//! number of a rule that knows no values, such a number is looked at like other text, and then what is
//! redacted twice may have another number.

mod forms;
mod json;
mod pattern;
mod placeholder;
mod scan;
mod step;
mod stream;
mod sweep;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use crate::domain::redaction::{
    RedactionChannel, RedactionRule, SECRET_RULE, every_channel, pattern_regex,
};
use crate::domain::run::RunFacts;
use crate::domain::step::StepContent;
use placeholder::{Mark, Marks};
use scan::{Hit, Scan, Words};
use step::Editor;
use sweep::{Sweep, Window, sort};

pub use placeholder::PlaceholderKey;
pub use stream::StreamRedactor;

/// Replacements by rule.
pub type Tally = BTreeMap<String, u64>;

/// A rule that is ready to be looked for.
#[derive(Debug)]
struct Rule {
    name: String,
    channels: u8,
    matcher: Matcher,
}

enum Matcher {
    Value(String),
    Pattern(Regex),
    Field(String),
}

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Value(_) => "Value",
            Self::Pattern(_) => "Pattern",
            Self::Field(_) => "Field",
        })
    }
}

/// Rules of one origin. They are made ready once and serve many threads.
#[derive(Debug, Clone, Default)]
pub struct RuleSet(Vec<Arc<Rule>>);

impl RuleSet {
    /// Rules as written, which have been found sound.
    pub fn of(rules: &[RedactionRule]) -> Self {
        Self(rules.iter().map(|rule| Arc::new(ready(rule))).collect())
    }

    /// Secrets of the server: they are replaced everywhere.
    pub fn secrets<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let channels = every_channel().into_iter().map(bit).sum();
        let rule = |value: &str| Rule {
            name: SECRET_RULE.to_owned(),
            channels,
            matcher: Matcher::Value(value.to_owned()),
        };
        Self(values.into_iter().map(|value| Arc::new(rule(value))).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn ready(rule: &RedactionRule) -> Rule {
    let matcher = match rule {
        RedactionRule::Value(rule) => Matcher::Value(rule.value.clone()),
        RedactionRule::Pattern(rule) => Matcher::Pattern(searched(&rule.pattern)),
        RedactionRule::Field(rule) => Matcher::Field(rule.field.clone()),
    };
    let channels = rule.channels().iter().copied().map(bit).sum();
    Rule { name: rule.rule_name().to_owned(), channels, matcher }
}

/// A pattern was found sound when it was stored. Should another version of the server think otherwise,
/// nothing gets out rather than everything.
fn searched(pattern: &str) -> Regex {
    pattern_regex(pattern).unwrap_or_else(|_| everything())
}

fn everything() -> Regex {
    #[expect(clippy::expect_used, reason = "a constant pattern that a test compiles")]
    Regex::new("(?s).+").expect("a valid pattern")
}

fn add(tally: &mut Tally, found: Tally) {
    for (rule, n) in found {
        *tally.entry(rule).or_default() += n;
    }
}

/// A channel's place in a set of them.
fn bit(channel: RedactionChannel) -> u8 {
    1 << channel as u8
}

/// Replaces what the rules name in texts of one thread.
#[derive(Debug)]
pub struct Redactor {
    rules: Vec<Arc<Rule>>,
    words: Words,
    /// By rule: what stands for a known value.
    placeholders: Vec<String>,
    marks: Marks,
    key: PlaceholderKey,
}

impl Redactor {
    /// A redactor by the rules of several origins. Where two rules take the same place, the one of the
    /// earlier origin does.
    pub fn new<'a>(sets: impl IntoIterator<Item = &'a RuleSet>, key: PlaceholderKey) -> Self {
        let rules: Vec<Arc<Rule>> =
            sets.into_iter().flat_map(|set| set.0.iter().cloned()).collect();
        let mut words = Words::new();
        let (mut placeholders, mut marks) = (Vec::new(), Marks::default());
        for (n, rule) in rules.iter().enumerate() {
            let value = if let Matcher::Value(value) = &rule.matcher { Some(value) } else { None };
            let rows = value.map(|value| forms::words(value)).unwrap_or_default();
            for row in &rows {
                words.add(row, n, rule.channels);
            }
            let placeholder = value.map(|value| key.placeholder(&rule.name, value));
            match &placeholder {
                Some(known) => marks.known.insert(known.clone()),
                None => marks.numbered.insert(rule.name.clone()),
            };
            placeholders.push(placeholder.unwrap_or_default());
        }
        Self { rules, words, placeholders, marks, key }
    }

    /// A redactor that changes nothing.
    pub fn none() -> Self {
        Self::new([], PlaceholderKey::of(&[0; 32], ""))
    }

    /// Whether it changes nothing, whatever the text.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// A text as it may leave through a channel.
    pub fn text<'t>(&self, channel: RedactionChannel, text: &'t str) -> Cow<'t, str> {
        self.text_counted(channel, text, &mut Tally::new())
    }

    /// The same; what is replaced is counted.
    pub fn text_counted<'t>(
        &self,
        channel: RedactionChannel,
        text: &'t str,
        tally: &mut Tally,
    ) -> Cow<'t, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut scan = self.scan(channel, text);
        let window = Window { text, base: 0 };
        let patterns = self.pattern_hits(channel, window, 0, &scan.placeholders);
        scan.hits.extend(patterns);
        self.replaced(text, scan.hits, tally)
    }

    /// JSON text as it may leave through a channel. What needs no redaction keeps its spelling; a text
    /// that is no JSON is redacted like any other.
    pub fn json_text<'t>(&self, channel: RedactionChannel, text: &'t str) -> Cow<'t, str> {
        self.json_text_counted(channel, text, &mut Tally::new())
    }

    fn json_text_counted<'t>(
        &self,
        channel: RedactionChannel,
        text: &'t str,
        tally: &mut Tally,
    ) -> Cow<'t, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        json::text(self, channel, text, tally)
    }

    /// A JSON value as it may leave through a channel.
    pub fn json<'v>(&self, channel: RedactionChannel, value: &'v Value) -> Cow<'v, Value> {
        self.json_counted(channel, value, &mut Tally::new())
    }

    fn json_counted<'v>(
        &self,
        channel: RedactionChannel,
        value: &'v Value,
        tally: &mut Tally,
    ) -> Cow<'v, Value> {
        if self.is_empty() {
            return Cow::Borrowed(value);
        }
        match json::text(self, channel, &value.to_string(), tally) {
            Cow::Borrowed(_) => Cow::Borrowed(value),
            Cow::Owned(text) => {
                Cow::Owned(serde_json::from_str(&text).unwrap_or(Value::String(text)))
            }
        }
    }

    /// Like [`Redactor::json`], for JSON whose members are words of a schema and not data.
    pub fn schema<'v>(&self, channel: RedactionChannel, value: &'v Value) -> Cow<'v, Value> {
        if self.is_empty() {
            return Cow::Borrowed(value);
        }
        json::schema(self, channel, value).map_or(Cow::Borrowed(value), Cow::Owned)
    }

    /// A step as it may leave through a channel.
    pub fn step<'s>(
        &self,
        channel: RedactionChannel,
        step: &'s StepContent,
    ) -> Cow<'s, StepContent> {
        self.step_counted(channel, step, &mut Tally::new())
    }

    /// A step as a model is told it. The names of tools that it is told about stay: it could not call
    /// them otherwise.
    pub fn told<'s>(&self, step: &'s StepContent, tools: &BTreeSet<&str>) -> Cow<'s, StepContent> {
        self.edited((RedactionChannel::Model, tools), step, &mut Tally::new())
    }

    /// The same; what is replaced is counted.
    pub fn step_counted<'s>(
        &self,
        channel: RedactionChannel,
        step: &'s StepContent,
        tally: &mut Tally,
    ) -> Cow<'s, StepContent> {
        self.edited((channel, &BTreeSet::new()), step, tally)
    }

    fn edited<'s>(
        &self,
        (channel, tools): (RedactionChannel, &BTreeSet<&str>),
        step: &'s StepContent,
        tally: &mut Tally,
    ) -> Cow<'s, StepContent> {
        if self.is_empty() {
            return Cow::Borrowed(step);
        }
        let mut found = Tally::new();
        let mut redacted = step.clone();
        Editor { redactor: self, channel, tools, tally: &mut found }.step(&mut redacted);
        if found.is_empty() {
            return Cow::Borrowed(step);
        }
        add(tally, found);
        Cow::Owned(redacted)
    }

    /// Labels as they may leave through a channel: known values are replaced.
    #[must_use]
    pub fn labels(
        &self,
        channel: RedactionChannel,
        labels: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let known = |text: &str| self.values_counted(channel, text, &mut Tally::new()).into_owned();
        labels.iter().map(|(name, label)| (known(name), known(label))).collect()
    }

    /// Redacts what a run answered or why it failed, for a channel.
    pub fn facts(&self, channel: RedactionChannel, facts: &mut RunFacts) {
        let (tally, tools) = (&mut Tally::new(), &BTreeSet::new());
        Editor { redactor: self, channel, tools, tally }.facts(facts);
    }

    /// Like [`Redactor::text_counted`], for known values alone.
    fn values_counted<'t>(
        &self,
        channel: RedactionChannel,
        text: &'t str,
        tally: &mut Tally,
    ) -> Cow<'t, str> {
        self.replaced(text, self.scan(channel, text).hits, tally)
    }

    fn scan(&self, channel: RedactionChannel, text: &str) -> Scan {
        let mut scan = Scan::new(&self.words, bit(channel));
        scan.read(&self.words, &self.marks, text);
        scan
    }

    fn replaced<'t>(&self, text: &'t str, hits: Vec<Hit>, tally: &mut Tally) -> Cow<'t, str> {
        if hits.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut hits = pattern::bounded(hits, (0, text.len()));
        sort(&mut hits);
        let mut out = String::with_capacity(text.len());
        let window = Window { text, base: 0 };
        Sweep::default().write(self, (window, text.len()), &hits, (&mut out, tally));
        Cow::Owned(out)
    }

    /// What the patterns match outside of placeholders and in their numbers, from an offset on.
    fn pattern_hits(
        &self,
        channel: RedactionChannel,
        window: Window<'_>,
        from: usize,
        placeholders: &[Mark],
    ) -> Vec<Hit> {
        let mut hits = Vec::new();
        for (rule, regex) in self.patterns(channel) {
            let mut begin = from;
            for mark in placeholders {
                pattern::search((rule, regex), window, (begin, mark.start), &mut hits);
                begin = begin.max(mark.end);
                let number = mark.doubtful().map(|(start, end)| window.between(start, end));
                if number.is_some_and(|number| regex.is_match(number)) {
                    hits.push(Hit { start: mark.start, end: mark.end, rule });
                }
            }
            pattern::search((rule, regex), window, (begin, window.end()), &mut hits);
        }
        pattern::bounded(hits, (from, window.end()))
    }

    fn patterns(&self, channel: RedactionChannel) -> impl Iterator<Item = (usize, &Regex)> {
        self.on(channel).filter_map(|(n, rule)| match &rule.matcher {
            Matcher::Pattern(regex) => Some((n, regex)),
            Matcher::Value(_) | Matcher::Field(_) => None,
        })
    }

    fn on(&self, channel: RedactionChannel) -> impl Iterator<Item = (usize, &Rule)> {
        let is_on = move |rule: &Rule| rule.channels & bit(channel) != 0;
        let rules = self.rules.iter().map(AsRef::as_ref).enumerate();
        rules.filter(move |(_, rule)| is_on(rule))
    }

    /// The rule that takes the value of a member of this name.
    fn field_rule(&self, channel: RedactionChannel, name: &str) -> Option<&str> {
        let is_named = |rule: &&Rule| match &rule.matcher {
            Matcher::Field(field) => field.eq_ignore_ascii_case(name),
            Matcher::Value(_) | Matcher::Pattern(_) => false,
        };
        let rule = self.on(channel).map(|(_, rule)| rule).find(is_named)?;
        Some(&rule.name)
    }

    /// Whether members are looked for on a channel.
    pub fn has_fields(&self, channel: RedactionChannel) -> bool {
        self.on(channel).any(|(_, rule)| matches!(rule.matcher, Matcher::Field(_)))
    }

    /// Whether patterns are looked for on a channel.
    pub fn has_patterns(&self, channel: RedactionChannel) -> bool {
        self.patterns(channel).next().is_some()
    }

    /// The name of the rule that takes a place, and what stands there instead.
    fn stand_in(&self, hit: &Hit, matched: &str) -> (&str, String) {
        let name = self.rules.get(hit.rule).map_or("", |rule| rule.name.as_str());
        match self.placeholders.get(hit.rule).filter(|known| !known.is_empty()) {
            Some(known) => (name, known.clone()),
            None => (name, self.key.placeholder(name, matched)),
        }
    }
}
