//! Tests of the loop: rules by name, properties over generated moves, and what keeps them honest.
//!
//! # Mutants
//!
//! `.ci/mutants.sh` plants each of these, one at a time, and expects red, also of the test named here.
//!
//! | mutant | caught by |
//! |---|---|
//! | a stale reply is accepted | `turns::a_reply_to_an_earlier_attempt_does_not_count` |
//! | a repeated or unknown outcome is accepted | `calls::a_late_repeated_or_unknown_outcome_does_not_count` |
//! | an outcome of an earlier attempt is accepted | `calls::a_late_repeated_or_unknown_outcome_does_not_count` |
//! | the step limit is off by one | `properties::every_journal_obeys_the_rules` |
//! | one model attempt too many | `turns::a_retryable_failure_is_retried_until_the_attempts_are_used_up` |
//! | a fallback has the attempts that are left only | `turns::each_model_has_all_its_attempts_and_the_next_turn_begins_with_the_first` |
//! | one output retry too many | `turns::replies_with_nothing_usable_are_retried_a_bounded_number_of_times` |
//! | one retry after truncation too many | `turns::no_call_of_a_truncated_reply_runs` |
//! | one retry of unreadable calls too many | `turns::unreadable_calls_are_corrected_at_most_twice_in_a_row` |
//! | the next turn starts with open calls | `properties::every_journal_obeys_the_rules` |
//! | a finished run is interrupted | `properties::every_journal_obeys_the_rules` |
//! | turns are miscounted | `properties::every_journal_obeys_the_rules` |
//! | an at_most_once call is repeated after a reclaim | `properties::every_journal_obeys_the_rules` |
//! | a call of a truncated reply runs | `properties::every_journal_obeys_the_rules` |
//! | the loop is seen one turn late | `turns::identical_turns_in_a_row_end_the_run` |
//! | calls that need order run together | `properties::every_journal_obeys_the_rules` |
//! | an at_most_once call starts with the reply | `properties::every_journal_obeys_the_rules` |
//! | a lost model call is repeated for ever | `turns::a_model_call_that_keeps_losing_its_worker_poisons_the_run` |
//! | a lost tool call is repeated for ever | `calls::a_call_that_keeps_losing_its_worker_poisons_the_run` |
//! | an open call is not closed at the end | `properties::every_journal_obeys_the_rules` |
//! | a resumption forgets the step limit | `properties::every_journal_obeys_the_rules` |
//! | a sent at_most_once call counts as not run | `endings::stopping_closes_every_open_call_by_what_is_known_of_it` |
//! | a run is completed past a message | `properties::every_journal_obeys_the_rules` |
//! | a message leads on from the closing turn | `messages::a_message_at_the_step_limit_comes_before_the_closing_turn_which_is_the_last` |
//! | a message leaves the repeats as they are | `messages::a_message_makes_the_same_calls_anew_no_repetition` |
//! | a call runs before its approval | `waits::no_call_runs_before_its_approval` |
//! | a call of the caller is sent | `waits::a_client_call_waits_with_the_reply_and_parks_the_run` |
//! | work is due while the run waits | `waits::a_run_without_budget_waits_before_its_next_turn_and_its_next_attempt` |
//! | a run waits while something goes on | `waits::a_run_waits_only_once_nothing_else_goes_on` |
//! | a call in doubt is not held | `waits::what_may_have_taken_effect_waits_for_a_resolution` |
//! | an answer to an earlier question counts | `waits::a_call_in_doubt_is_started_again_only_when_someone_says_so` |
//! | time that is over outweighs an answer | `waits::an_answer_counts_also_at_the_last_moment` |
//! | a probe outweighs a caller | `waits::a_probe_decides_first_and_a_caller_where_it_does_not_know` |
//! | a call that is not found is sent for ever | `waits::a_call_that_keeps_being_lost_on_its_way_is_not_sent_for_ever` |
//! | a run that is to stop waits | `waits::a_run_that_is_to_stop_stops_where_it_would_wait` |
//! | a turn begins without budget | `waits::a_run_without_budget_waits_before_its_next_turn_and_its_next_attempt` |
//! | what was said of a call is lost in the end | `waits::stopping_a_run_that_waits_closes_its_calls_by_what_is_known_of_them` |

