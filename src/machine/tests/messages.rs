//! Rules about messages to a run under way: when they enter it, and what they make of its end.

use super::*;
use crate::domain::limits::{STEP_LIMIT, UNPARSABLE_RETRIES};

/// A run that was told something while the model thinks.
fn told(limits: Limits, voices: &[Voice]) -> Play {
    let mut play = Play::thinking(limits);
    for voice in voices {
        play.tell(*voice);
    }
    play
}

#[test]
fn a_message_enters_before_the_next_turn_and_only_once() {
    let mut play = told(LIMITS, &[Voice::User, Voice::System]);
    assert_eq!(play.ask(vec![pure("a")])[1..], [started(&["a"])], "not while a turn is under way");
    let records = play.end_call("a", 1);
    let given = [given(1, Voice::User), given(2, Voice::System)];
    assert_eq!(records[1..], [&[recorded(1)][..], &given, &[turn(2, 1)]].concat());
    play.ask(vec![pure("b")]);
    assert_eq!(play.end_call("b", 1)[1..], [recorded(2), turn(3, 1)]);
}

#[test]
fn a_message_to_a_run_that_waits_comes_before_its_first_turn() {
    let state = fold([task()]);
    let messages = [message(1, Voice::User)];
    let around = Surroundings { messages: &messages, ..QUIET };
    let records = decide(&state, Input::Claimed, around);
    assert_eq!(records, [given(1, Voice::User), turn(1, 1)]);
}

#[test]
fn an_answer_that_would_end_the_run_leads_to_another_turn_while_a_message_waits() {
    let mut play = told(LIMITS, &[Voice::User]);
    let records = play.say("Rainy.");
    assert_eq!(records[1..], [recorded(1), given(1, Voice::User), turn(2, 1)]);
    assert_eq!(play.say("Sunny.")[2..], [completed("Sunny.", StopReason::Text)]);
}

#[test]
fn an_answer_by_tool_leads_to_another_turn_while_a_message_waits() {
    for rest in [vec![], vec![pure("b")]] {
        let mut play = told(LIMITS, &[Voice::User]);
        let answered = final_answer("a", text_output("Rainy."));
        let mut records = play.ask([vec![answered], rest.clone()].concat());
        if !rest.is_empty() {
            records = play.end_call("b", 1);
        }
        assert_eq!(records[1..], [recorded(1), given(1, Voice::User), turn(2, 1)]);
        assert_eq!(play.say("Sunny.")[2..], [completed("Sunny.", StopReason::Text)]);
    }
}

#[test]
fn a_message_makes_the_same_calls_anew_no_repetition() {
    let again = |play: &mut Play, n: u32| {
        let name = format!("c{n}");
        play.ask(vec![PlannedCall { arguments: "{}".to_owned(), ..pure(&name) }]);
        play.end_call(&name, 1)
    };
    for told_in in 1..=3 {
        let mut play = Play::thinking(Limits { max_steps: 9, ..LIMITS });
        for n in 1..=told_in + 2 {
            if n == told_in {
                play.tell(Voice::System);
            }
            let records = again(&mut play, n);
            assert_eq!(records.last(), Some(&turn(n + 1, 1)), "told in {told_in}, turn {n}");
        }
        let records = again(&mut play, told_in + 3);
        let Some(Record::Ended(Ending::Completed { stop_reason, .. })) = records.last() else {
            panic!("three in a row end the run: {records:?}");
        };
        assert_eq!(*stop_reason, StopReason::LoopDetected);
    }
}

#[test]
fn retries_are_counted_anew_after_a_message() {
    let mut play = Play::thinking(Limits { max_steps: 9, ..LIMITS });
    let empty = |play: &mut Play| play.reply(vec![thinking("hm")], FinishReason::Stop);
    for _ in 0..LIMITS.output_retries {
        assert_eq!(model_failure(&empty(&mut play)), None);
    }
    play.tell(Voice::User);
    assert_eq!(play.say("Rainy.")[1..], [recorded(3), given(1, Voice::User), turn(4, 1)]);
    for _ in 0..LIMITS.output_retries {
        assert_eq!(model_failure(&empty(&mut play)), None);
    }
    assert_eq!(model_failure(&empty(&mut play)), Some(ModelErrorKind::UnusableOutput));
}

#[test]
fn calls_that_cannot_be_read_are_counted_anew_after_a_message() {
    let mut play = Play::thinking(Limits { max_steps: 9, ..LIMITS });
    let ask = |play: &mut Play, n: u32| play.ask(vec![unparsable(&format!("u{n}"))]);
    for n in 1..=UNPARSABLE_RETRIES {
        assert_eq!(model_failure(&ask(&mut play, n)), None);
    }
    play.tell(Voice::User);
    assert_eq!(play.say("Rainy.")[1..], [recorded(3), given(1, Voice::User), turn(4, 1)]);
    for n in 4..4 + UNPARSABLE_RETRIES {
        assert_eq!(model_failure(&ask(&mut play, n)), None);
    }
    assert_eq!(model_failure(&ask(&mut play, 9)), Some(ModelErrorKind::UnusableOutput));
}

#[test]
fn a_message_at_the_step_limit_comes_before_the_closing_turn_which_is_the_last() {
    let mut play = told(Limits { max_steps: 1, ..LIMITS }, &[Voice::User]);
    let said = Record::SystemSaid { text: STEP_LIMIT.to_owned() };
    let last = Record::TurnStarted { turn: 2, attempt: 1, closing: true };
    assert_eq!(play.say("Rainy.")[1..], [recorded(1), given(1, Voice::User), said, last]);
    // The store takes no message in a closing turn; if one were there, the run would end all the same.
    play.said.push(message(2, Voice::User));
    play.n_known = 2;
    assert_eq!(play.say("Sunny.")[2..], [completed("Sunny.", StopReason::MaxSteps)]);
}

#[test]
fn a_message_waits_through_what_is_tried_again() {
    let mut play = told(LIMITS, &[Voice::User]);
    play.n_known = 1;
    assert_eq!(play.fail_model(true), [turn(1, 2)]);
    assert_eq!(play.feed(Input::Claimed), [turn(1, 3)]);
    let records = play.reply(vec![thinking("hm")], FinishReason::Stop);
    assert_eq!(records[3..], [given(1, Voice::User), turn(2, 1)], "it follows the request");
}

#[test]
fn a_run_that_is_interrupted_hears_a_message_when_it_is_resumed() {
    let mut play = told(LIMITS, &[Voice::User]);
    assert_eq!(play.feed(Input::Interrupted { partial: None }).len(), 1);
    play.tell(Voice::User);
    let given = [given(1, Voice::User), given(2, Voice::User)];
    let records = play.feed(Input::Resumed);
    assert_eq!(records, [&[Record::Resumed][..], &given, &[turn(2, 1)]].concat());
}

#[test]
fn a_run_that_fails_or_is_cancelled_leaves_its_messages_unheard() {
    let mut failed = told(LIMITS, &[Voice::User]);
    assert_eq!(failed.fail_model(false), [Record::Ended(Ending::Failed(down()))]);
    let mut cancelled = told(LIMITS, &[Voice::User]);
    assert_eq!(cancelled.feed(Input::Cancelled), [Record::Ended(Ending::Cancelled)]);
}
