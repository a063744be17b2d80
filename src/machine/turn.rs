//! Turns: when one starts, and what a model's reply leads to.

use super::call::Answer;
use super::calls::{self, Ride};
use super::draft::{Draft, poisoned};
use super::record::Record;
use super::repeat;
use super::state::is_cut;
use super::wait;
use crate::domain::limits::{STEP_LIMIT, UNPARSABLE_RETRIES};
use crate::domain::message::Reply;
use crate::domain::model::{FinishReason, ModelErrorKind};
use crate::domain::run::{Failure, StopReason};
use crate::domain::run_message::RunMessage;
use crate::domain::step::{RetryCause, RetryContent, SummaryStep};
use crate::domain::tool::{OutcomeKind, PlannedCall, ToolOutcome, Verdict};
use crate::domain::wait::WaitReason;

/// How often an effect whose worker was lost is started again before the run counts as poisoned. An
/// orderly shutdown gives its runs back too and is no fault of theirs, so this leaves room for many;
/// crashes in a row are counted by the store, which is stricter.
pub(super) const RECLAIMS: u32 = 50;

/// What the model is told after a reply with nothing usable in it. Every agent can call a tool
/// (`final_answer` at least) and no agent can return an image, so one of the fixed sentences fits.
pub(super) const NO_OUTPUT: &str = "Please return text or include your response in a tool call.";

const WITHHELD: &str = "the model provider withheld the reply";
const REFUSED: &str = "the model refused to answer";
const CUT_OFF: &str = "the model's reply was cut off by the token limit before it held anything that could be used: \
     raise `max_output_tokens`";
const NO_ANSWER: &str = "the model gave no answer in its closing turn";
const UNFIT: &str = "the model's closing answer does not fit the output schema";
const UNUSABLE: &str = "the model's replies held nothing that could be used";
const UNREADABLE: &str = "the model kept writing tool calls that cannot be read";

/// Starts the next turn: an ordinary one, or the closing one when the step limit is reached. The
/// first turn is never the closing one. What was said to the run meanwhile comes before it.
pub(super) fn next(draft: &mut Draft<'_>) {
    if draft.is_out_of_budget {
        return wait::park(draft, WaitReason::BudgetExhausted);
    }
    while let Some(RunMessage { number, voice, text, .. }) = draft.waiting() {
        draft.push(Record::MessageGiven { number: *number, voice: *voice, text: text.clone() });
    }
    let done = draft.state.turn();
    let closing = done >= draft.limits.max_steps.max(1);
    if closing {
        draft.push(Record::SystemSaid { text: STEP_LIMIT.to_owned() });
    }
    draft.push(Record::TurnStarted { turn: done.saturating_add(1), attempt: 1, closing });
}

/// Asks the model again after its worker was lost. The attempt is counted, so that a request that
/// kills the process cannot loop for ever.
pub(super) fn reclaim(draft: &mut Draft<'_>) {
    let n_models = draft.limits.fallbacks.saturating_add(1);
    let bound = draft.limits.model_attempts.saturating_mul(n_models).saturating_add(RECLAIMS);
    if draft.state.attempt() < bound { again(draft) } else { draft.fail(poisoned()) }
}

/// Asks the model again where another attempt may succeed and is left, else the next model where there
/// is one that may do better, else ends the run.
pub(super) fn model_failed(
    draft: &mut Draft<'_>,
    (retryable, elsewhere): (bool, bool),
    failure: Failure,
) {
    if retryable && draft.state.tries() < draft.limits.model_attempts {
        again(draft);
    } else if elsewhere && draft.state.fallback() < draft.limits.fallbacks {
        fall_back(draft);
    } else {
        draft.fail(failure);
    }
}

/// Takes the shorter form on record; the model is then asked what is due all the same. A turn that does
/// not fit after that will not fit after another time, so it counts once a turn.
pub(super) fn compacted(draft: &mut Draft<'_>, summary: SummaryStep) {
    if draft.state.is_compacted() {
        return;
    }
    draft.push(Record::Compacted { turn: draft.state.turn(), summary });
    if draft.is_out_of_budget {
        wait::park(draft, WaitReason::BudgetExhausted);
    }
}

/// Asks the next model, for the rest of this turn: the next turn begins with the first one again.
fn fall_back(draft: &mut Draft<'_>) {
    // Which model is next is told with the attempt: before a wait it would be forgotten.
    if draft.is_out_of_budget {
        return wait::park(draft, WaitReason::BudgetExhausted);
    }
    draft.push(Record::FellBack {
        turn: draft.state.turn(),
        attempt: draft.state.attempt(),
        fallback: draft.state.fallback().saturating_add(1),
    });
    again(draft);
}

fn again(draft: &mut Draft<'_>) {
    if draft.is_out_of_budget {
        return wait::park(draft, WaitReason::BudgetExhausted);
    }
    draft.push(Record::TurnStarted {
        turn: draft.state.turn(),
        attempt: draft.state.attempt().saturating_add(1),
        closing: draft.state.is_closing(),
    });
}

/// Records a reply and goes on from it.
pub(super) fn replied(
    draft: &mut Draft<'_>,
    reply: Reply,
    calls: Vec<PlannedCall>,
    verdict: Option<Verdict>,
) {
    let calls = admit(draft, &reply, calls);
    let speaks = draft.state.is_closing() || calls.is_empty();
    record(draft, reply, calls);
    if speaks { spoken(draft, verdict) } else { calls::advance(draft, Ride::Repeatable) }
}

