//! What no single value shows: that calls and outcomes belong together, one to one and in order.

use std::collections::BTreeSet;

use super::read::{Flawed, Node, Read, Report};
use super::repair;
use crate::domain::id::CallId;
use crate::domain::message::ReplyPart;
use crate::domain::step::ActionStep;

/// The longest call id in characters.
const MAX_CALL_ID_CHARS: usize = 128;

/// A call's id: 1–128 characters.
pub(super) fn call_id(node: &Node<'_>) -> Read<CallId> {
    let text = node.text()?;
    if text.is_empty() || text.chars().count() > MAX_CALL_ID_CHARS {
        let message = format!("a call id has 1 to {MAX_CALL_ID_CHARS} characters");
        return Err(node.flaw("invalid_value", message));
    }
    Ok(CallId(text))
}

/// Where a document's version keeps the ids of calls and outcomes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Layout {
    /// `tool_calls` and `tool_results`.
    V1,
    /// Parts of the reply and `outcomes`.
    V2,
}

impl Layout {
    /// Where a call has its id: the `nth` call, which is this part of the reply.
    pub(super) fn call(self, step: usize, part: usize, nth: usize) -> String {
        match self {
            Self::V1 => format!("/steps/{step}/data/model_message/tool_calls/{nth}/id"),
            Self::V2 => format!("/steps/{step}/reply/parts/{part}/tool_call_id"),
        }
    }

    /// Where an outcome has a member.
    pub(super) fn outcome(self, step: usize, nth: usize, member: &str) -> String {
        match self {
            Self::V1 => format!("/steps/{step}/data/tool_results/{nth}/{member}"),
            Self::V2 => format!("/steps/{step}/outcomes/{nth}/{member}"),
        }
    }
}

/// A call or an outcome as the checks see it.
struct Named<'a> {
    id: &'a CallId,
    name: &'a str,
    place: usize,
}

/// The calls seen so far in a document.
#[derive(Debug)]
pub(super) struct Pairing<'a> {
    layout: Layout,
    report: &'a Report,
    seen: BTreeSet<CallId>,
}

impl<'a> Pairing<'a> {
    /// A document without calls so far.
    pub(super) fn new(layout: Layout, report: &'a Report) -> Self {
        Self { layout, report, seen: BTreeSet::new() }
    }

    /// Checks one action: every call has one outcome, every outcome its call, in the same order and
    /// with the same name; no id is used twice in the document. A mender makes it so first.
    pub(super) fn check(&mut self, step: usize, action: &mut ActionStep) -> Read<()> {
        if self.report.is_of_a_mender() {
            repair::pair(self.layout, step, action, self.report)?;
        }
        let calls: Vec<Named<'_>> = action
            .reply
            .parts
            .iter()
            .enumerate()
            .filter_map(|(place, part)| {
                let ReplyPart::ToolCall(call) = part else { return None };
                Some(Named { id: &call.tool_call_id, name: &call.name, place })
            })
            .collect();
        let outcomes: Vec<Named<'_>> = action
            .outcomes
            .iter()
            .enumerate()
            .map(|(place, outcome)| Named { id: &outcome.tool_call_id, name: &outcome.name, place })
            .collect();
        let unique = self.unique_ids(step, &calls);
        let answered = self.answered(step, &calls, &outcomes);
        let wanted = self.wanted(step, &calls, &outcomes);
        unique.and(answered).and(wanted)?;
        self.same_order_and_names(step, &calls, &outcomes)
    }

    fn unique_ids(&mut self, step: usize, calls: &[Named<'_>]) -> Read<()> {
        let mut read = Ok(());
        for (nth, call) in calls.iter().enumerate() {
            if !self.seen.insert(call.id.clone()) {
                let pointer = self.layout.call(step, call.place, nth);
                read = Err(self.report.add(
                    &pointer,
                    "duplicate_call_id",
                    "another call of the document has this id",
                ));
            }
        }
        read
    }

    fn answered(&self, step: usize, calls: &[Named<'_>], outcomes: &[Named<'_>]) -> Read<()> {
        let ids: BTreeSet<&CallId> = outcomes.iter().map(|outcome| outcome.id).collect();
        let mut read = Ok(());
        for (nth, call) in calls.iter().enumerate().filter(|(_, call)| !ids.contains(call.id)) {
            let pointer = self.layout.call(step, call.place, nth);
            read = Err(self.report.add(&pointer, "unpaired_call", "the call has no outcome"));
        }
        read
    }

    fn wanted(&self, step: usize, calls: &[Named<'_>], outcomes: &[Named<'_>]) -> Read<()> {
        let mut open: BTreeSet<&CallId> = calls.iter().map(|call| call.id).collect();
        let mut read = Ok(());
        for outcome in outcomes {
            if !open.remove(outcome.id) {
                read = Err(self.unpaired(
                    step,
                    outcome.place,
                    "no call of this step is left for the outcome",
                ));
            }
        }
        read
    }

    fn unpaired(&self, step: usize, nth: usize, message: &str) -> Flawed {
        self.report.add(&self.layout.outcome(step, nth, "tool_call_id"), "unpaired_call", message)
    }

    fn same_order_and_names(
        &self,
        step: usize,
        calls: &[Named<'_>],
        outcomes: &[Named<'_>],
    ) -> Read<()> {
        let mut read = Ok(());
        for (call, outcome) in calls.iter().zip(outcomes) {
            if call.id != outcome.id {
                let message = "outcomes stand in the order of their calls";
                return Err(self.unpaired(step, outcome.place, message));
            }
            if call.name != outcome.name {
                let pointer = self.layout.outcome(step, outcome.place, "name");
                let message = "the name is not the one of its call";
                read = Err(self.report.add(&pointer, "invalid_value", message));
            }
        }
        read
    }
}