mod budget;
mod calls;
mod coverage;
mod crash;
mod endings;
mod messages;
mod outside;
mod pairs;
mod properties;
mod rows;
mod turns;
mod waits;
mod world;

use serde_json::{Value, json};

use super::effect::Effect;
use super::input::Input;
use super::record::{Ending, Record};
use super::state::{Phase, State};
use super::{Surroundings, decide, due, evolve, fold};
use crate::domain::id::{CallId, RunId};
use crate::domain::limits::Limits;
use crate::domain::message::{
    RefusalPart, Reply, ReplyPart, ReplyState, TextPart, ThinkingPart, ToolCallPart,
};
use crate::domain::model::{FinishReason, ModelErrorKind, Provider};
use crate::domain::run::{Failure, FailureCause, StopReason};
use crate::domain::run_message::{RunMessage, Voice};
use crate::domain::step::{InputPart, InputText};
use crate::domain::tool::{
    EffectClass, FINAL_ANSWER, JsonOutput, OutcomeKind, PlannedCall, TextOutput, ToolOutcome,
    ToolOutput, Verdict,
};
use crate::domain::wait::WaitRules;
use outside::Outside;

const LIMITS: Limits = Limits {
    max_steps: 4,
    loop_limit: 3,
    output_retries: 2,
    model_attempts: 3,
    fallbacks: 0,
    parallel_tools: true,
};

/// Nobody says anything.
const QUIET: Surroundings<'_> = Surroundings {
    limits: &LIMITS,
    messages: &[],
    answers: &[],
    overdue: &[],
    is_out_of_budget: false,
    is_to_stop: false,
};

/// A run under test: every decision is committed and folded at once.
#[derive(Debug, Clone)]
struct Play {
    limits: Limits,
    state: State,
    journal: Vec<Record>,
    /// The messages that were added to the run, and how many of them its worker knows of.
    said: Vec<RunMessage>,
    n_known: usize,
    outside: Outside,
}

impl Play {
    /// A claimed run that waits for the first reply.
    fn thinking(limits: Limits) -> Self {
        let mut play = Self::new(limits);
        play.commit(task());
        play.feed(Input::Claimed);
        play
    }

    fn new(limits: Limits) -> Self {
        let (state, journal, said) = (State::default(), Vec::new(), Vec::new());
        Self { limits, state, journal, said, n_known: 0, outside: Outside::default() }
    }

    /// Adds a message to the run, as long as the store would take it.
    fn tell(&mut self, voice: Voice) {
        let stopped = self.state.ending() == Some(&Ending::Interrupted);
        let has_turn = !self.state.is_ended() && !self.state.is_closing();
        if stopped || has_turn {
            let number = u32::try_from(self.said.len() + 1).unwrap();
            self.said.push(message(number, voice));
        }
    }

    fn commit(&mut self, record: Record) {
        self.state = evolve(self.state.clone(), &record);
        self.journal.push(record);
    }

    fn feed(&mut self, input: Input) -> Vec<Record> {
        let mut records = self.decide(input.clone());
        while self.is_refused(&records) {
            records = self.decide(input.clone());
        }
        drop(input);
        for record in &records {
            self.commit(record.clone());
        }
        if !records.is_empty() {
            self.outside.settle(&self.state);
        }
        records
    }

    /// The store refuses a decision that goes past what the worker does not know of, and tells of it.
    fn is_refused(&mut self, records: &[Record]) -> bool {
        if self.n_known < self.said.len() && records.iter().any(goes_on) {
            self.n_known = self.said.len();
            return true;
        }
        self.outside.refuses(&self.state, records)
    }

    fn decide(&self, input: Input) -> Vec<Record> {
        let messages = &self.said[..self.n_known];
        let around = Surroundings { limits: &self.limits, messages, ..QUIET };
        decide(&self.state, input, self.outside.around(around))
    }