/// Puts a reply on record under the current turn and attempt.
pub(super) fn record(draft: &mut Draft<'_>, reply: Reply, calls: Vec<PlannedCall>) {
    let (turn, attempt) = (draft.state.turn(), draft.state.attempt());
    let added: Vec<String> = calls.iter().flat_map(brought).cloned().collect();
    draft.push(Record::Replied { turn, attempt, reply, calls });
    if !added.is_empty() {
        draft.push(Record::ToolsChanged { added, removed: Vec::new() });
    }
}

/// The tools that a call brings: those of one that succeeded with the reply it is in.
fn brought(call: &PlannedCall) -> &[String] {
    let succeeded = call.settled.as_ref().is_some_and(|outcome| !outcome.is_error);
    if succeeded { &call.brings } else { &[] }
}

/// The calls as they are recorded: those that will not run are settled, and whether a call may run
/// beside others already counts in what the agent says, so that the journal alone knows the order.
fn admit(draft: &Draft<'_>, reply: &Reply, mut calls: Vec<PlannedCall>) -> Vec<PlannedCall> {
    let cut = is_cut(reply.finish_reason, &calls);
    for call in &mut calls {
        call.parallel_safe &= draft.limits.parallel_tools;
        if cut {
            call.settled = Some(unrun(call, OutcomeKind::Truncated));
        } else if draft.state.is_closing() && call.settled.is_none() {
            call.settled = Some(unrun(call, OutcomeKind::Cancelled));
        }
    }
    calls
}

/// The outcome of a call that never started.
pub(super) fn unrun(call: &PlannedCall, kind: OutcomeKind) -> ToolOutcome {
    ToolOutcome::not_run(call.call_id.clone(), &call.name, kind, None)
}

/// Goes on from a reply that is read for its words: one without calls, or the closing one.
fn spoken(draft: &mut Draft<'_>, verdict: Option<Verdict>) {
    record_action(draft);
    if let Some(answer) = draft.state.answer().cloned() {
        return finish(draft, answer, StopReason::FinalAnswer);
    }
    let Some(text) = draft.state.said.text.clone() else { return wordless(draft) };
    match verdict {
        None => finish(draft, Answer { text, output: None }, StopReason::Text),
        Some(Verdict::Fits(value)) => {
            finish(draft, Answer { text, output: Some(value) }, StopReason::Text);
        }
        Some(Verdict::Fails(_)) if draft.state.is_closing() => {
            draft.fail_model(ModelErrorKind::UnusableOutput, UNFIT);
        }
        Some(Verdict::Fails(errors)) => {
            ask_again(draft, RetryCause::Error, RetryContent::Errors(errors));
        }
    }
}

fn wordless(draft: &mut Draft<'_>) {
    let finish_reason = draft.state.said.finish_reason;
    if draft.state.said.is_refusal {
        draft.fail_model(ModelErrorKind::ContentFilter, REFUSED);
    } else if finish_reason == Some(FinishReason::ContentFilter) {
        draft.fail_model(ModelErrorKind::ContentFilter, WITHHELD);
    } else if finish_reason == Some(FinishReason::Length) {
        draft.fail_model(ModelErrorKind::UnusableOutput, CUT_OFF);
    } else if draft.state.is_closing() {
        draft.fail_model(ModelErrorKind::UnusableOutput, NO_ANSWER);
    } else {
        let content = RetryContent::Message(NO_OUTPUT.to_owned());
        ask_again(draft, RetryCause::NoOutput, content);
    }
}

fn ask_again(draft: &mut Draft<'_>, cause: RetryCause, content: RetryContent) {
    if draft.state.n_retries >= draft.limits.output_retries {
        return draft.fail_model(ModelErrorKind::UnusableOutput, UNUSABLE);
    }
    draft.push(Record::RetryAsked { turn: draft.state.turn(), cause, content });
    next(draft);
}

/// Ends the run with an answer, unless a message waits: the model has yet to hear it, and a turn that
/// begins with something new is no repetition either. The closing turn is the last one all the same,
/// which is why nothing can be said to a run once that has begun.
fn finish(draft: &mut Draft<'_>, answer: Answer, stop_reason: StopReason) {
    if draft.waiting().is_some() && !draft.state.is_closing() {
        next(draft);
    } else {
        draft.complete(answer, stop_reason);
    }
}

/// Goes on from a turn whose calls all have their outcome.
pub(super) fn acted(draft: &mut Draft<'_>) {
    record_action(draft);
    if let Some(answer) = draft.state.answer().cloned() {
        finish(draft, answer, StopReason::FinalAnswer);
    } else if draft.state.n_retries > draft.limits.output_retries {
        draft.fail_model(ModelErrorKind::UnusableOutput, CUT_OFF);
    } else if draft.state.n_unparsable > UNPARSABLE_RETRIES {
        draft.fail_model(ModelErrorKind::UnusableOutput, UNREADABLE);
    } else if repeat::is_loop(draft.state.n_repeats, draft.limits.loop_limit) {
        let text = draft.state.said.text.clone();
        let text = text.unwrap_or_else(|| repeat::NO_WORDS.to_owned());
        finish(draft, Answer { text, output: None }, StopReason::LoopDetected);
    } else {
        next(draft);
    }
}

pub(super) fn record_action(draft: &mut Draft<'_>) {
    draft.push(Record::ActionRecorded { turn: draft.state.turn() });
}
