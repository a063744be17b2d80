//! Fitting texts, call ids and arguments into what a provider accepts.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::profile::{CallIdRule, Profile};

pub use crate::domain::line::single_line;

/// Keeps the head and the tail of a text that is longer than `limit` characters, and says between
/// them how many were left out.
pub fn truncated(text: &str, limit: usize) -> Cow<'_, str> {
    cut(text, limit).map_or(Cow::Borrowed(text), |pieces| Cow::Owned(pieces.concat()))
}

/// The pieces of a text that is cut: its head, what is said between them, and its tail. `None`: it is
/// short enough.
pub fn cut(text: &str, limit: usize) -> Option<[Cow<'_, str>; 3]> {
    let total = text.chars().count();
    if total <= limit {
        return None;
    }
    let tail = limit / 2;
    let omitted = total - limit;
    let head_end = byte_at(text, limit - tail);
    let tail_start = byte_at(text, total - tail);
    let (head, _) = text.split_at_checked(head_end).unwrap_or((text, ""));
    let (_, tail) = text.split_at_checked(tail_start).unwrap_or(("", text));
    let said = format!("\n... [{omitted} characters omitted] ...\n");
    Some([Cow::Borrowed(head), Cow::Owned(said), Cow::Borrowed(tail)])
}

/// Where the character with this index begins.
fn byte_at(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

/// Arguments in the form that providers accept in a history: the exact text when it is a JSON object,
/// else an object that holds the text.
pub fn arguments(text: &str) -> String {
    if text.trim().is_empty() {
        return "{}".to_owned();
    }
    match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(_) => text.to_owned(),
        Err(_) => json!({ "INVALID_JSON": text }).to_string(),
    }
}

/// The call ids told to a provider in one conversation.
///
/// An id that does not fit or is already taken is replaced by one that depends only on what came
/// before, so that a longer conversation begins like the shorter one.
#[derive(Debug)]
pub struct CallIds {
    rule: CallIdRule,
    told: BTreeSet<String>,
}

impl CallIds {
    /// Ids for a conversation with a provider.
    pub const fn new(profile: &Profile) -> Self {
        Self { rule: profile.call_ids, told: BTreeSet::new() }
    }

    /// The provider's name for the next call.
    pub fn next(&mut self, id: &str) -> String {
        let fits = self.rule.accepts(id);
        let mut told = id.to_owned();
        let mut number = self.told.len();
        while (!fits && told == id) || self.told.contains(&told) {
            number = number.saturating_add(1);
            told = numbered(self.rule, number);
        }
        self.told.insert(told.clone());
        told
    }
}

/// An id made of a number. Where the length is fixed, nine digits and letters of it are far more than
/// a conversation has calls.
fn numbered(rule: CallIdRule, number: usize) -> String {
    match rule {
        CallIdRule::AtMost(_) => format!("call_{number}"),
        CallIdRule::Exactly(length) => {
            let width = length.saturating_sub(1);
            format!("c{number:0>width$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::profile::ROWS;

    #[test]
    fn truncation_counts_characters_and_keeps_both_ends() {
        assert_eq!(truncated("äöüß", 4), "äöüß");
        assert_eq!(truncated("abcdefghij", 5), "abc\n... [5 characters omitted] ...\nij");
        assert_eq!(truncated("äöüßé", 2), "ä\n... [3 characters omitted] ...\né");
        assert_eq!(truncated("abc", 1), "a\n... [2 characters omitted] ...\n");
        assert_eq!(truncated("abc", 0), "\n... [3 characters omitted] ...\n");
    }

    #[test]
    fn arguments_stay_as_sent_when_they_are_an_object() {
        let spelt = "{ \"b\":1.0e2, \"a\":\t[ ] }";
        assert_eq!(arguments(spelt), spelt);
        assert_eq!(arguments(" "), "{}");
        assert_eq!(arguments("[1]"), r#"{"INVALID_JSON":"[1]"}"#);
        assert_eq!(arguments("{\"a\": \"cut"), r#"{"INVALID_JSON":"{\"a\": \"cut"}"#);
    }

    #[test]
    fn call_ids_are_kept_where_they_fit_and_are_new() {
        let mut ids = CallIds::new(&ROWS[1]);
        let long = "x".repeat(65);
        let told: Vec<String> =
            ["a", "a", "", "call_2", &long, "b c"].iter().map(|id| ids.next(id)).collect();
        assert_eq!(told, ["a", "call_2", "call_3", "call_4", "call_5", "call_6"]);
    }

    #[test]
    fn call_ids_of_a_fixed_length_are_numbered_where_they_do_not_fit() {
        let profile = Profile { call_ids: CallIdRule::Exactly(9), ..ROWS[1] };
        let mut ids = CallIds::new(&profile);
        let told: Vec<String> =
            ["abcDEF123", "abcDEF123", "call_1"].iter().map(|id| ids.next(id)).collect();
        assert_eq!(told, ["abcDEF123", "c00000002", "c00000003"]);
        assert!(told.iter().all(|id| profile.call_ids.accepts(id)));
    }
}
