//! The calls of the current action, as far as the journal has to know them.

use crate::domain::id::CallId;
use crate::domain::tool::{CallState, FINAL_ANSWER};
use crate::store::journal::LoadedRun;

/// A call of the current action.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slot {
    pub(super) call_id: CallId,
    pub(super) name: String,
    pub(super) attempt: u32,
    pub(super) state: CallState,
    pub(super) is_told: bool,
}

/// The calls of an action as they are loaded.
pub(super) fn slots_of(loaded: &LoadedRun, action_seq: i64) -> Vec<Slot> {
    let of_action = loaded.calls.iter().filter(|call| call.step_seq == action_seq);
    let slot = of_action.map(|call| Slot {
        call_id: call.planned.call_id.clone(),
        name: call.planned.name.clone(),
        attempt: call.attempt,
        state: call.state,
        is_told: false,
    });
    slot.collect()
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
