//! How calls go from state to state, and the run with them, as rows.

use super::slots::{Slot, newly_told, sub_runs, waiting};
use super::write::Draft;
use crate::domain::event::{EventData, EventName};
use crate::domain::id::CallId;
use crate::domain::run::RunStatus;
use crate::domain::step::StepContent;
use crate::domain::tool::{CallState, PlannedCall, ToolOutcome};
use crate::domain::wait::{RequiresAction, WaitReason};
use crate::store::journal::{CallMove, CallTo, NewCall, Wait};

pub(super) fn new_call(draft: &mut Draft<'_>, step_seq: i64, call_idx: u32, planned: &PlannedCall) {
    draft.journal.slots.push(Slot {
        call_id: planned.call_id.clone(),
        name: planned.name.clone(),
        arguments: planned.arguments.clone(),
        rules: planned.waits,
        waits: None,
        is_approved: false,
        sent_arguments: None,
        attempt: 0,
        state: CallState::Planned,
        is_told: false,
    });
    draft.batch.calls.push(NewCall {
        step_seq,
        call_idx,
        planned: planned.clone(),
        to: CallTo::PLANNED,
    });
}

pub(super) fn start(draft: &mut Draft<'_>, call_id: &CallId, attempt: u32) {
    move_call(draft, call_id, |to| (to.state, to.attempt) = (CallState::Started, attempt));
}

pub(super) fn end_call(draft: &mut Draft<'_>, outcome: &ToolOutcome) {
    move_call(draft, &outcome.tool_call_id, |to| {
        to.state = CallState::Ended;
        to.outcome = Some(outcome.clone());
    });
    draft.batch.is_progress = true;
    let (step_seq, turn) = (draft.journal.action_seq, draft.journal.facts.turn);
    for call_idx in newly_told(&mut draft.journal.slots) {
        draft.event(EventName::ToolResult, EventData::Call { step_seq, call_idx, turn });
    }
    show_outcomes(draft);
}

/// Moves a call on: in place when it is new in this batch, as a guarded update otherwise. A call that
/// moves on waits no more, unless it is said again.
fn move_call(draft: &mut Draft<'_>, call_id: &CallId, change: impl FnOnce(&mut CallTo)) {
    let Some(slot) = draft.journal.slots.iter_mut().find(|slot| slot.call_id == *call_id) else {
        return;
    };
    let mut to = slot.as_it_is();
    change(&mut to);
    let from = slot.follow(&to);
    let new = draft.batch.calls.iter_mut().find(|call| call.planned.call_id == *call_id);
    let moved = draft.batch.moves.iter_mut().find(|moved| moved.call_id == *call_id);
    match (new, moved) {
        (Some(new), _) => new.to = to,
        // What moves on twice in one batch moves from where it was before.
        (None, Some(moved)) => moved.to = to,
        (None, None) => {
            let call_id = call_id.clone();
            draft.batch.moves.push(CallMove { call_id, from, to });
        }
    }
}

pub(super) fn wait(draft: &mut Draft<'_>, call_id: &CallId, reason: WaitReason) {
    let slot = draft.journal.slots.iter().find(|slot| slot.call_id == *call_id);
    let bound_ms = slot.map_or(0, |slot| slot.rules.bound_ms(reason));
    move_call(draft, call_id, |to| {
        to.state = CallState::Waiting;
        to.wait = Some(Wait { reason, bound_ms });
    });
}

pub(super) fn approve(draft: &mut Draft<'_>, call_id: &CallId, arguments: Option<&str>) {
    move_call(draft, call_id, |to| {
        to.state = CallState::Planned;
        to.is_approved = true;
        to.sent_arguments = arguments.map(str::to_owned);
    });
}

pub(super) fn park(draft: &mut Draft<'_>, reason: WaitReason) {
    let (tool_calls, sub_runs) = (waiting(&draft.journal.slots), sub_runs(&draft.journal.slots));
    let facts = &mut draft.journal.facts;
    facts.requires_action = Some(RequiresAction { reason, tool_calls, sub_runs });
    draft.batch.is_progress = true;
    // What goes on by itself is told of no caller.
    if reason == WaitReason::SubRuns {
        facts.status = RunStatus::Queued;
        return;
    }
    facts.status = RunStatus::RequiresAction;
    draft.event(EventName::RunRequiresAction, EventData::Run(draft.journal.facts.clone()));
}

pub(super) fn unpark(draft: &mut Draft<'_>) {
    let facts = &mut draft.journal.facts;
    facts.status = RunStatus::Running;
    let waited = facts.requires_action.take();
    draft.batch.is_progress = true;
    if waited.is_some_and(|waited| waited.reason == WaitReason::SubRuns) {
        return;
    }
    draft.event(EventName::RunResumed, EventData::Run(draft.journal.facts.clone()));
}

/// Puts the outcomes so far into the step that a model will see, in call order.
fn show_outcomes(draft: &mut Draft<'_>) {
    let written: Vec<&ToolOutcome> = draft
        .batch
        .calls
        .iter()
        .filter_map(|call| call.to.outcome.as_ref())
        .chain(draft.batch.moves.iter().filter_map(|moved| moved.to.outcome.as_ref()))
        .collect();
    let action = draft.journal.history.iter_mut().rev().find_map(|content| {
        if let StepContent::Action(action) = content { Some(action) } else { None }
    });
    let Some(action) = action else { return };
    let before = std::mem::take(&mut action.outcomes);
    for slot in &draft.journal.slots {
        let of_slot = |outcome: &&ToolOutcome| outcome.tool_call_id == slot.call_id;
        let outcome = written.iter().copied().find(of_slot).or_else(|| before.iter().find(of_slot));
        action.outcomes.extend(outcome.cloned());
    }
}
