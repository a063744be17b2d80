//! Rules about turns: replies, retries, limits, repetition.

use super::super::turn::{NO_OUTPUT, RECLAIMS};
use super::*;
use crate::domain::limits::STEP_LIMIT;
use crate::domain::step::{ErrorDetail, RetryCause, RetryContent};

fn no_output(turn: u32) -> Record {
    let content = RetryContent::Message(NO_OUTPUT.to_owned());
    Record::RetryAsked { turn, cause: RetryCause::NoOutput, content }
}

fn misfit() -> Verdict {
    Verdict::Fails(vec![ErrorDetail {
        r#type: "missing".to_owned(),
        loc: vec![json!("city")],
        msg: "a required member is missing".to_owned(),
        input: None,
    }])
}

fn closing() -> Play {
    let mut play = Play::thinking(Limits { max_steps: 1, ..LIMITS });
    play.ask(vec![pure("a")]);
    play.end_call("a", 1);
    assert!(play.state.is_closing(), "the second turn is the closing one");
    play
}

#[test]
fn a_claim_of_a_fresh_run_starts_the_first_turn() {
    let play = Play::thinking(LIMITS);
    assert_eq!(play.journal[1..], [turn(1, 1)]);
    let effect = Effect::CallModel { turn: 1, attempt: 1, closing: false };
    assert_eq!(due(&play.state), [effect]);
}

#[test]
fn the_first_turn_is_never_the_closing_one() {
    let play = Play::thinking(Limits { max_steps: 0, ..LIMITS });
    assert_eq!(play.journal[1..], [turn(1, 1)]);
}

#[test]
fn text_without_calls_is_the_answer() {
    let mut play = Play::thinking(LIMITS);
    let records = play.say("Rainy.");
    assert!(matches!(records[0], Record::Replied { turn: 1, attempt: 1, .. }));
    assert_eq!(records[1..], [recorded(1), completed("Rainy.", StopReason::Text)]);
    assert!(due(&play.state).is_empty(), "nothing is under way after the end");
}

#[test]
fn truncated_text_without_calls_is_an_answer() {
    let mut play = Play::thinking(LIMITS);
    let records = play.reply(vec![words("Rai")], FinishReason::Length);
    assert_eq!(records.last(), Some(&completed("Rai", StopReason::Text)));
}

#[test]
fn a_text_that_fits_the_schema_is_the_answer_and_its_value() {
    let mut play = Play::thinking(LIMITS);
    let fits = Verdict::Fits(json!({"city": "Oslo"}));
    let said = reply(vec![words("{\"city\":\"Oslo\"}")], FinishReason::Stop);
    let records = play.reply_with(said, Vec::new(), Some(fits));
    let ending = Ending::Completed {
        answer: "{\"city\":\"Oslo\"}".to_owned(),
        output: Some(json!({"city": "Oslo"})),
        stop_reason: StopReason::Text,
    };
    assert_eq!(records.last(), Some(&Record::Ended(ending)));
}

#[test]
fn a_text_that_does_not_fit_the_schema_is_asked_for_again() {
    let mut play = Play::thinking(LIMITS);
    for n in 1..=2 {
        let said = reply(vec![words("{}")], FinishReason::Stop);
        let records = play.reply_with(said, Vec::new(), Some(misfit()));
        let Verdict::Fails(errors) = misfit() else { panic!("it fails") };
        let content = RetryContent::Errors(errors);
        let asked = Record::RetryAsked { turn: n, cause: RetryCause::Error, content };
        assert_eq!(records[1..], [recorded(n), asked, turn(n + 1, 1)]);
    }
    let said = reply(vec![words("{}")], FinishReason::Stop);
    let records = play.reply_with(said, Vec::new(), Some(misfit()));
    assert_eq!(model_failure(&records), Some(ModelErrorKind::UnusableOutput));
    assert_eq!(records.len(), 3, "the reply is kept and nothing more is asked");
}

#[test]
fn replies_with_nothing_usable_are_retried_a_bounded_number_of_times() {
    let mut play = Play::thinking(LIMITS);
    let records = play.reply(vec![thinking("hm")], FinishReason::Stop);
    assert_eq!(records[1..], [recorded(1), no_output(1), turn(2, 1)]);
    let records = play.reply(Vec::new(), FinishReason::Other);
    assert_eq!(records[1..], [recorded(2), no_output(2), turn(3, 1)]);
    let records = play.reply(vec![words(" \n")], FinishReason::Error);
    assert_eq!(model_failure(&records), Some(ModelErrorKind::UnusableOutput));
}

#[test]
fn no_retries_at_all_may_be_allowed() {
    let mut play = Play::thinking(Limits { output_retries: 0, ..LIMITS });
    let records = play.reply(Vec::new(), FinishReason::Stop);
    assert_eq!(model_failure(&records), Some(ModelErrorKind::UnusableOutput));
}

