//! Rules about calls: which start when, which outcomes count, what a reclaim does to them.

use super::super::turn::RECLAIMS;
use super::*;
use crate::domain::limits::CALLS_AT_ONCE;
use crate::domain::tool::CallState;

fn tool(name: &str, attempt: u32) -> Effect {
    Effect::CallTool { call_id: id(name), attempt }
}

fn start(list: &[&str]) -> Effect {
    Effect::StartCalls { call_ids: ids(list) }
}

fn starting(play: &mut Play, list: &[&str]) -> Vec<Record> {
    play.feed(Input::CallsStarting { call_ids: ids(list) })
}

fn in_doubt(name: &str) -> Record {
    let outcome = ToolOutcome::not_run(id(name), "look", OutcomeKind::InDoubt, None);
    Record::CallEnded { outcome: ToolOutcome { attempts: 1, ..outcome } }
}

fn restarted(name: &str, attempt: u32) -> Record {
    Record::CallRestarted { call_id: id(name), attempt }
}

#[test]
fn calls_that_may_be_repeated_start_with_the_reply() {
    let mut play = Play::thinking(LIMITS);
    let records = play.ask(vec![pure("a"), call("b", EffectClass::Idempotent)]);
    assert_eq!(records[1..], [started(&["a", "b"])]);
    assert_eq!(due(&play.state), [tool("a", 1), tool("b", 1)]);
}

#[test]
fn an_at_most_once_call_starts_in_a_commit_of_its_own() {
    let mut play = Play::thinking(LIMITS);
    let records = play.ask(vec![once("a"), pure("b"), once("c")]);
    assert_eq!(records[1..], [started(&["b"])]);
    assert_eq!(due(&play.state), [start(&["a", "c"]), tool("b", 1)]);
    assert_eq!(starting(&mut play, &["a", "c"]), [started(&["a", "c"])]);
    assert_eq!(due(&play.state), [tool("a", 1), tool("b", 1), tool("c", 1)]);
}

#[test]
fn only_planned_calls_can_be_started() {
    let mut play = Play::thinking(LIMITS);
    play.ask(vec![once("a"), pure("b"), unparsable("c")]);
    assert_eq!(starting(&mut play, &["b", "c", "nobody"]), []);
    assert_eq!(starting(&mut play, &["c", "a", "a"]), [started(&["a"])]);
    assert_eq!(starting(&mut play, &["a"]), [], "the second time does not count");
}

#[test]
fn the_last_outcome_records_the_action_and_starts_the_next_turn() {
    let mut play = Play::thinking(LIMITS);
    play.ask(vec![pure("a"), pure("b")]);
    assert_eq!(play.end_call("b", 1), [Record::CallEnded { outcome: done("b") }]);
    let next = [Record::CallEnded { outcome: done("a") }, recorded(1), turn(2, 1)];
    assert_eq!(play.end_call("a", 1), next);
}

#[test]
fn a_reply_with_only_settled_calls_leads_straight_to_the_next_turn() {
    let mut play = Play::thinking(LIMITS);
    assert_eq!(play.ask(vec![unparsable("a")])[1..], [recorded(1), turn(2, 1)]);
}

#[test]
fn a_late_repeated_or_unknown_outcome_does_not_count() {
    let mut play = Play::thinking(LIMITS);
    play.ask(vec![pure("a"), pure("b"), once("c"), unparsable("d")]);
    play.feed(Input::Claimed);
    assert_eq!(play.end_call("a", 1), [], "the attempt is the second one");
    assert_eq!(play.end_call("c", 1), [], "it is not started");
    assert_eq!(play.end_call("c", 0), [], "it is not started");
    assert_eq!(play.end_call("d", 0), [], "it is settled");
    assert_eq!(play.end_call("nobody", 1), []);
    assert_eq!(play.end_call("a", 2).len(), 2, "the at-most-once call starts with it");
    assert_eq!(play.end_call("a", 2), [], "the second time does not count");
}

