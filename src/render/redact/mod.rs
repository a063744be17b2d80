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
mod rules;
mod scan;
mod shapes;
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

use crate::domain::message::Reply;
use crate::domain::redaction::RedactionChannel;
use crate::domain::run::RunFacts;
use crate::domain::step::StepContent;
use crate::domain::tool::ToolOutcome;
use crate::domain::wait::CallAnswer;
use placeholder::{Mark, Marks};
use rules::{Matcher, Rule, bit};
use scan::{Hit, Scan};
use step::Editor;
use sweep::{Sweep, Window, sort};

pub use placeholder::PlaceholderKey;
pub use rules::{RuleSet, Rules};
pub use stream::StreamRedactor;

/// Replacements by rule.
pub type Tally = BTreeMap<String, u64>;

fn add(tally: &mut Tally, found: Tally) {
    for (rule, n) in found {
        *tally.entry(rule).or_default() += n;
    }
}

/// Replaces what the rules name in texts of one thread.
#[derive(Debug)]
pub struct Redactor {
    rules: Arc<Rules>,
    /// By rule: what stands for a known value.
    placeholders: Vec<String>,
    marks: Marks,
    key: PlaceholderKey,
}

impl Redactor {
    /// A redactor by the rules of several origins. Where two rules take the same place, the one of the
    /// earlier origin does.
    pub fn new<'a>(sets: impl IntoIterator<Item = &'a RuleSet>, key: PlaceholderKey) -> Self {
        Self::of(&Arc::new(Rules::of(sets)), key)
    }

    /// A redactor by rules that many threads share.
    pub fn of(rules: &Arc<Rules>, key: PlaceholderKey) -> Self {
        let (mut placeholders, mut marks) = (Vec::new(), Marks::default());
        for rule in &rules.list {
            let placeholder = match (&rule.stand_in, &rule.matcher) {
                (Some(stand_in), _) => stand_in.clone(),
                (None, Matcher::Value(value)) => key.placeholder(&rule.name, value),
                (None, Matcher::Pattern(_) | Matcher::Field(_)) => String::new(),
            };
            if placeholder.is_empty() {
                marks.numbered.insert(rule.name.clone());
            } else {
                marks.known.insert(placeholder.clone());
            }
            placeholders.push(placeholder);
        }
        Self { rules: Arc::clone(rules), placeholders, marks, key }
    }

    /// A redactor that changes nothing.
    pub fn none() -> Self {
        Self::new([], PlaceholderKey::of(&[0; 32], ""))
    }

    /// A redactor of what looks like a credential, for where no other is at hand.
    pub fn of_shapes() -> Self {
        Self::new([&RuleSet::shapes()], PlaceholderKey::of(&[0; 32], ""))
    }

    /// Whether it changes nothing, whatever the text.
    pub fn is_empty(&self) -> bool {
        self.rules.list.is_empty()
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

    /// How many bytes at the end of a text that broke off may be the beginning of a known value.
    pub fn begun(&self, channel: RedactionChannel, text: &str) -> usize {
        if self.is_empty() { 0 } else { self.scan(channel, text).begun() }
    }

    /// Bytes that came from elsewhere as they may leave through a channel. Every byte is looked at as a
    /// character of its own, so that bytes that are no text pass unharmed.
    pub fn bytes<'b>(&self, channel: RedactionChannel, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let text: String = bytes.iter().copied().map(char::from).collect();
        match self.text(channel, &text) {
            Cow::Borrowed(_) => Cow::Borrowed(bytes),
            Cow::Owned(shown) => {
                Cow::Owned(shown.chars().filter_map(|letter| u8::try_from(letter).ok()).collect())
            }
        }
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
        labels: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let known = |text: &str| self.values_counted(channel, text, &mut Tally::new()).into_owned();
        labels.iter().map(|(name, label)| (known(name), known(label))).collect()
    }

    /// Redacts a reply, for a channel.
    pub fn reply(&self, channel: RedactionChannel, reply: &mut Reply) {
        let (tally, tools) = (&mut Tally::new(), &BTreeSet::new());
        Editor { redactor: self, channel, tools, tally }.reply(reply);
    }

    /// Redacts what came of a tool call, for a channel.
    pub fn outcome(&self, channel: RedactionChannel, outcome: &mut ToolOutcome) {
        let (tally, tools) = (&mut Tally::new(), &BTreeSet::new());
        Editor { redactor: self, channel, tools, tally }.outcome(outcome);
    }

    /// Redacts what a caller or a tool answers to a call, for a channel.
    pub fn answer(&self, channel: RedactionChannel, answer: &mut CallAnswer) {
        let (tally, tools) = (&mut Tally::new(), &BTreeSet::new());
        let mut editor = Editor { redactor: self, channel, tools, tally };
        match answer {
            CallAnswer::Succeeded { output: Some(output) } => editor.output(output),
            CallAnswer::Failed { error } => editor.failure(error),
            CallAnswer::Succeeded { output: None }
            | CallAnswer::Retry
            | CallAnswer::Approved { .. }
            | CallAnswer::Denied { .. } => {}
        }
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
        let mut scan = Scan::new(&self.rules.words, bit(channel));
        scan.read(&self.rules.words, &self.marks, text);
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
                let forged = number.filter(|number| regex.is_match(number));
                hits.extend(forged.map(|_| Hit { start: mark.start, end: mark.end, rule }));
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
        let rules = self.rules.list.iter().map(AsRef::as_ref).enumerate();
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
        let name = self.rules.list.get(hit.rule).map_or("", |rule| rule.name.as_str());
        match self.placeholders.get(hit.rule).filter(|known| !known.is_empty()) {
            Some(known) => (name, known.clone()),
            None => (name, self.key.placeholder(name, matched)),
        }
    }
}