    fn reply(&mut self, parts: Vec<ReplyPart>, finish: FinishReason) -> Vec<Record> {
        self.reply_with(reply(parts, finish), Vec::new(), None)
    }

    fn reply_with(
        &mut self,
        reply: Reply,
        calls: Vec<PlannedCall>,
        verdict: Option<Verdict>,
    ) -> Vec<Record> {
        let (turn, attempt) = (self.state.turn(), self.state.attempt());
        self.feed(Input::Replied { turn, attempt, reply, calls, verdict })
    }

    /// A complete reply that asks for these calls and says nothing.
    fn ask(&mut self, calls: Vec<PlannedCall>) -> Vec<Record> {
        self.reply_with(asking(&calls, FinishReason::ToolCalls), calls, None)
    }

    fn say(&mut self, text: &str) -> Vec<Record> {
        self.reply(vec![words(text)], FinishReason::Stop)
    }

    fn end_call(&mut self, id: &str, attempt: u32) -> Vec<Record> {
        self.feed(Input::CallEnded { outcome: done(id), attempt })
    }

    fn fail_model(&mut self, retryable: bool) -> Vec<Record> {
        let (turn, attempt) = (self.state.turn(), self.state.attempt());
        let elsewhere = true;
        self.feed(Input::ModelFailed { turn, attempt, retryable, elsewhere, failure: down() })
    }
}

fn task() -> Record {
    Record::TaskGiven { parts: vec![InputPart::Text(InputText { text: "Do it.".to_owned() })] }
}

fn message(number: u32, voice: Voice) -> RunMessage {
    let (run_id, created_at) = (RunId::from(uuid::Uuid::nil()), chrono::DateTime::UNIX_EPOCH);
    RunMessage { run_id, number, voice, text: format!("Message {number}."), created_at }
}

fn given(number: u32, voice: Voice) -> Record {
    Record::MessageGiven { number, voice, text: format!("Message {number}.") }
}

/// Whether a record begins a turn or completes the run.
const fn goes_on(record: &Record) -> bool {
    matches!(
        record,
        Record::TurnStarted { attempt: 1, .. } | Record::Ended(Ending::Completed { .. })
    )
}

fn words(text: &str) -> ReplyPart {
    ReplyPart::Text(TextPart { text: text.to_owned(), echo: None })
}

fn thinking(text: &str) -> ReplyPart {
    ReplyPart::Thinking(ThinkingPart {
        echo: None,
        text: text.to_owned(),
        signature: None,
        id: None,
        issuer: None,
    })
}

fn refusal(text: &str) -> ReplyPart {
    ReplyPart::Refusal(RefusalPart { text: text.to_owned() })
}

fn reply(parts: Vec<ReplyPart>, finish: FinishReason) -> Reply {
    Reply {
        host: None,
        provider: Some(Provider::Scripted),
        model: None,
        response_id: None,
        finish_reason: Some(finish),
        usage: None,
        state: ReplyState::Complete,
        parts,
    }
}

fn asking(calls: &[PlannedCall], finish: FinishReason) -> Reply {
    let part = |call: &PlannedCall| {
        ReplyPart::ToolCall(ToolCallPart {
            echo: None,
            tool_call_id: call.call_id.clone(),
            provider_call_id: None,
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        })
    };
    reply(calls.iter().map(part).collect(), finish)
}

fn id(id: &str) -> CallId {
    CallId(id.to_owned())
}

fn ids(list: &[&str]) -> Vec<CallId> {
    list.iter().map(|one| id(one)).collect()
}

/// A call that differs from every other one by its arguments.
fn call(name: &str, effect: EffectClass) -> PlannedCall {
    PlannedCall {
        call_id: id(name),
        name: "look".to_owned(),
        arguments: json!({ "at": name }).to_string(),
        effect,
        parallel_safe: true,
        unparsable: false,
        waits: WaitRules::NONE,
        settled: None,
        brings: Vec::new(),
    }
}

fn pure(name: &str) -> PlannedCall {
    call(name, EffectClass::Pure)
}