#[test]
fn a_call_that_is_not_parallel_safe_makes_the_turn_ordered() {
    let mut play = Play::thinking(LIMITS);
    let records = play.ask(vec![pure("a"), alone(once("b")), pure("c")]);
    assert_eq!(records[1..], [started(&["a"])]);
    assert_eq!(due(&play.state), [tool("a", 1)]);
    assert_eq!(starting(&mut play, &["b", "c"]), [], "`a` is under way");
    assert_eq!(play.end_call("a", 1)[1..], [started(&["b"])]);
    assert_eq!(play.end_call("b", 1)[1..], [started(&["c"])]);
    assert_eq!(play.end_call("c", 1)[1..], [recorded(1), turn(2, 1)]);
}

#[test]
fn so_many_calls_are_under_way_at_once_and_no_more() {
    let mut play = Play::thinking(LIMITS);
    let names: Vec<String> = (0..CALLS_AT_ONCE + 2).map(|n| format!("c{n}")).collect();
    let mut calls: Vec<_> = names.iter().map(|name| pure(name)).collect();
    let by_client = WaitRules { by_client: true, ..WaitRules::NONE };
    calls.push(PlannedCall { waits: by_client, ..pure("asked") });
    play.ask(calls);
    assert_eq!(under_way(&play).len(), CALLS_AT_ONCE);
    assert_eq!(play.state.call(&id("asked")).unwrap().state(), CallState::Waiting);
    // Whichever ends makes room for the next one.
    assert_eq!(play.end_call("c7", 1)[1..], [started(&[&names[CALLS_AT_ONCE]])]);
    assert_eq!(play.end_call("c0", 1)[1..], [started(&[&names[CALLS_AT_ONCE + 1]])]);
    play.end_call("c1", 1);
    assert_eq!(under_way(&play).len(), CALLS_AT_ONCE - 1);
}

/// What is due of the calls of a run: that they are called.
fn under_way(play: &Play) -> Vec<Effect> {
    let due = due(&play.state);
    assert!(due.iter().all(|effect| matches!(effect, Effect::CallTool { .. })), "{due:?}");
    due
}

#[test]
fn an_agent_that_says_so_runs_its_calls_one_at_a_time() {
    let mut play = Play::thinking(Limits { parallel_tools: false, ..LIMITS });
    assert_eq!(play.ask(vec![once("a"), pure("b")]).len(), 1);
    assert_eq!(due(&play.state), [start(&["a"])]);
    assert_eq!(starting(&mut play, &["b"]), [], "it is not its turn");
    starting(&mut play, &["a"]);
    assert_eq!(due(&play.state), [tool("a", 1)]);
    assert_eq!(play.end_call("a", 1)[1..], [started(&["b"])]);
}

#[test]
fn a_settled_call_does_not_make_the_turn_ordered() {
    let mut play = Play::thinking(LIMITS);
    let records = play.ask(vec![alone(unparsable("a")), pure("b"), pure("c")]);
    assert_eq!(records[1..], [started(&["b", "c"])]);
}

#[test]
fn a_turn_with_k_calls_costs_at_most_two_and_k_commits() {
    for calls in [
        vec![once("a"), once("b"), once("c")],
        vec![alone(once("a")), alone(once("b")), alone(once("c"))],
        vec![pure("a"), alone(once("b")), pure("c")],
        vec![pure("a"), once("b"), pure("c")],
    ] {
        let mut play = Play::thinking(LIMITS);
        play.ask(calls.clone());
        let mut n_commits = 1;
        while play.state.turn() == 1 {
            let input = match due(&play.state).remove(0) {
                Effect::StartCalls { call_ids } => Input::CallsStarting { call_ids },
                Effect::CallTool { call_id, attempt } => {
                    Input::CallEnded { outcome: done(call_id.as_str()), attempt }
                }
                Effect::CallModel { .. } | Effect::Probe { .. } => panic!("the turn is not over"),
            };
            assert_ne!(play.feed(input), [], "what is due can be done");
            n_commits += 1;
        }
        assert!(n_commits <= 2 + calls.len(), "{n_commits} commits for {calls:?}");
    }
}

