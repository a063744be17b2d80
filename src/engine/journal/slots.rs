//! The calls of the current action, as far as the journal has to know them.

use super::write::Journal;
use crate::domain::id::CallId;
use crate::domain::sub_run::{SubRun, run_of};
use crate::domain::tool::{CallState, FINAL_ANSWER};
use crate::domain::wait::{WaitReason, WaitRules, WaitingCall};
use crate::store::journal::{CallTo, LoadedRun};

/// A call of the current action.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slot {
    pub(super) call_id: CallId,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) rules: WaitRules,
    pub(super) waits: Option<WaitReason>,
    pub(super) is_approved: bool,
    pub(super) sent_arguments: Option<String>,
    pub(super) attempt: u32,
    pub(super) state: CallState,
    pub(super) is_told: bool,
}

impl Slot {
    /// How the call stands. A call that is changed has no outcome yet.
    pub(super) fn as_it_is(&self) -> CallTo {
        CallTo {
            state: self.state,
            attempt: self.attempt,
            wait: None,
            is_approved: self.is_approved,
            sent_arguments: self.sent_arguments.clone(),
            outcome: None,
        }
    }

    /// Goes where the call goes, and answers how far it had come.
    pub(super) fn follow(&mut self, to: &CallTo) -> CallState {
        self.attempt = to.attempt;
        self.waits = to.wait.map(|wait| wait.reason);
        self.is_approved = to.is_approved;
        self.sent_arguments.clone_from(&to.sent_arguments);
        std::mem::replace(&mut self.state, to.state)
    }
}

/// The calls of an action as they are loaded.
pub(super) fn slots_of(loaded: &LoadedRun, action_seq: i64) -> Vec<Slot> {
    let of_action = loaded.calls.iter().filter(|call| call.step_seq == action_seq);
    let slot = of_action.map(|call| Slot {
        call_id: call.planned.call_id.clone(),
        name: call.planned.name.clone(),
        arguments: call.planned.arguments.clone(),
        rules: call.planned.waits,
        waits: call.waits,
        is_approved: call.is_approved,
        sent_arguments: call.sent_arguments.clone(),
        attempt: call.attempt,
        state: call.state,
        is_told: false,
    });
    slot.collect()
}

/// The calls of an action, as budgets count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedCalls {
    /// `seq` of the action.
    pub(crate) action_seq: i64,
    /// Whether one of them was started or waits for a caller.
    pub(crate) is_begun: bool,
    /// How many are set aside: all that have no outcome, once one has begun.
    pub(crate) held: u64,
}

/// Counts the calls of the current action; `final_answer` is none.
pub(crate) fn counted_calls(journal: &Journal) -> CountedCalls {
    let counted = || journal.slots.iter().filter(|slot| slot.name != FINAL_ANSWER);
    let is_begun = counted().any(|slot| match slot.state {
        CallState::Planned => false,
        CallState::Started | CallState::Waiting => true,
        CallState::Ended => slot.attempt > 0,
    });
    let n_open = counted().filter(|slot| slot.state != CallState::Ended).count();
    let held = if is_begun { u64::try_from(n_open).unwrap_or(u64::MAX) } else { 0 };
    CountedCalls { action_seq: journal.action_seq, is_begun, held }
}

/// The calls that wait for a caller, in call order.
pub(super) fn waiting(slots: &[Slot]) -> Vec<WaitingCall> {
    let is_asked =
        |slot: &&Slot| slot.state == CallState::Waiting && slot.waits != Some(WaitReason::SubRuns);
    let waiting = slots.iter().filter(is_asked);
    let call = |slot: &Slot| {
        Some(WaitingCall {
            tool_call_id: slot.call_id.clone(),
            name: slot.name.clone(),
            arguments: slot.arguments.clone(),
            reason: slot.waits?,
        })
    };
    waiting.filter_map(call).collect()
}

/// The sub-runs that are waited for, in call order.
pub(super) fn sub_runs(slots: &[Slot]) -> Vec<SubRun> {
    let waiting = slots.iter().filter(|slot| slot.waits == Some(WaitReason::SubRuns));
    let sub_run = |slot: &Slot| {
        let (tool_call_id, name) = (slot.call_id.clone(), slot.name.clone());
        Some(SubRun { run_id: run_of(&tool_call_id)?, tool_call_id, name })
    };
    waiting.filter_map(sub_run).collect()
}

/// Results are told in call order: the places that have ended with every place before them, and were
/// not told yet.
pub(super) fn newly_told(slots: &mut [Slot]) -> Vec<u32> {
    let mut told = Vec::new();
    for (place, slot) in (0_u32..).zip(slots.iter_mut()) {
        if slot.state != CallState::Ended {
            break;
        }
        let is_news = !std::mem::replace(&mut slot.is_told, true);
        // The answer is told as the end of the run, not as a tool's result.
        if is_news && slot.name != FINAL_ANSWER {
            told.push(place);
        }
    }
    told
}