#[test]
fn a_usable_reply_makes_the_retries_count_from_the_beginning() {
    let mut play = Play::thinking(Limits { max_steps: 9, ..LIMITS });
    play.reply(Vec::new(), FinishReason::Stop);
    play.reply(Vec::new(), FinishReason::Stop);
    play.ask(vec![pure("a")]);
    play.end_call("a", 1);
    play.reply(Vec::new(), FinishReason::Stop);
    let records = play.reply(Vec::new(), FinishReason::Stop);
    assert_eq!(records[1..], [recorded(5), no_output(5), turn(6, 1)]);
}

/// A settled call that brings a tool of this name.
fn loading(name: &str, tool: &str) -> PlannedCall {
    let loaded = ToolOutcome { attempts: 0, ..done(name) };
    PlannedCall { brings: vec![tool.to_owned()], ..settled(pure(name), loaded) }
}

#[test]
fn what_the_calls_of_a_reply_bring_is_on_record_with_it_and_once() {
    let mut play = Play::thinking(LIMITS);
    let calls = vec![loading("a", "x"), pure("b"), loading("c", "y")];
    let records = play.ask(calls);
    let added = vec!["x".to_owned(), "y".to_owned()];
    assert_eq!(records[1], Record::ToolsChanged { added, removed: Vec::new() });
    let later = play.end_call("b", 1);
    assert!(!later.iter().any(|record| matches!(record, Record::ToolsChanged { .. })), "{later:?}");
}

#[test]
fn a_truncated_reply_brings_nothing() {
    let mut play = Play::thinking(LIMITS);
    let calls = vec![loading("a", "x")];
    let cut = asking(&calls, FinishReason::Length);
    let records = play.reply_with(cut, calls, None);
    assert!(!records.iter().any(|record| matches!(record, Record::ToolsChanged { .. })));
}

#[test]
fn no_call_of_a_truncated_reply_runs() {
    let mut play = Play::thinking(Limits { max_steps: 9, ..LIMITS });
    for n in 1..=3 {
        let calls = vec![pure("a"), once("b"), final_answer("c", text_output("Half an ans"))];
        let cut = asking(&calls, FinishReason::Length);
        let records = play.reply_with(cut, calls, None);
        let truncated = ["a", "b", "c"].map(|name| (id(name), OutcomeKind::Truncated));
        assert_eq!(outcomes(&records), truncated);
        if n < 3 {
            assert_eq!(records[1..], [recorded(n), turn(n + 1, 1)]);
        } else {
            assert_eq!(model_failure(&records), Some(ModelErrorKind::UnusableOutput));
        }
    }
}

#[test]
fn a_truncated_reply_without_text_or_calls_says_to_raise_the_token_limit() {
    let mut play = Play::thinking(LIMITS);
    let records = play.reply(vec![thinking("long")], FinishReason::Length);
    assert_eq!(model_failure(&records), Some(ModelErrorKind::UnusableOutput));
    let Some(Record::Ended(Ending::Failed(failure))) = records.last() else { panic!("it fails") };
    assert!(failure.detail.contains("max_output_tokens"), "{}", failure.detail);
    let provider = Provider::Scripted;
    let kind = ModelErrorKind::UnusableOutput;
    assert_eq!(failure.cause, FailureCause::Model { provider, provider_status: None, kind });
}

#[test]
fn withheld_and_refused_replies_fail_the_run() {
    for (parts, finish) in [
        (Vec::new(), FinishReason::ContentFilter),
        (vec![thinking("hm")], FinishReason::ContentFilter),
        (vec![refusal("No.")], FinishReason::Stop),
    ] {
        let mut play = Play::thinking(LIMITS);
        let records = play.reply(parts, finish);
        assert_eq!(model_failure(&records), Some(ModelErrorKind::ContentFilter));
        assert_eq!(records[1], recorded(1), "the reply is kept");
    }
}

#[test]
fn a_filtered_reply_with_text_is_an_answer() {
    let mut play = Play::thinking(LIMITS);
    let records = play.reply(vec![words("Some.")], FinishReason::ContentFilter);
    assert_eq!(records.last(), Some(&completed("Some.", StopReason::Text)));
}

#[test]
fn unreadable_calls_are_corrected_at_most_twice_in_a_row() {
    let mut play = Play::thinking(Limits { max_steps: 9, ..LIMITS });
    for n in 1..=2 {
        let records = play.ask(vec![unparsable(&format!("u{n}"))]);
        assert_eq!(records[1..], [recorded(n), turn(n + 1, 1)]);
    }
    let records = play.ask(vec![unparsable("u3")]);
    assert_eq!(records[1], recorded(3));
    assert_eq!(model_failure(&records), Some(ModelErrorKind::UnusableOutput));
}