#[test]
fn a_successful_final_answer_ends_the_run_once_all_calls_ended() {
    let mut play = Play::thinking(LIMITS);
    play.ask(vec![final_answer("a", text_output("Rainy.")), pure("b")]);
    assert!(!play.state.is_ended(), "`b` is under way");
    let ending = completed("Rainy.", StopReason::FinalAnswer);
    assert_eq!(play.end_call("b", 1)[1..], [recorded(1), ending]);
}

#[test]
fn a_structured_final_answer_is_compact_json_and_a_value() {
    let mut play = Play::thinking(LIMITS);
    let value = json!({"city": "Oslo", "rain": true});
    let records = play.ask(vec![final_answer("a", json_output(value.clone()))]);
    let ending = Ending::Completed {
        answer: r#"{"city":"Oslo","rain":true}"#.to_owned(),
        output: Some(value),
        stop_reason: StopReason::FinalAnswer,
    };
    assert_eq!(records.last(), Some(&Record::Ended(ending)));
}

#[test]
fn a_structured_final_answer_is_told_as_it_was_spelt() {
    let mut play = Play::thinking(LIMITS);
    let output = JsonOutput::of(r#"{"id": 12345678901234567890123}"#).unwrap();
    let records = play.ask(vec![final_answer("a", ToolOutput::Json(output))]);
    let Some(Record::Ended(Ending::Completed { answer, .. })) = records.last() else {
        panic!("the answer ends the run: {records:?}");
    };
    assert_eq!(answer, r#"{"id":12345678901234567890123}"#);
}

#[test]
fn a_refused_final_answer_does_not_end_the_run() {
    let mut play = Play::thinking(LIMITS);
    let refused = ToolOutcome::not_run(id("a"), FINAL_ANSWER, OutcomeKind::InvalidArguments, None);
    assert_eq!(play.ask(vec![settled(pure("a"), refused)])[1..], [recorded(1), turn(2, 1)]);
}

#[test]
fn a_reclaim_repeats_calls_that_may_be_repeated() {
    let mut play = Play::thinking(LIMITS);
    play.ask(vec![pure("a"), call("b", EffectClass::Idempotent)]);
    assert_eq!(play.feed(Input::Claimed), [restarted("a", 2), restarted("b", 2)]);
    assert_eq!(due(&play.state), [tool("a", 2), tool("b", 2)]);
}

#[test]
fn a_reclaim_puts_at_most_once_calls_in_doubt() {
    let mut play = Play::thinking(LIMITS);
    play.ask(vec![once("a"), once("b")]);
    starting(&mut play, &["a", "b"]);
    play.end_call("b", 1);
    assert_eq!(play.feed(Input::Claimed), [in_doubt("a"), recorded(1), turn(2, 1)]);
}

#[test]
fn a_reclaim_goes_on_with_the_next_call_in_order() {
    let mut play = Play::thinking(Limits { parallel_tools: false, ..LIMITS });
    play.ask(vec![once("a"), once("b")]);
    starting(&mut play, &["a"]);
    assert_eq!(play.feed(Input::Claimed), [in_doubt("a"), started(&["b"])]);
}

#[test]
fn a_reclaim_leaves_planned_calls_due() {
    let mut play = Play::thinking(LIMITS);
    play.ask(vec![once("a"), once("b")]);
    assert_eq!(play.feed(Input::Claimed), []);
    assert_eq!(due(&play.state), [start(&["a", "b"])]);
}

#[test]
fn a_call_that_keeps_losing_its_worker_poisons_the_run() {
    let mut play = Play::thinking(LIMITS);
    play.ask(vec![pure("a"), once("b")]);
    for attempt in 2..=1 + RECLAIMS {
        assert_eq!(play.feed(Input::Claimed), [restarted("a", attempt)]);
    }
    let records = play.feed(Input::Claimed);
    let closed = ["a", "b"].map(|name| (id(name), OutcomeKind::Cancelled));
    assert_eq!(outcomes(&records), closed);
    let Some(Record::Ended(Ending::Failed(failure))) = records.last() else { panic!("it fails") };
    assert_eq!(failure.cause, FailureCause::RunPoisoned);
}
