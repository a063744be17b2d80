//! Rules made ready to be looked for.

use std::sync::Arc;

use regex::Regex;

use super::forms;
use super::scan::Words;
use super::shapes;
use crate::domain::redaction::{
    PLACEHOLDER_START, RedactionChannel, RedactionRule, SECRET_RULE, every_channel, pattern_regex,
};

/// A rule that is ready to be looked for.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) channels: u8,
    pub(super) matcher: Matcher,
    /// What stands for its value, where that is not a number of its thread.
    pub(super) stand_in: Option<String>,
}

pub(super) enum Matcher {
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
            stand_in: None,
        };
        Self(values.into_iter().map(|value| Arc::new(rule(value))).collect())
    }

    /// Secrets by their names, which stand in their place everywhere: whoever gave a secret its name
    /// knows which one it is, and nobody can tell values by it.
    pub fn named<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let channels = every_channel().into_iter().map(bit).sum();
        let rule = |(name, value): (&str, &str)| Rule {
            name: format!("{SECRET_RULE}:{name}"),
            channels,
            matcher: Matcher::Value(value.to_owned()),
            stand_in: Some(format!("{PLACEHOLDER_START}{SECRET_RULE}:{name}]")),
        };
        Self(secrets.into_iter().map(|secret| Arc::new(rule(secret))).collect())
    }

    /// What credentials look like, on every way out. The name of a shape stands in the place of what has
    /// it: a number would let guesses at short ones be checked.
    pub fn shapes() -> Self {
        let channels = every_channel().into_iter().map(bit).sum();
        let rule = |(name, regex)| Rule {
            name: format!("{SECRET_RULE}:{name}"),
            channels,
            matcher: Matcher::Pattern(regex),
            stand_in: Some(format!("{PLACEHOLDER_START}{SECRET_RULE}:{name}]")),
        };
        Self(shapes::shapes().map(|shape| Arc::new(rule(shape))).collect())
    }

    /// These and others behind them.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        self.0.extend(others.0.iter().cloned());
        self
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The rules of several origins, made ready for any number of threads.
#[derive(Debug)]
pub struct Rules {
    pub(super) list: Vec<Arc<Rule>>,
    pub(super) words: Words,
}

impl Rules {
    /// Where two rules take the same place, the one of the earlier origin does.
    pub fn of<'a>(sets: impl IntoIterator<Item = &'a RuleSet>) -> Self {
        let list: Vec<Arc<Rule>> = sets.into_iter().flat_map(|set| set.0.iter().cloned()).collect();
        let mut words = Words::new();
        for (n, rule) in list.iter().enumerate() {
            let Matcher::Value(value) = &rule.matcher else { continue };
            for row in forms::words(value) {
                words.add(&row, n, rule.channels);
            }
        }
        Self { list, words }
    }
}

fn ready(rule: &RedactionRule) -> Rule {
    let matcher = match rule {
        RedactionRule::Value(rule) => Matcher::Value(rule.value.clone()),
        RedactionRule::Pattern(rule) => Matcher::Pattern(searched(&rule.pattern)),
        RedactionRule::Field(rule) => Matcher::Field(rule.field.clone()),
    };
    let channels = rule.channels().iter().copied().map(bit).sum();
    Rule { name: rule.rule_name().to_owned(), channels, matcher, stand_in: None }
}

/// A pattern was found sound when it was stored. Should another version of the server think otherwise,
/// nothing gets out rather than everything.
fn searched(pattern: &str) -> Regex {
    pattern_regex(pattern).unwrap_or_else(|_| everything())
}

pub(super) fn everything() -> Regex {
    #[expect(clippy::expect_used, reason = "a constant pattern that a test compiles")]
    Regex::new("(?s).+").expect("a valid pattern")
}

/// A channel's place in a set of them.
pub(super) fn bit(channel: RedactionChannel) -> u8 {
    1 << channel as u8
}
