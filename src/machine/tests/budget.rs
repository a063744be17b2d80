//! What is decided when there is no budget for what would come next.

use super::*;
use crate::domain::wait::WaitReason;

const PARKED: Record = Record::Parked { reason: WaitReason::BudgetExhausted };

/// What is decided about an input for which there is no budget.
fn feed_broke(play: &mut Play, input: Input) -> Vec<Record> {
    let around = Surroundings { limits: &play.limits, is_out_of_budget: true, ..QUIET };
    let records = decide(&play.state, input, around);
    for record in &records {
        play.commit(record.clone());
    }
    assert_eq!(due(&play.state), [], "nothing goes on");
    records
}

fn ask_broke(play: &mut Play, calls: Vec<PlannedCall>) -> Vec<Record> {
    let (turn, attempt) = (play.state.turn(), play.state.attempt());
    let reply = asking(&calls, FinishReason::ToolCalls);
    feed_broke(play, Input::Replied { turn, attempt, reply, calls, verdict: None })
}

#[test]
fn a_turn_does_not_begin_without_a_budget_and_begins_when_there_is_one() {
    let mut play = Play::new(LIMITS);
    play.commit(task());
    assert_eq!(feed_broke(&mut play, Input::Claimed), [PARKED]);
    assert_eq!(feed_broke(&mut play, Input::Claimed), [Record::Unparked, PARKED]);
    assert_eq!(play.feed(Input::Claimed), [Record::Unparked, turn(1, 1)]);
}

#[test]
fn the_calls_of_a_turn_start_together_or_not_at_all() {
    let mut play = Play::thinking(LIMITS);
    let records = ask_broke(&mut play, vec![pure("a"), once("b")]);
    assert_eq!(records[1..], [PARKED]);
    assert_eq!(play.feed(Input::Claimed), [Record::Unparked]);
    let start = Effect::StartCalls { call_ids: ids(&["a", "b"]) };
    assert_eq!(due(&play.state), [start]);
    let starting = || Input::CallsStarting { call_ids: ids(&["a", "b"]) };
    assert_eq!(feed_broke(&mut play, starting()), [PARKED]);
    play.feed(Input::Claimed);
    assert_eq!(play.feed(starting()), [started(&["a", "b"])]);
}

#[test]
fn what_needs_no_budget_goes_on_without_one() {
    let mut play = Play::thinking(LIMITS);
    let (turn, attempt) = (1, 1);
    let reply = reply(vec![words("Done.")], FinishReason::Stop);
    let input = Input::Replied { turn, attempt, reply, calls: Vec::new(), verdict: None };
    let records = feed_broke(&mut play, input);
    assert_eq!(records.last(), Some(&completed("Done.", StopReason::Text)));
}

#[test]
fn a_failed_call_is_not_tried_again_without_a_budget() {
    let mut play = Play::thinking(LIMITS);
    let (turn, attempt, retryable, elsewhere) = (1, 1, true, true);
    let failed = Input::ModelFailed { turn, attempt, retryable, elsewhere, failure: down() };
    assert_eq!(feed_broke(&mut play, failed), [PARKED]);
    assert_eq!(play.feed(Input::Claimed), [Record::Unparked, super::turn(1, 2)]);
}

#[test]
fn a_turn_that_was_interrupted_before_its_reply_goes_on_when_there_is_a_budget() {
    let mut play = Play::thinking(LIMITS);
    play.feed(Input::Interrupted { partial: None });
    assert_eq!(feed_broke(&mut play, Input::Resumed), [Record::Resumed, PARKED]);
    // A worker that comes later knows of the turn, and nothing of an interruption that led nowhere.
    assert_eq!(play.feed(Input::Claimed), [Record::Unparked, turn(1, 2)]);
}

#[test]
fn a_run_that_waits_for_a_budget_can_be_stopped() {
    for input in [Input::Cancelled, Input::Interrupted { partial: None }] {
        let mut play = Play::thinking(LIMITS);
        ask_broke(&mut play, vec![pure("a")]);
        let records = play.feed(input);
        assert!(matches!(records.last(), Some(Record::Ended(_))), "{records:?}");
        assert_eq!(play.state.parked(), None);
    }
}
