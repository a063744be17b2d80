//! Rules about ends that come from outside: interruption, cancellation, abortion, resumption.

use super::*;
use crate::domain::limits::STEP_LIMIT;

/// The three ways to end a run from outside: the input, what open calls are closed with, the end.
fn stops() -> [(Input, OutcomeKind, Ending); 3] {
    [
        (Input::Interrupted { partial: None }, OutcomeKind::Interrupted, Ending::Interrupted),
        (Input::Cancelled, OutcomeKind::Cancelled, Ending::Cancelled),
        (
            Input::Aborted { failure: timed_out() },
            OutcomeKind::Cancelled,
            Ending::Failed(timed_out()),
        ),
    ]
}

fn interrupted(mut play: Play) -> Play {
    play.feed(Input::Interrupted { partial: None });
    play
}

#[test]
fn a_run_can_be_stopped_before_its_first_claim() {
    for (input, _, ending) in stops() {
        let records = decide(&fold([task()]), input, QUIET);
        assert_eq!(records, [Record::Ended(ending)]);
    }
}

#[test]
fn a_run_can_be_stopped_while_the_model_is_asked() {
    for (input, _, ending) in stops() {
        assert_eq!(Play::thinking(LIMITS).feed(input), [Record::Ended(ending)]);
    }
}

#[test]
fn an_interrupted_reply_is_kept_as_far_as_it_came() {
    let mut play = Play::thinking(LIMITS);
    play.fail_model(true);
    let partial = Some(reply(vec![words("It will ra")], FinishReason::Other));
    let records = play.feed(Input::Interrupted { partial });
    let Record::Replied { turn: 1, attempt: 2, reply, calls } = &records[0] else {
        panic!("the reply is kept: {records:?}");
    };
    assert_eq!((reply.state, calls.len()), (ReplyState::Interrupted, 0));
    assert_eq!(reply.text().as_deref(), Some("It will ra"));
    assert_eq!(records[1..], [recorded(1), Record::Ended(Ending::Interrupted)]);
}

#[test]
fn calls_of_an_interrupted_reply_are_closed_with_it() {
    let mut play = Play::thinking(LIMITS);
    let partial = Some(asking(&[once("a")], FinishReason::Other));
    let records = play.feed(Input::Interrupted { partial });
    assert_eq!(outcomes(&records), [(id("a"), OutcomeKind::Interrupted)]);
    assert_eq!(records[1..], [recorded(1), Record::Ended(Ending::Interrupted)]);
}

#[test]
fn an_interrupted_reply_without_parts_leaves_nothing() {
    let mut play = Play::thinking(LIMITS);
    let partial = Some(reply(Vec::new(), FinishReason::Other));
    let records = play.feed(Input::Interrupted { partial });
    assert_eq!(records, [Record::Ended(Ending::Interrupted)]);
}

#[test]
fn stopping_closes_every_open_call_by_what_is_known_of_it() {
    for (input, kind, ending) in stops() {
        let mut play = Play::thinking(LIMITS);
        play.ask(vec![once("sent"), pure("running"), once("ended")]);
        play.feed(Input::CallsStarting { call_ids: ids(&["sent", "ended"]) });
        play.end_call("ended", 1);
        let records = play.feed(input);
        let closed = [(id("sent"), OutcomeKind::InDoubt), (id("running"), kind)];
        assert_eq!(outcomes(&records), closed);
        assert_eq!(records[2..], [recorded(1), Record::Ended(ending)]);
    }
}

#[test]
fn stopping_closes_planned_calls_as_never_run() {
    for (input, kind, _) in stops() {
        let mut play = Play::thinking(LIMITS);
        play.ask(vec![once("planned")]);
        let records = play.feed(input);
        let outcome = ToolOutcome::not_run(id("planned"), "look", kind, None);
        assert_eq!(records[0], Record::CallEnded { outcome });
    }
}

#[test]
fn an_ended_run_takes_no_more_records() {
    let mut completed = Play::thinking(LIMITS);
    completed.say("Rainy.");
    let mut failed = Play::thinking(LIMITS);
    failed.fail_model(false);
    let mut cancelled = Play::thinking(LIMITS);
    cancelled.feed(Input::Cancelled);
    for mut play in [completed, failed, cancelled] {
        for (input, _, _) in stops() {
            assert_eq!(play.feed(input), []);
        }
        assert_eq!(play.feed(Input::Claimed), []);
        assert_eq!(play.feed(Input::Resumed), []);
        assert_eq!(play.say("More."), []);
        assert_eq!(play.fail_model(true), []);
    }
}

#[test]
fn an_interrupted_run_only_goes_on_by_resumption() {
    let mut play = interrupted(Play::thinking(LIMITS));
    for (input, _, _) in stops() {
        assert_eq!(play.feed(input), []);
    }
    assert_eq!(play.feed(Input::Claimed), []);
    assert_eq!(play.say("More."), []);
    assert_eq!(play.feed(Input::Resumed), [Record::Resumed, turn(2, 1)]);
    assert_eq!(play.feed(Input::Resumed), [], "it goes on once");
}

#[test]
fn a_run_interrupted_before_its_first_turn_resumes_with_it() {
    let state = fold([task(), Record::Ended(Ending::Interrupted)]);
    assert_eq!(decide(&state, Input::Resumed, QUIET), [Record::Resumed, turn(1, 1)]);
}

#[test]
fn a_claim_after_a_bare_resumption_asks_again_for_the_reply_that_is_missing() {
    let mut play = interrupted(Play::thinking(LIMITS));
    play.commit(Record::Resumed);
    assert_eq!(play.feed(Input::Claimed), [turn(1, 2)]);
}

#[test]
fn a_resumption_at_the_step_limit_starts_the_closing_turn() {
    let mut play = interrupted(Play::thinking(Limits { max_steps: 1, ..LIMITS }));
    let said = Record::SystemSaid { text: STEP_LIMIT.to_owned() };
    let last = Record::TurnStarted { turn: 2, attempt: 1, closing: true };
    assert_eq!(play.feed(Input::Resumed), [Record::Resumed, said, last]);
}

#[test]
fn only_a_run_with_a_task_can_be_worked_on() {
    let mut inputs: Vec<Input> = stops().map(|(input, _, _)| input).into();
    inputs.extend([Input::Claimed, Input::Resumed]);
    for input in inputs {
        assert_eq!(decide(&State::default(), input, QUIET), []);
    }
    assert!(due(&State::default()).is_empty(), "nothing is due");
}
