//! A decision in the making: the records so far and the state they lead to.

use super::Surroundings;
use super::call::{Answer, Call};
use super::record::{Ending, Record};
use super::state::State;
use crate::domain::id::CallId;
use crate::domain::limits::Limits;
use crate::domain::model::{ModelErrorKind, Provider};
use crate::domain::run::{Failure, FailureCause, StopReason};
use crate::domain::run_message::RunMessage;
use crate::domain::wait::{CallAnswer, GivenAnswer};

/// The records of one decision. Each is folded at once, so that the next one is decided on what is
/// then true: a decision never argues about a state that the fold would not reach.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) state: State,
    pub(super) limits: &'a Limits,
    messages: &'a [RunMessage],
    answers: &'a [GivenAnswer],
    overdue: &'a [CallId],
    pub(super) is_out_of_budget: bool,
    pub(super) is_to_stop: bool,
    pub(super) records: Vec<Record>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(state: &State, around: Surroundings<'a>) -> Self {
        let Surroundings { limits, messages, answers, overdue, is_out_of_budget, is_to_stop } =
            around;
        Self {
            state: state.clone(),
            limits,
            messages,
            answers,
            overdue,
            is_out_of_budget,
            is_to_stop,
            records: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, record: Record) {
        self.state.follow(&record);
        self.records.push(record);
    }

    /// The next message that waits to enter the run.
    pub(super) fn waiting(&self) -> Option<&'a RunMessage> {
        self.messages.iter().find(|message| message.number > self.state.n_messages())
    }

    /// What was answered to a call that waits.
    pub(super) fn answer_to(&self, call: &Call) -> Option<&'a CallAnswer> {
        let fits = |given: &&GivenAnswer| {
            given.call_id == call.planned.call_id
                && Some(given.reason) == call.waits
                && given.attempt == call.attempt
        };
        self.answers.iter().find(fits).map(|given| &given.answer)
    }

    /// Whether a call has waited for as long as it may.
    pub(super) fn is_overdue(&self, call: &Call) -> bool {
        self.overdue.contains(&call.planned.call_id)
    }

    pub(super) fn complete(&mut self, answer: Answer, stop_reason: StopReason) {
        let Answer { text: answer, output } = answer;
        let stop_reason = if self.state.is_closing() { StopReason::MaxSteps } else { stop_reason };
        self.push(Record::Ended(Ending::Completed { answer, output, stop_reason }));
    }

    /// Ends the run because of what the model wrote.
    pub(super) fn fail_model(&mut self, kind: ModelErrorKind, detail: &str) {
        // A reply that does not say who gave it came over the wire that most servers speak.
        let provider = self.state.provider().unwrap_or(Provider::Openai);
        let cause = FailureCause::Model { provider, provider_status: None, kind };
        self.fail(Failure { cause, detail: detail.to_owned() });
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.push(Record::Ended(Ending::Failed(failure)));
    }
}

/// The failure of a run that is claimed again and again without getting on.
pub fn poisoned() -> Failure {
    Failure {
        cause: FailureCause::RunPoisoned,
        detail: "the run was claimed too often without getting on".to_owned(),
    }
}