fn once(name: &str) -> PlannedCall {
    call(name, EffectClass::AtMostOnce)
}

fn alone(call: PlannedCall) -> PlannedCall {
    PlannedCall { parallel_safe: false, ..call }
}

fn settled(call: PlannedCall, outcome: ToolOutcome) -> PlannedCall {
    let name = outcome.name.clone();
    let outcome = ToolOutcome { tool_call_id: call.call_id.clone(), ..outcome };
    PlannedCall { name, settled: Some(outcome), ..call }
}

/// A settled, successful call of the answer tool.
fn final_answer(name: &str, output: ToolOutput) -> PlannedCall {
    let outcome = ToolOutcome { name: FINAL_ANSWER.to_owned(), output: Some(output), ..done(name) };
    settled(pure(name), outcome)
}

fn text_output(text: &str) -> ToolOutput {
    ToolOutput::Text(TextOutput { text: text.to_owned() })
}

fn json_output(value: Value) -> ToolOutput {
    ToolOutput::Json(JsonOutput::from(value))
}

fn unparsable(name: &str) -> PlannedCall {
    let refused = ToolOutcome::not_run(id(name), "look", OutcomeKind::InvalidArguments, None);
    PlannedCall { unparsable: true, arguments: format!("{{{name}"), ..settled(pure(name), refused) }
}

fn done(name: &str) -> ToolOutcome {
    ToolOutcome {
        is_error: false,
        attempts: 1,
        output: Some(text_output("seen")),
        ..ToolOutcome::not_run(id(name), "look", OutcomeKind::Success, None)
    }
}

fn down() -> Failure {
    let kind = ModelErrorKind::Unavailable;
    let cause =
        FailureCause::Model { provider: Provider::Openai, provider_status: Some(503), kind };
    Failure { cause, detail: "the model provider is not available".to_owned() }
}

fn timed_out() -> Failure {
    Failure { cause: FailureCause::RunTimeout, detail: "the run took too long".to_owned() }
}

fn turn(turn: u32, attempt: u32) -> Record {
    Record::TurnStarted { turn, attempt, closing: false }
}

fn recorded(turn: u32) -> Record {
    Record::ActionRecorded { turn }
}

fn started(list: &[&str]) -> Record {
    Record::CallsStarted { call_ids: ids(list) }
}

fn completed(answer: &str, stop_reason: StopReason) -> Record {
    Record::Ended(Ending::Completed { answer: answer.to_owned(), output: None, stop_reason })
}

/// The kind of model failure the last record ends the run with.
fn model_failure(records: &[Record]) -> Option<ModelErrorKind> {
    let Some(Record::Ended(Ending::Failed(failure))) = records.last() else { return None };
    let FailureCause::Model { kind, .. } = failure.cause else { return None };
    Some(kind)
}

/// Every outcome the records give a call, settled ones included.
fn outcomes(records: &[Record]) -> Vec<(CallId, OutcomeKind)> {
    let mut found = Vec::new();
    for record in records {
        match record {
            Record::Replied { calls, .. } => {
                let settled = calls.iter().filter_map(|call| call.settled.as_ref());
                found.extend(settled.map(|outcome| (outcome.tool_call_id.clone(), outcome.kind)));
            }
            Record::CallEnded { outcome } => {
                found.push((outcome.tool_call_id.clone(), outcome.kind));
            }
            Record::TaskGiven { .. }
            | Record::TurnStarted { .. }
            | Record::FellBack { .. }
            | Record::SystemSaid { .. }
            | Record::Compacted { .. }
            | Record::MessageGiven { .. }
            | Record::CallsStarted { .. }
            | Record::CallRestarted { .. }
            | Record::CallWaits { .. }
            | Record::CallApproved { .. }
            | Record::CallProbed { .. }
            | Record::Parked { .. }
            | Record::Unparked
            | Record::ActionRecorded { .. }
            | Record::ToolsChanged { .. }
            | Record::RetryAsked { .. }
            | Record::Ended(_)
            | Record::Resumed => {}
        }
    }
    found
}
