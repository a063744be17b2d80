//! The agent loop as three total functions: `decide`, `evolve`, `due`.
//!
//! State is never stored: it is the fold of the committed records, and `due` says what must be under
//! way in a state. Recovery is therefore not a second code path: load, fold, do what is due.
//!
//! All records of one decision are committed together. Whatever does not fit the state, because it is
//! late, repeated or unknown, decides to nothing.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod effect;
pub mod input;
pub mod record;
pub mod state;

mod call;
mod calls;
mod draft;
mod repeat;
mod turn;
mod wait;

#[cfg(test)]
mod tests;

pub use self::calls::stopped;
pub use self::draft::poisoned;

use self::draft::Draft;
use self::effect::Effect;
use self::input::Input;
use self::record::{Ending, Record};
use self::state::{Phase, State};
use crate::domain::id::CallId;
use crate::domain::limits::Limits;
use crate::domain::run_message::RunMessage;
use crate::domain::tool::{CallState, OutcomeKind};
use crate::domain::wait::GivenAnswer;

/// What a decision depends on beside the state and the input.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The bounds of the run.
    pub limits: &'a Limits,
    /// The messages to the run that are known, in order. Those that entered it already do not count.
    pub messages: &'a [RunMessage],
    /// What callers answered to calls that wait, as far as it is known.
    pub answers: &'a [GivenAnswer],
    /// The calls that have waited for as long as they may.
    pub overdue: &'a [CallId],
    /// Whether there is no budget for what would come next: a call of a model, or the calls of a turn.
    pub is_out_of_budget: bool,
    /// Whether a caller wants the run to stop: it then stops where it would begin to wait.
    pub is_to_stop: bool,
}

/// What to write down about something that happened; empty when it does not count.
pub fn decide(state: &State, input: Input, around: Surroundings<'_>) -> Vec<Record> {
    let mut draft = Draft::new(state, around);
    match input {
        Input::Claimed => claimed(&mut draft),
        Input::Replied { turn, attempt, reply, calls, verdict } => {
            if state.awaits_reply(turn, attempt) {
                turn::replied(&mut draft, reply, calls, verdict);
            }
        }
        Input::ModelFailed { turn, attempt, retryable, elsewhere, failure } => {
            if state.awaits_reply(turn, attempt) {
                turn::model_failed(&mut draft, (retryable, elsewhere), failure);
            }
        }
        Input::Compacted { turn, attempt, summary } => {
            if state.awaits_reply(turn, attempt) {
                turn::compacted(&mut draft, summary);
            }
        }
        Input::CallsStarting { call_ids } => {
            if *state.phase() == Phase::Acting && state.parked().is_none() {
                calls::starting(&mut draft, &call_ids);
            }
        }
        Input::CallEnded { outcome, attempt } => {
            if state.awaits_outcome(&outcome.tool_call_id, attempt) {
                calls::ended(&mut draft, outcome);
            }
        }
        Input::Probed { call_id, attempt, answer } => {
            if state.is_probing(&call_id, attempt) {
                calls::probed(&mut draft, &call_id, answer);
            }
        }
        Input::Interrupted { partial } => {
            calls::stop(&mut draft, partial, OutcomeKind::Interrupted, Ending::Interrupted);
        }
        Input::Cancelled => {
            calls::stop(&mut draft, None, OutcomeKind::Cancelled, Ending::Cancelled);
        }
        Input::Aborted { failure } => {
            calls::stop(&mut draft, None, OutcomeKind::Cancelled, Ending::Failed(failure));
        }
        Input::Resumed => {
            if state.ending() == Some(&Ending::Interrupted) {
                draft.push(Record::Resumed);
                turn::next(&mut draft);
            }
        }
    }
    draft.records
}

fn claimed(draft: &mut Draft<'_>) {
    if draft.state.parked().is_some() {
        draft.push(Record::Unparked);
    }
    match draft.state.phase() {
        Phase::Blank | Phase::Ended(_) => {}
        Phase::Ready => turn::next(draft),
        Phase::Thinking => turn::reclaim(draft),
        Phase::Acting => calls::reclaim(draft),
    }
}

/// What is true after a record.
#[must_use]
pub fn evolve(mut state: State, record: &Record) -> State {
    state.follow(record);
    state
}

/// What is true after all these records, from the beginning.
pub fn fold(records: impl IntoIterator<Item = Record>) -> State {
    records.into_iter().fold(State::default(), |state, record| evolve(state, &record))
}

/// What must be under way. The calls that may start are one effect, so that they are one commit.
pub fn due(state: &State) -> Vec<Effect> {
    if state.parked().is_some() {
        return Vec::new();
    }
    match state.phase() {
        Phase::Blank | Phase::Ready | Phase::Ended(_) => Vec::new(),
        Phase::Thinking => vec![Effect::CallModel {
            turn: state.turn(),
            attempt: state.attempt(),
            closing: state.is_closing(),
        }],
        Phase::Acting => {
            let call_ids: Vec<_> = calls::startable(state).into_iter().map(calls::id).collect();
            let start = (!call_ids.is_empty()).then_some(Effect::StartCalls { call_ids });
            let run = calls::in_state(state, CallState::Started).into_iter().map(|call| {
                Effect::CallTool { call_id: call.planned.call_id, attempt: call.attempt }
            });
            let probe = state.calls().iter().filter(|call| call.is_to_be_probed());
            let probe =
                probe.map(|call| Effect::Probe { call_id: calls::id(call), attempt: call.attempt });
            start.into_iter().chain(run).chain(probe).collect()
        }
    }
}
