//! What a provider is told that tools are called.
//!
//! Providers accept short names of plain letters only. Agents declare others where a profile says so,
//! and a model can invent any: one that is refused would block the thread for ever. Tools, the choice of
//! one and the calls of the history go through one map, by which the calls of a reply get their names
//! back.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::profile::{Profile, is_name_char};
use crate::domain::message::{Reply, ReplyPart};
use crate::domain::tool::ToolDefinition;

/// How a call is told that names no tool.
const UNNAMED: &str = "unnamed";

/// Which characters a tool name is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolNameRule {
    /// `[A-Za-z0-9_-]`.
    #[default]
    Word,
    /// The same with `.` and `:`, but a letter or `_` comes first.
    Identifier,
}

impl ToolNameRule {
    /// Whether a character is accepted.
    const fn accepts(self, c: char) -> bool {
        is_name_char(c) || (matches!(self, Self::Identifier) && matches!(c, '.' | ':'))
    }

    /// Whether a name may begin with an accepted character.
    const fn accepts_first(self, c: char) -> bool {
        matches!(self, Self::Word) || c.is_ascii_alphabetic() || c == '_'
    }
}

/// The names of one conversation.
///
/// What a declared tool is called depends on the declarations alone, and what a tool of the history is
/// called also on the calls before it, so that a longer conversation begins like the shorter one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    longest: usize,
    rule: ToolNameRule,
    told: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl ToolNames {
    /// The names of a run's declared tools. One that is accepted as it is keeps its name, whatever the
    /// others are cut to.
    pub fn new(tools: &[ToolDefinition], profile: &Profile) -> Self {
        let mut names =
            Self { longest: profile.max_tool_name, rule: profile.tool_names, ..Self::default() };
        let (as_they_are, changed): (Vec<_>, Vec<_>) = tools
            .iter()
            .map(|tool| tool.name.as_str())
            .partition(|name| names.fitted(name) == *name);
        for name in as_they_are.into_iter().chain(changed) {
            names.told(name);
        }
        names
    }

    /// What a tool is called from now on.
    pub fn told(&mut self, name: &str) -> String {
        if let Some(told) = self.told.get(name) {
            return told.clone();
        }
        let told = self.unused(name);
        self.taken.insert(told.clone());
        self.told.insert(name.to_owned(), told.clone());
        told
    }

    /// What a tool is called, if it has been told.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.told.get(name).map(String::as_str)
    }

    /// Gives the calls of a reply the names of the tools that they mean. A name that was never told is
    /// left as it is.
    pub fn restore(&self, reply: &mut Reply) {
        for part in &mut reply.parts {
            if let ReplyPart::ToolCall(call) = part
                && let Some((name, _)) = self.told.iter().find(|(_, told)| **told == call.name)
            {
                call.name.clone_from(name);
            }
        }
    }

    /// A name that no other tool has: the fitted one, else one that ends in a hash of the original.
    fn unused(&self, name: &str) -> String {
        let fitted = self.fitted(name);
        let hashed = (0_u32..).map(|round| self.hashed(&fitted, name, round));
        let mut candidates = std::iter::once(fitted.clone()).chain(hashed);
        candidates.find(|told| !self.taken.contains(told)).unwrap_or(fitted)
    }

    /// A name in the letters and the length that providers accept.
    fn fitted(&self, name: &str) -> String {
        if name.is_empty() {
            return UNNAMED.to_owned();
        }
        let mut letters =
            name.chars().map(|c| if self.rule.accepts(c) { c } else { '_' }).peekable();
        let is_begun = letters.peek().is_some_and(|first| self.rule.accepts_first(*first));
        (!is_begun).then_some('_').into_iter().chain(letters).take(self.longest).collect()
    }

    fn hashed(&self, fitted: &str, name: &str, round: u32) -> String {
        const DIGITS: usize = 8;
        let hash = Sha256::new().chain_update(round.to_be_bytes()).chain_update(name).finalize();
        let digits: String =
            hash.iter().map(|byte| format!("{byte:02x}")).take(DIGITS / 2).collect();
        let head: String = fitted.chars().take(self.longest.saturating_sub(DIGITS + 1)).collect();
        format!("{head}_{digits}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::render::profile::ROWS;

    fn declared(names: &[&str], longest: usize) -> ToolNames {
        let tools: Vec<ToolDefinition> = names
            .iter()
            .map(|name| ToolDefinition {
                name: (*name).to_owned(),
                description: String::new(),
                parameters: json!({}),
            })
            .collect();
        ToolNames::new(&tools, &Profile { max_tool_name: longest, ..ROWS[0] })
    }

    fn is_accepted(name: &str, longest: usize) -> bool {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        (1..=longest).contains(&name.len()) && name.bytes().all(word)
    }

    fn called(name: &str) -> Reply {
        let call =
            json!({"part_kind": "tool_call", "tool_call_id": "c", "name": name, "arguments": "{}"});
        serde_json::from_value(json!({"state": "complete", "parts": [call]})).unwrap()
    }

    #[test]
    fn an_invented_name_is_made_acceptable() {
        let mut names = declared(&[], 64);
        assert_eq!(names.told("a.b$ c"), "a_b__c");
        assert_eq!(names.told(""), "unnamed");
        assert_eq!(names.told(&"é".repeat(100)), "_".repeat(64));
        assert_eq!(names.told("get_weather-2"), "get_weather-2");
    }

    #[test]
    fn a_name_begins_with_a_letter_where_it_has_to() {
        let mut names = ToolNames { rule: ToolNameRule::Identifier, ..declared(&[], 8) };
        for (name, told) in
            [("a.b:c-1", "a.b:c-1"), ("1st", "_1st"), ("-12345678", "_-123456"), ("_x", "_x")]
        {
            assert_eq!(names.told(name), told);
        }
        assert_eq!(declared(&[], 8).told("1st"), "1st");
    }

    #[test]
    fn names_that_would_be_the_same_are_told_apart_by_a_hash() {
        let mut names = declared(&["a_b"], 64);
        let told = names.told("a.b");
        assert!(told.starts_with("a_b_") && told.len() == 12, "{told}");
        assert_eq!((names.told("a.b"), names.told("a_b")), (told, "a_b".to_owned()));
        assert_ne!(names.told("a.b"), names.told("a b"));
    }

    #[test]
    fn a_declared_name_that_fits_is_kept_whatever_others_are_cut_to() {
        let names =
            declared(&["look_up_the_weather", "look_up_the_weat", "look_up_the_weatherman"], 16);
        assert_eq!(names.find("look_up_the_weat"), Some("look_up_the_weat"));
        let cut = names.find("look_up_the_weather").unwrap();
        assert!(cut.starts_with("look_up_") && cut.len() == 16, "{cut}");
        assert_ne!(cut, names.find("look_up_the_weatherman").unwrap());
    }

    #[test]
    fn the_calls_of_a_reply_get_their_names_back() {
        let names = declared(&["look_up_the_weather", "look_up_the_weatherman"], 16);
        for name in ["look_up_the_weather", "look_up_the_weatherman", "unheard_of"] {
            let told = names.find(name).unwrap_or(name);
            let mut reply = called(told);
            names.restore(&mut reply);
            assert_eq!(reply, called(name));
        }
    }

    proptest! {
        #[test]
        fn told_names_are_accepted_distinct_and_the_same_in_longer_histories(
            tools in proptest::collection::btree_set("[a-c_]{1,20}", 0..6),
            history in proptest::collection::vec("[a-c_. é]{0,20}", 0..12),
            longest in 16_usize..20,
        ) {
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let mut names = declared(&tools, longest);
            let told: Vec<String> = history.iter().map(|name| names.told(name)).collect();
            let mut again = declared(&tools, longest);
            for (name, told) in history.iter().zip(&told).take(history.len() / 2) {
                prop_assert_eq!(&again.told(name), told);
            }
            prop_assert!(names.told.values().all(|told| is_accepted(told, longest)));
            prop_assert_eq!(names.taken.len(), names.told.len());
            for (name, told) in &names.told {
                let mut reply = called(told);
                names.restore(&mut reply);
                prop_assert_eq!(reply, called(name));
            }
        }
    }
}
