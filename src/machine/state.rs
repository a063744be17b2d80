//! What is true of a run: the fold of its committed records. It is never stored.

use super::call::Answer;
pub use super::call::Call;
use super::record::{Ending, Record};
use super::repeat::{self, Signature};
use crate::domain::id::CallId;
use crate::domain::message::Reply;
use crate::domain::model::{FinishReason, Provider};
use crate::domain::tool::{CallState, PlannedCall};
use crate::domain::wait::WaitReason;

/// Where a run stands between two commits.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Phase {
    /// It has no task yet.
    #[default]
    Blank,
    /// Nothing is under way: before the first turn, or after a resumption.
    Ready,
    /// The model is asked.
    Thinking,
    /// The calls of a reply are under way.
    Acting,
    /// It is over; only an interrupted run leads on.
    Ended(Ending),
}

/// What the last reply said besides its calls.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Said {
    pub(super) text: Option<String>,
    pub(super) is_refusal: bool,
    pub(super) finish_reason: Option<FinishReason>,
}

/// What is true of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    phase: Phase,
    turn: u32,
    attempt: u32,
    closing: bool,
    /// The last turn in which the model replied; 0 before the first reply.
    answered_turn: u32,
    /// The place of the model that is asked among the fallbacks; 0 for the first model.
    fallback: u32,
    /// The attempts at the turn that other models had.
    elsewhere: u32,
    calls: Vec<Call>,
    provider: Option<Provider>,
    pub(super) said: Said,
    /// Retries since the last reply that could be used or the last message.
    pub(super) n_retries: u32,
    /// Turns with a call that cannot be read since the last reply that could be used or the last message.
    pub(super) n_unparsable: u32,
    /// Turns in a row that asked for the same, this one included; 0 after one that asked nothing.
    pub(super) n_repeats: u32,
    signature: Option<Signature>,
    /// What everything waits for.
    parked: Option<WaitReason>,
    /// The last turn before which older steps were told in a shorter form; 0 when there is none.
    compacted_turn: u32,
    n_messages: u32,
}

impl State {
    /// Where it stands.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The current or last turn; 0 before the first.
    pub const fn turn(&self) -> u32 {
        self.turn
    }

    /// The current or last attempt of that turn.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The place of the model that is asked among the fallbacks, from 1; 0 for the first model, which
    /// every turn begins with.
    pub const fn fallback(&self) -> u32 {
        self.fallback
    }

    /// How often the model that is asked has been asked in this turn, this time included.
    pub const fn tries(&self) -> u32 {
        self.attempt.saturating_sub(self.elsewhere)
    }

    /// Whether the current turn is the last one, without tools.
    pub const fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether nothing more happens by itself.
    pub const fn is_ended(&self) -> bool {
        self.ending().is_some()
    }

    /// What it waits for, while nothing goes on until a caller acts.
    pub const fn parked(&self) -> Option<WaitReason> {
        self.parked
    }

    /// How it ended.
    pub const fn ending(&self) -> Option<&Ending> {
        match &self.phase {
            Phase::Ended(ending) => Some(ending),
            Phase::Blank | Phase::Ready | Phase::Thinking | Phase::Acting => None,
        }
    }

    /// The calls of the current turn, in order.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// A call of the current turn.
    pub fn call(&self, call_id: &CallId) -> Option<&Call> {
        self.calls.iter().find(|call| call.planned.call_id == *call_id)
    }