#[test]
fn a_readable_turn_makes_unreadable_ones_count_from_the_beginning() {
    let mut play = Play::thinking(Limits { max_steps: 9, ..LIMITS });
    play.ask(vec![unparsable("u1")]);
    play.ask(vec![unparsable("u2")]);
    play.ask(vec![pure("a")]);
    play.end_call("a", 1);
    play.ask(vec![unparsable("u3")]);
    assert_eq!(play.ask(vec![unparsable("u4")])[1..], [recorded(5), turn(6, 1)]);
}

#[test]
fn the_step_limit_leads_to_one_closing_turn() {
    let mut play = Play::thinking(Limits { max_steps: 2, ..LIMITS });
    play.ask(vec![pure("a")]);
    assert_eq!(play.end_call("a", 1)[1..], [recorded(1), turn(2, 1)]);
    let records = play.reply(Vec::new(), FinishReason::Stop);
    let said = Record::SystemSaid { text: STEP_LIMIT.to_owned() };
    let last = Record::TurnStarted { turn: 3, attempt: 1, closing: true };
    assert_eq!(records[1..], [recorded(2), no_output(2), said, last]);
    let records = play.say("My best.");
    assert_eq!(records[1..], [recorded(3), completed("My best.", StopReason::MaxSteps)]);
}

#[test]
fn a_closing_turn_stays_one_when_it_is_tried_again() {
    let mut play = closing();
    let again = Record::TurnStarted { turn: 2, attempt: 2, closing: true };
    assert_eq!(play.fail_model(true), [again]);
}

#[test]
fn calls_of_the_closing_turn_are_not_run() {
    let mut play = closing();
    let calls = vec![once("b"), unparsable("c")];
    let mut said = asking(&calls, FinishReason::ToolCalls);
    said.parts.push(words("My best."));
    let records = play.reply_with(said, calls, None);
    let closed = [(id("b"), OutcomeKind::Cancelled), (id("c"), OutcomeKind::InvalidArguments)];
    assert_eq!(outcomes(&records), closed);
    assert_eq!(records[1..], [recorded(2), completed("My best.", StopReason::MaxSteps)]);
}

#[test]
fn a_final_answer_counts_in_the_closing_turn() {
    let mut play = closing();
    let records = play.ask(vec![final_answer("b", text_output("Mild."))]);
    assert_eq!(records.last(), Some(&completed("Mild.", StopReason::MaxSteps)));
}

#[test]
fn a_closing_turn_without_a_usable_answer_fails_the_run() {
    let records = closing().ask(vec![pure("b")]);
    assert_eq!(model_failure(&records), Some(ModelErrorKind::UnusableOutput));
    let said = reply(vec![words("{}")], FinishReason::Stop);
    let records = closing().reply_with(said, Vec::new(), Some(misfit()));
    assert_eq!(model_failure(&records), Some(ModelErrorKind::UnusableOutput));
}

