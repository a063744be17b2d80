//! Calls that wait for callers: when they begin to, what an answer leads to, and when nothing else goes on.

use std::time::Duration;

use super::calls::{self, close, may_repeat, startable};
use super::draft::Draft;
use super::record::{Ending, Record};
use super::state::Call;
use crate::domain::tool::{CallState, OutcomeKind, ToolFailure, ToolOutcome};
use crate::domain::wait::{CallAnswer, OnInDoubt, WaitReason};

/// What the model is told when nobody decided about a call.
const UNDECIDED: &str = "nobody decided in time whether the call may run";

/// Whether an outcome leaves open what became of a call, and its tool wants that to be found out.
pub(super) fn is_held(call: &Call, kind: OutcomeKind) -> bool {
    let is_unknown = matches!(kind, OutcomeKind::InDoubt | OutcomeKind::Timeout);
    is_unknown && !may_repeat(&call.planned) && call.planned.waits.on_in_doubt != OnInDoubt::Observe
}

/// Puts on record that it is not known what became of a call.
pub(super) fn doubt(draft: &mut Draft<'_>, call: &Call) {
    if is_held(call, OutcomeKind::InDoubt) {
        let call_id = calls::id(call);
        draft.push(Record::CallWaits { call_id, reason: WaitReason::InDoubt });
    } else {
        close(draft, call, OutcomeKind::InDoubt);
    }
}

/// Goes on with the calls that have their answer, and gives up those that waited in vain.
pub(super) fn settle(draft: &mut Draft<'_>) {
    for call in calls::in_state(&draft.state, CallState::Waiting) {
        if let Some(answer) = draft.answer_to(&call) {
            apply(draft, &call, answer);
        } else if draft.is_overdue(&call) {
            give_up(draft, &call);
        }
    }
}

/// Goes on with a call as it was answered.
pub(super) fn apply(draft: &mut Draft<'_>, call: &Call, answer: &CallAnswer) {
    let call_id = calls::id(call);
    match answer {
        CallAnswer::Approved { arguments } => {
            let arguments = arguments.clone();
            draft.push(Record::CallApproved { call_id, arguments });
        }
        CallAnswer::Denied { message } => deny(draft, call, message.as_deref()),
        CallAnswer::Retry => {
            let attempt = call.attempt.saturating_add(1);
            draft.push(Record::CallRestarted { call_id, attempt });
        }
        CallAnswer::Succeeded { output } => {
            let succeeded = outcome(call, OutcomeKind::Success, None);
            let output = output.clone();
            let outcome = ToolOutcome { is_error: false, output, ..succeeded };
            draft.push(Record::CallEnded { outcome });
        }
        CallAnswer::Failed { error } => {
            let outcome = outcome(call, OutcomeKind::Execution, Some(error.clone()));
            draft.push(Record::CallEnded { outcome });
        }
    }
}

fn deny(draft: &mut Draft<'_>, call: &Call, message: Option<&str>) {
    let error = message.map(|message| ToolFailure {
        r#type: "Denied".to_owned(),
        message: message.to_owned(),
        redacted: false,
    });
    let outcome = outcome(call, OutcomeKind::Denied, error);
    draft.push(Record::CallEnded { outcome });
}

/// Ends a wait that took too long.
fn give_up(draft: &mut Draft<'_>, call: &Call) {
    match call.waits {
        Some(WaitReason::Approval) => deny(draft, call, Some(UNDECIDED)),
        Some(WaitReason::InDoubt) => close(draft, call, OutcomeKind::InDoubt),
        Some(WaitReason::ToolResults) => late(draft, call),
        Some(WaitReason::SubRuns | WaitReason::BudgetExhausted) | None => {
            close(draft, call, OutcomeKind::Timeout);
        }
    }
}

/// Ends a call whose result did not come, with the bound that it had.
fn late(draft: &mut Draft<'_>, call: &Call) {
    let bound = Duration::from_millis(call.planned.waits.answer_ms).as_secs_f64();
    let error = ToolFailure {
        r#type: "Timeout".to_owned(),
        message: format!("tool '{}' exceeded its {bound}s timeout", call.planned.name),
        redacted: false,
    };
    let outcome = ToolOutcome::not_run(
        calls::id(call),
        &call.planned.name,
        OutcomeKind::Timeout,
        Some(error),
    );
    draft.push(Record::CallEnded { outcome });
}

/// An outcome that came from elsewhere. A call that a caller or a sub-run ran counts as tried once.
fn outcome(call: &Call, kind: OutcomeKind, error: Option<ToolFailure>) -> ToolOutcome {
    let attempts = match call.waits {
        Some(WaitReason::ToolResults | WaitReason::SubRuns) => 1,
        _ => call.attempt,
    };
    let not_run = ToolOutcome::not_run(calls::id(call), &call.planned.name, kind, error);
    ToolOutcome { attempts, ..not_run }
}

/// Lets the run wait, or stop where that is wanted: a run that waits would not hear of it.
pub(super) fn park(draft: &mut Draft<'_>, reason: WaitReason) {
    if draft.is_to_stop {
        calls::stop(draft, None, OutcomeKind::Interrupted, Ending::Interrupted);
    } else {
        draft.push(Record::Parked { reason });
    }
}

/// Lets the run wait when its calls do and nothing goes on any more by itself.
pub(super) fn park_if_idle(draft: &mut Draft<'_>) {
    let state = &draft.state;
    let goes_on =
        state.open_calls().any(|call| call.state() == CallState::Started || call.is_to_be_probed())
            || !startable(state).is_empty();
    let goes_on = goes_on || state.parked().is_some();
    // What a caller has to do comes first: the sub-runs end without anybody.
    let waits = || state.open_calls().filter_map(|call| call.waits);
    let reason = waits().find(|reason| *reason != WaitReason::SubRuns).or_else(|| waits().next());
    if let (false, Some(reason)) = (goes_on, reason) {
        park(draft, reason);
    }
}