    /// The calls without an outcome, in order.
    pub fn open_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.ended.is_none())
    }

    /// What the first successful `final_answer` of the turn, in call order, gave back.
    pub(super) fn answer(&self) -> Option<&Answer> {
        self.calls.iter().find_map(|call| call.answer.as_ref())
    }

    /// Who gave the last reply that says so.
    pub const fn provider(&self) -> Option<Provider> {
        self.provider
    }

    /// The number of the last message that entered the run; 0 before the first.
    pub const fn n_messages(&self) -> u32 {
        self.n_messages
    }

    /// Whether the model's answer to this attempt is waited for.
    pub fn awaits_reply(&self, turn: u32, attempt: u32) -> bool {
        self.parked.is_none()
            && self.phase == Phase::Thinking
            && (self.turn, self.attempt) == (turn, attempt)
    }

    /// Whether the conversation was made shorter for the current turn.
    pub const fn is_compacted(&self) -> bool {
        self.turn > 0 && self.compacted_turn == self.turn
    }

    /// Whether the outcome of this attempt of a call is waited for.
    pub fn awaits_outcome(&self, call_id: &CallId, attempt: u32) -> bool {
        self.phase == Phase::Acting
            && self
                .call(call_id)
                .is_some_and(|call| call.state() == CallState::Started && call.attempt == attempt)
    }

    /// Whether it is asked what became of this attempt of a call.
    pub fn is_probing(&self, call_id: &CallId, attempt: u32) -> bool {
        self.parked.is_none()
            && self.phase == Phase::Acting
            && self
                .call(call_id)
                .is_some_and(|call| call.is_to_be_probed() && call.attempt == attempt)
    }

    pub(super) fn follow(&mut self, record: &Record) {
        match record {
            // A turn that was interrupted before its reply is still without one where no other begins.
            Record::Resumed if self.answered_turn < self.turn => self.phase = Phase::Thinking,
            Record::TaskGiven { .. } | Record::ActionRecorded { .. } | Record::Resumed => {
                self.phase = Phase::Ready;
            }
            Record::TurnStarted { turn, attempt, closing } => {
                self.start_turn(*turn, *attempt, *closing);
            }
            Record::FellBack { attempt, fallback, .. } => {
                self.elsewhere = *attempt;
                self.fallback = *fallback;
            }
            Record::SystemSaid { .. } | Record::ToolsChanged { .. } => {}
            Record::Compacted { turn, .. } => self.compacted_turn = *turn,
            Record::MessageGiven { number, .. } => self.take_message(*number),
            Record::Replied { reply, calls, .. } => self.hear(reply, calls),
            Record::CallsStarted { call_ids } => {
                for call_id in call_ids {
                    self.change(call_id, |call| call.start(1));
                }
            }
            Record::CallRestarted { call_id, attempt } => {
                self.change(call_id, |call| call.start(*attempt));
            }
            Record::CallWaits { call_id, reason } => {
                self.change(call_id, |call| call.wait(*reason));
            }
            Record::CallApproved { call_id, arguments } => {
                self.change(call_id, |call| call.approve(arguments.as_deref()));
            }
            Record::CallProbed { call_id } => self.change(call_id, |call| call.is_probed = true),
            Record::CallEnded { outcome } => {
                self.change(&outcome.tool_call_id, |call| call.end(outcome));
            }
            Record::Parked { reason } => self.parked = Some(*reason),
            Record::Unparked => self.parked = None,
            Record::RetryAsked { .. } => self.n_retries = self.n_retries.saturating_add(1),
            Record::Ended(ending) => {
                self.parked = None;
                self.phase = Phase::Ended(ending.clone());
            }
        }
    }

    /// What a model does again after it was told something new does not count as in a row with what it
    /// did before: repeats, retries and calls that cannot be read are counted from the next turn.
    fn take_message(&mut self, number: u32) {
        self.n_messages = number;
        self.signature = None;
        self.n_retries = 0;
        self.n_unparsable = 0;
    }

    fn start_turn(&mut self, turn: u32, attempt: u32, closing: bool) {
        self.phase = Phase::Thinking;
        self.turn = turn;
        self.attempt = attempt;
        self.closing = closing;
        self.calls.clear();
        if attempt == 1 {
            self.forget_fallback();
        }
    }

    /// Which model answered is of no account once it has.
    const fn forget_fallback(&mut self) {
        self.fallback = 0;
        self.elsewhere = 0;
    }

    fn hear(&mut self, reply: &Reply, calls: &[PlannedCall]) {
        self.phase = Phase::Acting;
        self.answered_turn = self.turn;
        self.forget_fallback();
        self.provider = reply.provider.or(self.provider);
        self.said = Said {
            text: reply.text(),
            is_refusal: reply.refusal().is_some(),
            finish_reason: reply.finish_reason,
        };
        self.calls = calls.iter().map(Call::new).collect();
        self.count(calls);
    }

    /// Counts towards the bounds on replies of one kind in a row. A reply without calls ends the run,
    /// is followed by a `RetryAsked`, which counts it, or by a message, after which counting begins anew.
    fn count(&mut self, calls: &[PlannedCall]) {
        let cut = is_cut(self.said.finish_reason, calls);
        if cut {
            self.n_retries = self.n_retries.saturating_add(1);
        } else if calls.iter().any(|call| call.unparsable) {
            self.n_unparsable = self.n_unparsable.saturating_add(1);
        } else if !calls.is_empty() {
            self.n_retries = 0;
            self.n_unparsable = 0;
        }
        let signature = if cut { None } else { repeat::signature(calls) };
        self.n_repeats = match &signature {
            None => 0,
            Some(_) if signature == self.signature => self.n_repeats.saturating_add(1),
            Some(_) => 1,
        };
        self.signature = signature;
    }

    /// Changes a call that has no outcome yet.
    fn change(&mut self, call_id: &CallId, change: impl FnOnce(&mut Call)) {
        let is_it = |call: &&mut Call| call.planned.call_id == *call_id && call.ended.is_none();
        if let Some(call) = self.calls.iter_mut().find(is_it) {
            change(call);
        }
    }
}

/// Whether the size limit cut a reply off among its calls, so that none of them may run.
pub(super) fn is_cut(finish_reason: Option<FinishReason>, calls: &[PlannedCall]) -> bool {
    finish_reason == Some(FinishReason::Length) && !calls.is_empty()
}