#[test]
fn identical_turns_in_a_row_end_the_run() {
    let mut play = Play::thinking(Limits { max_steps: 9, ..LIMITS });
    for (n, arguments) in [(1, r#"{"a":1,"b":2}"#), (2, r#"{ "b":2, "a":1 }"#)] {
        let name = format!("c{n}");
        play.ask(vec![PlannedCall { arguments: arguments.to_owned(), ..pure(&name) }]);
        assert_eq!(play.end_call(&name, 1)[1..], [recorded(n), turn(n + 1, 1)]);
    }
    play.ask(vec![PlannedCall { arguments: r#"{"a":1,"b":2}"#.to_owned(), ..pure("c3") }]);
    let records = play.end_call("c3", 1);
    let ending = completed(super::super::repeat::NO_WORDS, StopReason::LoopDetected);
    assert_eq!(records[1..], [recorded(3), ending]);
}

#[test]
fn a_repeating_run_answers_with_its_last_words() {
    let mut play = Play::thinking(Limits { loop_limit: 2, ..LIMITS });
    for name in ["c1", "c2"] {
        let calls = vec![PlannedCall { arguments: "{}".to_owned(), ..pure(name) }];
        let mut said = asking(&calls, FinishReason::ToolCalls);
        said.parts.push(words("Let me look."));
        play.reply_with(said, calls, None);
        play.end_call(name, 1);
    }
    let ending = completed("Let me look.", StopReason::LoopDetected);
    assert_eq!(play.journal.last(), Some(&ending));
}

#[test]
fn a_turn_without_calls_breaks_the_repetition() {
    let mut play = Play::thinking(Limits { loop_limit: 2, ..LIMITS });
    let same = |name: &str| PlannedCall { arguments: "{}".to_owned(), ..pure(name) };
    play.ask(vec![same("c1")]);
    play.end_call("c1", 1);
    play.reply(Vec::new(), FinishReason::Stop);
    play.ask(vec![same("c2")]);
    assert_eq!(play.end_call("c2", 1)[1..], [recorded(3), turn(4, 1)]);
}

#[test]
fn a_retryable_failure_is_retried_until_the_attempts_are_used_up() {
    let mut play = Play::thinking(LIMITS);
    assert_eq!(play.fail_model(true), [turn(1, 2)]);
    assert_eq!(play.fail_model(true), [turn(1, 3)]);
    assert_eq!(play.fail_model(true), [Record::Ended(Ending::Failed(down()))]);
}

#[test]
fn a_failure_that_is_not_retryable_ends_the_run() {
    let mut play = Play::thinking(LIMITS);
    assert_eq!(play.fail_model(false), [Record::Ended(Ending::Failed(down()))]);
}

const fn fell_back(turn: u32, attempt: u32, fallback: u32) -> Record {
    Record::FellBack { turn, attempt, fallback }
}

#[test]
fn each_model_has_all_its_attempts_and_the_next_turn_begins_with_the_first() {
    let mut play = Play::thinking(Limits { fallbacks: 2, ..LIMITS });
    assert_eq!(play.fail_model(false), [fell_back(1, 1, 1), turn(1, 2)]);
    assert_eq!((play.state.fallback(), play.state.tries()), (1, 1));
    assert_eq!(play.fail_model(true), [turn(1, 3)]);
    assert_eq!(play.fail_model(true), [turn(1, 4)]);
    assert_eq!((play.state.fallback(), play.state.tries()), (1, 3));
    assert_eq!(play.fail_model(true), [fell_back(1, 4, 2), turn(1, 5)]);
    play.ask(vec![settled(pure("a"), done("a"))]);
    assert_eq!((play.state.turn(), play.state.fallback(), play.state.tries()), (2, 0, 1));
    assert_eq!(play.fail_model(false), [fell_back(2, 1, 1), turn(2, 2)]);
    assert_eq!(play.fail_model(false), [fell_back(2, 2, 2), turn(2, 3)]);
    assert_eq!(play.fail_model(false), [Record::Ended(Ending::Failed(down()))]);
}

#[test]
fn a_failure_that_every_model_shares_ends_the_run() {
    let mut play = Play::thinking(Limits { fallbacks: 2, ..LIMITS });
    let (turn, attempt, failure) = (1, 1, down());
    let shared = Input::ModelFailed { turn, attempt, retryable: false, elsewhere: false, failure };
    assert_eq!(play.feed(shared), [Record::Ended(Ending::Failed(down()))]);
}

#[test]
fn a_reclaim_asks_the_model_that_was_asked() {
    let mut play = Play::thinking(Limits { fallbacks: 1, ..LIMITS });
    play.fail_model(false);
    assert_eq!(play.feed(Input::Claimed), [turn(1, 3)]);
    assert_eq!((play.state.fallback(), play.state.tries()), (1, 2));
}

#[test]
fn a_reply_to_an_earlier_attempt_does_not_count() {
    let mut play = Play::thinking(LIMITS);
    play.fail_model(true);
    for (turn, attempt) in [(1, 1), (1, 3), (0, 2), (2, 2)] {
        let said = reply(vec![words("Late.")], FinishReason::Stop);
        let calls = Vec::new();
        let late = Input::Replied { turn, attempt, reply: said, calls, verdict: None };
        assert_eq!(play.feed(late), []);
        let (retryable, elsewhere, failure) = (true, true, down());
        let late = Input::ModelFailed { turn, attempt, retryable, elsewhere, failure };
        assert_eq!(play.feed(late), []);
    }
}

#[test]
fn a_reclaim_while_the_model_is_asked_counts_an_attempt() {
    let mut play = Play::thinking(LIMITS);
    assert_eq!(play.feed(Input::Claimed), [turn(1, 2)]);
    assert_eq!(due(&play.state), [Effect::CallModel { turn: 1, attempt: 2, closing: false }]);
}

#[test]
fn a_model_call_that_keeps_losing_its_worker_poisons_the_run() {
    let mut play = Play::thinking(LIMITS);
    for attempt in 2..=LIMITS.model_attempts + RECLAIMS {
        assert_eq!(play.feed(Input::Claimed), [turn(1, attempt)]);
    }
    let records = play.feed(Input::Claimed);
    let Some(Record::Ended(Ending::Failed(failure))) = records.last() else { panic!("it fails") };
    assert_eq!(failure.cause, FailureCause::RunPoisoned);
}
