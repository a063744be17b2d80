//! What callers and clocks do to a run: answers, time that is over, wishes to stop, budgets. It refuses
//! what the store refuses.

use proptest::prelude::*;

use super::super::calls;
use super::super::state::Call;
use super::world::restored;
use super::*;
use crate::domain::tool::ToolFailure;
use crate::domain::wait::{CallAnswer, Delegate, GivenAnswer, OnInDoubt, WaitReason, WaitRules};

/// What there is beside the journal, and how much of it the worker knows.
#[derive(Debug, Clone, Default)]
pub(super) struct Outside {
    answers: Vec<GivenAnswer>,
    n_heard: usize,
    overdue: Vec<CallId>,
    wants_stop: bool,
    knows_stop: bool,
    pub(super) is_out_of_budget: bool,
}

/// What a caller or a clock does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    /// A call that waits is answered.
    Answer(usize),
    /// A call has waited for as long as it may.
    TimeOver(usize),
    /// The run is to stop.
    Stop,
    /// The budget is used up, or raised.
    Budget(bool),
}

/// What a call starts a run of; which agent is of no account here.
pub(super) fn delegate() -> Delegate {
    Delegate { agent: uuid::Uuid::nil().into(), version: 1, timeout_ms: 1_000 }
}

pub(super) fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => any::<usize>().prop_map(Deed::Answer),
        2 => any::<usize>().prop_map(Deed::TimeOver),
        1 => Just(Deed::Stop),
        2 => prop::bool::weighted(0.3).prop_map(Deed::Budget),
    ]
}

pub(super) fn rules() -> impl Strategy<Value = WaitRules> {
    let doubt = prop::sample::select(OnInDoubt::ALL);
    let whose = prop::sample::select(vec![0, 0, 0, 1, 2]);
    let some = (whose, prop::bool::weighted(0.3), doubt);
    let some = some.prop_map(|(whose, approval, on_in_doubt)| WaitRules {
        by_client: whose == 1,
        by_run: (whose == 2).then(delegate),
        approval,
        on_in_doubt,
        ..WaitRules::NONE
    });
    prop_oneof![2 => Just(WaitRules::NONE), 3 => some]
}

impl Outside {
    /// What the worker knows.
    pub(super) fn around<'a>(&'a self, around: Surroundings<'a>) -> Surroundings<'a> {
        Surroundings {
            answers: self.heard(),
            overdue: &self.overdue,
            is_out_of_budget: self.is_out_of_budget,
            is_to_stop: self.knows_stop,
            ..around
        }
    }

    /// The answers that the worker knows.
    pub(super) fn heard(&self) -> &[GivenAnswer] {
        &self.answers[..self.n_heard]
    }

    /// Whether the store refuses a decision for something that the worker does not know; it then does.
    pub(super) fn refuses(&mut self, state: &State, records: &[Record]) -> bool {
        let parks = matches!(records.last(), Some(Record::Parked { .. }));
        let ends_wait = records.iter().any(|record| ends_wait(state, record));
        if (parks || ends_wait) && self.n_heard < self.answers.len() {
            self.n_heard = self.answers.len();
            return true;
        }
        if parks && self.wants_stop && !self.knows_stop {
            self.knows_stop = true;
            return true;
        }
        false
    }

    /// Forgets what a decision has settled.
    pub(super) fn settle(&mut self, state: &State) {
        self.overdue.clear();
        if state.is_ended() {
            (self.wants_stop, self.knows_stop) = (false, false);
        }
    }

    /// Another worker reads everything anew.
    pub(super) fn reload(&mut self) {
        self.n_heard = self.answers.len();
        self.knows_stop = false;
    }

    /// Takes an answer to a call, if it waits for one.
    pub(super) fn give(&mut self, call: &Call, answer: CallAnswer) {
        let Some(reason) = call.waits else { return };
        let (call_id, attempt) = (call.planned.call_id.clone(), call.attempt);
        let given = GivenAnswer { call_id, reason, attempt, answer };
        let question = |given: &GivenAnswer| (given.call_id.clone(), given.reason, given.attempt);
        if self.answers.iter().all(|other| question(other) != question(&given)) {
            self.answers.push(given);
        }
    }
}

/// Whether a record ends the wait of a call that waits in a state.
fn ends_wait(state: &State, record: &Record) -> bool {
    let waits = |call_id| state.call(call_id).is_some_and(|call| call.waits.is_some());
    if let Record::CallEnded { outcome } = record {
        return waits(&outcome.tool_call_id);
    }
    if let Record::CallApproved { call_id, .. } | Record::CallRestarted { call_id, .. } = record {
        return waits(call_id);
    }
    false
}

/// An answer of the kind that a call waits for.
pub(super) fn answer_for(reason: WaitReason, pick: usize) -> CallAnswer {
    let succeeded = CallAnswer::Succeeded { output: Some(text_output("seen")) };
    let message = "It is broken.".to_owned();
    let error = ToolFailure { r#type: "ClientError".to_owned(), message, redacted: false };
    match (reason, pick % 3) {
        (WaitReason::Approval, 0) => CallAnswer::Approved { arguments: None },
        (WaitReason::Approval, 1) => CallAnswer::Approved { arguments: Some("{}".to_owned()) },
        (WaitReason::Approval, _) => CallAnswer::Denied { message: Some("No.".to_owned()) },
        (WaitReason::InDoubt, 1) => CallAnswer::Retry,
        (_, 2) => CallAnswer::Failed { error },
        _ => succeeded,
    }
}

/// The calls that wait.
fn waiting(play: &Play) -> Vec<Call> {
    play.state.calls().iter().filter(|call| call.waits.is_some()).cloned().collect()
}

/// Answers one of the calls that wait.
fn answer(play: &mut Play, pick: usize) {
    let waiting = waiting(play);
    if let Some(call) = waiting.get(pick % waiting.len().max(1)) {
        let reason = call.waits.unwrap();
        play.outside.give(call, answer_for(reason, pick / waiting.len()));
    }
}

/// Another worker reads the journal.
pub(super) fn reload(play: &mut Play) {
    play.state = restored(&play.journal);
    play.n_known = play.said.len();
    play.outside.reload();
}

/// Gives the run what it waits for, so that it goes on.
pub(super) fn relieve(play: &mut Play, pick: usize) {
    play.outside.is_out_of_budget = false;
    answer(play, pick);
    reload(play);
}

/// Does something to the run; whether a worker is to take it then.
pub(super) fn suffer(play: &mut Play, deed: Deed) -> bool {
    let is_parked = play.state.parked().is_some();
    match deed {
        Deed::Answer(pick) => answer(play, pick),
        Deed::TimeOver(pick) => {
            let waiting = waiting(play);
            let over = waiting.get(pick % waiting.len().max(1));
            play.outside.overdue = over.map(calls::id).into_iter().collect();
            return is_parked || over.is_some();
        }
        Deed::Stop => play.outside.wants_stop = !play.state.is_ended(),
        Deed::Budget(is_out) => {
            play.outside.is_out_of_budget = is_out;
            return is_parked && !is_out;
        }
    }
    is_parked
}
