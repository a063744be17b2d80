//! What is mended in a document whose calls and outcomes do not belong together, where a caller asks
//! for it. It follows the rules by which a model is told such a history: nothing is invented, and what
//! was said stays.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::checks::Layout;
use super::read::{Read, Report};
use crate::domain::id::CallId;
use crate::domain::message::ReplyPart;
use crate::domain::outcome::{OutcomeKind, ToolOutcome};
use crate::domain::step::ActionStep;

/// What is mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepairCode {
    /// A call has no outcome: it gets one.
    UnansweredCall,
    /// An outcome has no call: it is left out.
    OrphanOutcome,
    /// A call has a further outcome: it is left out.
    DuplicateOutcome,
    /// Outcomes do not stand in the order of their calls: they are put there.
    MisplacedOutcome,
    /// Steps are not counted 1, 2, 3 …: they are counted anew.
    SeqGap,
}

impl RepairCode {
    /// What it is called.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::UnansweredCall => "unanswered_call",
            Self::OrphanOutcome => "orphan_outcome",
            Self::DuplicateOutcome => "duplicate_outcome",
            Self::MisplacedOutcome => "misplaced_outcome",
            Self::SeqGap => "seq_gap",
        }
    }

    /// What was done, as a sentence for people.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::UnansweredCall => {
                "the call has no outcome; it gets the one of an interrupted call"
            }
            Self::OrphanOutcome => "no call is left for the outcome; it is left out",
            Self::DuplicateOutcome => "the call has an outcome already; this one is left out",
            Self::MisplacedOutcome => "the outcome is put where its call stands",
            Self::SeqGap => "the step is counted by its place",
        }
    }

    /// The code of the finding where it may not be mended.
    pub(super) const fn finding(self) -> &'static str {
        match self {
            Self::SeqGap => "seq_gap",
            Self::UnansweredCall
            | Self::OrphanOutcome
            | Self::DuplicateOutcome
            | Self::MisplacedOutcome => "unpaired_call",
        }
    }

    /// The sentence of that finding.
    pub(super) const fn flaw(self) -> &'static str {
        match self {
            Self::UnansweredCall => "the call has no outcome",
            Self::OrphanOutcome => "no call is left for the outcome",
            Self::DuplicateOutcome => "the call has an outcome already",
            Self::MisplacedOutcome => "outcomes stand in the order of their calls",
            Self::SeqGap => "steps are counted 1, 2, 3 … without gaps",
        }
    }
}

/// The outcome of a call that has none.
pub(super) fn interrupted(id: CallId, name: &str) -> ToolOutcome {
    ToolOutcome::not_run(id, name, OutcomeKind::Interrupted, None)
}

/// Gives every call of an action its one outcome, in the order of the calls.
pub(super) fn pair(
    layout: Layout,
    step: usize,
    action: &mut ActionStep,
    report: &Report,
) -> Read<()> {
    let calls = calls(action);
    let mut given: BTreeMap<CallId, (usize, ToolOutcome)> = BTreeMap::new();
    let known: BTreeSet<&CallId> = calls.iter().map(|call| &call.id).collect();
    for (nth, outcome) in std::mem::take(&mut action.outcomes).into_iter().enumerate() {
        let id = outcome.tool_call_id.clone();
        let code = if !known.contains(&id) {
            RepairCode::OrphanOutcome
        } else if let Entry::Vacant(place) = given.entry(id) {
            place.insert((nth, outcome));
            continue;
        } else {
            RepairCode::DuplicateOutcome
        };
        report.mend(&layout.outcome(step, nth, "tool_call_id"), code)?;
    }
    let mut last = None;
    for (nth, call) in calls.iter().enumerate() {
        let outcome = if let Some((place, outcome)) = given.remove(&call.id) {
            if last > Some(place) {
                let at = layout.outcome(step, place, "tool_call_id");
                report.mend(&at, RepairCode::MisplacedOutcome)?;
            }
            last = last.max(Some(place));
            outcome
        } else {
            report.mend(&layout.call(step, call.part, nth), RepairCode::UnansweredCall)?;
            interrupted(call.id.clone(), &call.name)
        };
        action.outcomes.push(outcome);
    }
    Ok(())
}

/// A call, and which part of the reply it is.
struct Call {
    id: CallId,
    name: String,
    part: usize,
}

fn calls(action: &ActionStep) -> Vec<Call> {
    let parts = action.reply.parts.iter().enumerate();
    let calls = parts.filter_map(|(part, it)| match it {
        ReplyPart::ToolCall(call) => {
            Some(Call { id: call.tool_call_id.clone(), name: call.name.clone(), part })
        }
        ReplyPart::Text(_)
        | ReplyPart::Thinking(_)
        | ReplyPart::RedactedThinking(_)
        | ReplyPart::Refusal(_)
        | ReplyPart::Unknown(_) => None,
    });
    calls.collect()
}
