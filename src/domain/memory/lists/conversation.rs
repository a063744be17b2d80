//! The steps of a message list as far as it is read, and the calls that wait for their outcomes.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::id::CallId;
use crate::domain::memory::read::{Flawed, Node, Read};
use crate::domain::memory::repair::{RepairCode, interrupted};
use crate::domain::message::{Reply, ToolCallPart};
use crate::domain::step::{ActionStep, InputPart, StepContent, SystemStep, TaskStep};
use crate::domain::tool::ToolOutcome;

/// A call of the last reply.
struct OpenCall<'a> {
    /// Where its id stands.
    place: Node<'a>,
    id: CallId,
    name: String,
    outcome: Option<ToolOutcome>,
}

/// A message list as far as it is read.
///
/// Outcomes answer calls of the last reply only, in any order and over any number of messages; the
/// step has them in the order of their calls. What cannot be paired is reported as it is in our own
/// formats. Once a message could not be read, nothing is said about pairs: the missing half may be in
/// that message.
#[derive(Default)]
pub(super) struct Conversation<'a> {
    steps: Vec<StepContent>,
    /// The calls of the last action, which is at `acted_at`.
    open: Vec<OpenCall<'a>>,
    /// Which of them wait for an outcome.
    waiting: BTreeMap<CallId, usize>,
    acted_at: usize,
    seen: BTreeSet<CallId>,
    has_unread: bool,
}

impl<'a> Conversation<'a> {
    /// Takes note of whether a message could be read.
    pub(super) fn note(&mut self, read: Read<()>) {
        self.has_unread |= read.is_err();
    }

    /// All steps, once all messages are read.
    pub(super) fn finish(mut self) -> Read<Vec<StepContent>> {
        self.close();
        if self.has_unread { Err(Flawed) } else { Ok(self.steps) }
    }

    /// Appends a step.
    pub(super) fn append(&mut self, step: StepContent) {
        self.steps.push(step);
    }

    /// Appends a text in the system voice.
    pub(super) fn say_as_system(&mut self, text: String) {
        self.append(StepContent::System(SystemStep { text }));
    }

    /// Appends what the person said. `node` is where it stands.
    pub(super) fn ask(&mut self, node: &Node<'_>, parts: Vec<InputPart>) -> Read<()> {
        if parts.is_empty() {
            return Err(node.flaw("invalid_value", "a user's message has at least one part"));
        }
        self.append(StepContent::Task(TaskStep { parts }));
        Ok(())
    }

    /// Appends a reply. `places` are those of the ids of its calls, in call order.
    pub(super) fn act(&mut self, reply: Reply, places: Vec<Node<'a>>) {
        self.close();
        self.open = reply.tool_calls().zip(places).map(|(call, at)| open(call, at)).collect();
        for (nth, call) in self.open.iter().enumerate() {
            self.waiting.entry(call.id.clone()).or_insert(nth);
            if !self.seen.insert(call.id.clone()) {
                let message = "another call of the document has this id";
                call.place.flaw("duplicate_call_id", message);
            }
        }
        self.acted_at = self.steps.len();
        self.append(StepContent::Action(ActionStep { reply, outcomes: Vec::new(), v1: None }));
    }

    /// Answers a call. `place` is that of the call's id, `named` that of the tool's name, which is the
    /// call's own where the document does not repeat it.
    pub(super) fn answer(
        &mut self,
        place: &Node<'_>,
        named: Option<&Node<'_>>,
        mut outcome: ToolOutcome,
    ) {
        let waiting = self.waiting.remove(&outcome.tool_call_id);
        let Some(call) = waiting.and_then(|nth| self.open.get_mut(nth)) else {
            if !self.has_unread {
                self.leave_out(place, &outcome.tool_call_id);
            }
            return;
        };
        match named {
            Some(named) if outcome.name != call.name => {
                named.flaw("invalid_value", "the name is not the one of its call");
            }
            Some(_) => {}
            None => outcome.name.clone_from(&call.name),
        }
        call.outcome = Some(outcome);
    }

    /// Leaves an outcome out for which no call of the last reply is left, or reports it.
    fn leave_out(&self, place: &Node<'_>, id: &CallId) {
        let is_answered = self.open.iter().any(|call| call.id == *id);
        let code =
            if is_answered { RepairCode::DuplicateOutcome } else { RepairCode::OrphanOutcome };
        // What cannot be mended is among the findings.
        let _reported = place.mend(code);
    }

    /// How a call ended, as far as that is known or may be said.
    fn outcome(&self, call: OpenCall<'a>) -> Option<ToolOutcome> {
        if call.outcome.is_some() || self.has_unread {
            return call.outcome;
        }
        let mended = call.place.mend(RepairCode::UnansweredCall);
        mended.is_ok().then(|| interrupted(call.id, &call.name))
    }

    /// Gives the last action its outcomes.
    fn close(&mut self) {
        self.waiting.clear();
        let calls = std::mem::take(&mut self.open);
        let mut outcomes: Vec<_> =
            calls.into_iter().filter_map(|call| self.outcome(call)).collect();
        if let Some(StepContent::Action(action)) = self.steps.get_mut(self.acted_at) {
            action.outcomes.append(&mut outcomes);
        }
    }
}

fn open<'a>(call: &ToolCallPart, place: Node<'a>) -> OpenCall<'a> {
    OpenCall { place, id: call.tool_call_id.clone(), name: call.name.clone(), outcome: None }
}
