//! Making a history acceptable to every provider, without editing what is stored.
//!
//! A history written here is acceptable already. An imported one, or one rendered while calls are
//! under way, may not be.

mod diagnosis;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use super::profile::{OwnThinking, Profile};
use crate::domain::id::CallId;
use crate::domain::message::{TextPart, ThinkingPart, ToolCallPart};
use crate::domain::model::Provider;
use crate::domain::step::ActionStep;
use crate::domain::tool::{OutcomeKind, ToolOutcome};

pub use diagnosis::{Reader, diagnose};

/// The calls of an action in order, each with exactly one outcome.
///
/// A call without one counts as interrupted. Of several outcomes for a call the first is taken; an
/// outcome without a call is left out.
pub fn answered_calls(action: &ActionStep) -> Vec<(&ToolCallPart, Cow<'_, ToolOutcome>)> {
    pair(action).0
}

/// The answered calls, and the places of the outcomes that are left over, in order.
fn pair(action: &ActionStep) -> (Vec<(&ToolCallPart, Cow<'_, ToolOutcome>)>, Vec<usize>) {
    let mut open: BTreeMap<&CallId, VecDeque<(usize, &ToolOutcome)>> = BTreeMap::new();
    for (place, outcome) in action.outcomes.iter().enumerate() {
        open.entry(&outcome.tool_call_id).or_default().push_back((place, outcome));
    }
    let answered = action.reply.tool_calls().map(|call| {
        let first = open.get_mut(&call.tool_call_id).and_then(VecDeque::pop_front);
        let answer = first.map(|(_, outcome)| Cow::Borrowed(outcome));
        (call, answer.unwrap_or_else(|| Cow::Owned(interrupted(call))))
    });
    let answered = answered.collect();
    let mut left_over: Vec<usize> = open.into_values().flatten().map(|(place, _)| place).collect();
    left_over.sort_unstable();
    (answered, left_over)
}

fn interrupted(call: &ToolCallPart) -> ToolOutcome {
    ToolOutcome::not_run(call.tool_call_id.clone(), &call.name, OutcomeKind::Interrupted, None)
}

/// Whether a reader cannot take thinking back as its own.
pub fn is_foreign(thinking: &ThinkingPart, provider: Provider, profile: &Profile) -> bool {
    let needs_signature = profile.own_thinking == OwnThinking::GoesBackSigned;
    thinking.issuer != Some(provider) || (needs_signature && thinking.signature.is_none())
}

/// Whether what only its issuer can read is told to the reader: it issued it, and takes it back.
pub fn goes_back(issuer: Option<Provider>, provider: Provider, profile: &Profile) -> bool {
    issuer == Some(provider) && profile.own_thinking != OwnThinking::IsLeftOut
}

/// Whether a text of a reply is told: what is blank says nothing, but its issuer may want back what
/// came with it.
pub fn is_said(part: &TextPart, is_own: bool) -> bool {
    non_blank(&part.text).is_some() || (is_own && part.echo.is_some())
}

/// Whether thinking holds anything that its issuer can take back.
pub fn is_thought(part: &ThinkingPart) -> bool {
    non_blank(&part.text).is_some() || part.signature.is_some() || part.echo.is_some()
}

/// A text that providers accept as a block; `None` when there is nothing in it but white space.
pub fn non_blank(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::support::{action, call, success};

    #[test]
    fn every_call_gets_one_outcome_in_call_order() {
        let step = action(
            vec![call("a", "t", "{}"), call("b", "t", "{}"), call("c", "t", "{}")],
            vec![
                success("c", "3"),
                success("orphan", "x"),
                success("a", "1"),
                success("a", "again"),
            ],
        );
        let answered = answered_calls(&step);
        let ids: Vec<&str> = answered.iter().map(|(call, _)| call.tool_call_id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(*answered[0].1, success("a", "1"));
        assert_eq!(answered[1].1.kind, OutcomeKind::Interrupted);
        assert_eq!(*answered[2].1, success("c", "3"));
    }

    #[test]
    fn two_calls_with_one_id_take_their_outcomes_in_order() {
        let step = action(
            vec![call("a", "t", "{}"), call("a", "t", "{}")],
            vec![success("a", "1"), success("a", "2")],
        );
        let answered = answered_calls(&step);
        assert_eq!(*answered[1].1, success("a", "2"));
    }

    #[test]
    fn white_space_alone_is_blank() {
        assert_eq!(non_blank(" \n\t\u{3000}"), None);
        assert_eq!(non_blank(" a "), Some(" a "));
    }
}
