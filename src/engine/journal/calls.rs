//! How calls go from state to state, and the run with them, as rows.

use super::slots::{Slot, newly_told, waiting};
use super::write::Draft;
use crate::domain::event::{EventData, EventName};
use crate::domain::id::CallId;
use crate::domain::run::RunStatus;
use crate::domain::step::StepContent;
use crate::domain::tool::{CallState, PlannedCall, ToolOutcome};
use crate::domain::wait::{RequiresAction, WaitReason};
use crate::store::journal::{CallMove, CallTo, NewCall, Wait};

impl Draft<'_> {
    pub(super) fn new_call(&mut self, step_seq: i64, call_idx: u32, planned: &PlannedCall) {
        self.journal.slots.push(Slot {
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
        self.batch.calls.push(NewCall {
            step_seq,
            call_idx,
            planned: planned.clone(),
            to: CallTo::PLANNED,
        });
    }

    pub(super) fn end_call(&mut self, outcome: &ToolOutcome) {
        self.move_call(&outcome.tool_call_id, |to| {
            to.state = CallState::Ended;
            to.outcome = Some(outcome.clone());
        });
        self.batch.is_progress = true;
        let (step_seq, turn) = (self.journal.action_seq, self.journal.facts.turn);
        for call_idx in newly_told(&mut self.journal.slots) {
            self.event(EventName::ToolResult, EventData::Call { step_seq, call_idx, turn });
        }
        self.show_outcomes();
    }

    /// Moves a call on: in place when it is new in this batch, as a guarded update otherwise. A call that
    /// moves on waits no more, unless it is said again.
    pub(super) fn move_call(&mut self, call_id: &CallId, change: impl FnOnce(&mut CallTo)) {
        let Some(slot) = self.journal.slots.iter_mut().find(|slot| slot.call_id == *call_id) else {
            return;
        };
        let mut to = slot.as_it_is();
        change(&mut to);
        let from = slot.follow(&to);
        let new = self.batch.calls.iter_mut().find(|call| call.planned.call_id == *call_id);
        let moved = self.batch.moves.iter_mut().find(|moved| moved.call_id == *call_id);
        match (new, moved) {
            (Some(new), _) => new.to = to,
            // What moves on twice in one batch moves from where it was before.
            (None, Some(moved)) => moved.to = to,
            (None, None) => {
                let call_id = call_id.clone();
                self.batch.moves.push(CallMove { call_id, from, to });
            }
        }
    }

    pub(super) fn wait(&mut self, call_id: &CallId, reason: WaitReason) {
        let slot = self.journal.slots.iter().find(|slot| slot.call_id == *call_id);
        let bound_ms = slot.map_or(0, |slot| slot.rules.bound_ms(reason));
        self.move_call(call_id, |to| {
            to.state = CallState::Waiting;
            to.wait = Some(Wait { reason, bound_ms });
        });
    }

    pub(super) fn approve(&mut self, call_id: &CallId, arguments: Option<&str>) {
        self.move_call(call_id, |to| {
            to.state = CallState::Planned;
            to.is_approved = true;
            to.sent_arguments = arguments.map(str::to_owned);
        });
    }

    pub(super) fn park(&mut self, reason: WaitReason) {
        let tool_calls = waiting(&self.journal.slots);
        let facts = &mut self.journal.facts;
        facts.status = RunStatus::RequiresAction;
        facts.requires_action = Some(RequiresAction { reason, tool_calls });
        self.batch.is_progress = true;
        self.event(EventName::RunRequiresAction, EventData::Run(self.journal.facts.clone()));
    }

    pub(super) fn unpark(&mut self) {
        let facts = &mut self.journal.facts;
        facts.status = RunStatus::Running;
        facts.requires_action = None;
        self.batch.is_progress = true;
        self.event(EventName::RunResumed, EventData::Run(self.journal.facts.clone()));
    }

    /// Puts the outcomes so far into the step that a model will see, in call order.
    fn show_outcomes(&mut self) {
        let written: Vec<&ToolOutcome> = self
            .batch
            .calls
            .iter()
            .filter_map(|call| call.to.outcome.as_ref())
            .chain(self.batch.moves.iter().filter_map(|moved| moved.to.outcome.as_ref()))
            .collect();
        let action = self.journal.history.iter_mut().rev().find_map(|content| {
            if let StepContent::Action(action) = content { Some(action) } else { None }
        });
        let Some(action) = action else { return };
        let before = std::mem::take(&mut action.outcomes);
        for slot in &self.journal.slots {
            let of_slot = |outcome: &&ToolOutcome| outcome.tool_call_id == slot.call_id;
            let outcome =
                written.iter().copied().find(of_slot).or_else(|| before.iter().find(of_slot));
            action.outcomes.extend(outcome.cloned());
        }
    }
}
