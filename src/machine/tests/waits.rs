//! Rules about waiting: what a call waits for, what an answer leads to, and when a run waits.

use super::outside::{answer_for, delegate};
use super::*;
use crate::domain::tool::CallState;
use crate::domain::wait::{CallAnswer, GivenAnswer, OnInDoubt, WaitReason};

fn waiting(planned: PlannedCall, rules: WaitRules) -> PlannedCall {
    PlannedCall { waits: rules, ..planned }
}

fn client(name: &str) -> PlannedCall {
    waiting(pure(name), WaitRules { by_client: true, ..WaitRules::NONE })
}

fn delegated(name: &str) -> PlannedCall {
    waiting(pure(name), WaitRules { by_run: Some(delegate()), ..WaitRules::NONE })
}

fn guarded(name: &str) -> PlannedCall {
    waiting(once(name), WaitRules { approval: true, ..WaitRules::NONE })
}

fn doubtful(name: &str, on_in_doubt: OnInDoubt) -> PlannedCall {
    waiting(once(name), WaitRules { on_in_doubt, ..WaitRules::NONE })
}

fn held(name: &str) -> PlannedCall {
    doubtful(name, OnInDoubt::Hold)
}

fn waits(name: &str, reason: WaitReason) -> Record {
    Record::CallWaits { call_id: id(name), reason }
}

const fn parked(reason: WaitReason) -> Record {
    Record::Parked { reason }
}

fn approved(name: &str, arguments: Option<&str>) -> Record {
    Record::CallApproved { call_id: id(name), arguments: arguments.map(str::to_owned) }
}

/// A call and an answer to it.
fn answered(name: &str, reason: WaitReason, attempt: u32, answer: CallAnswer) -> GivenAnswer {
    GivenAnswer { call_id: id(name), reason, attempt, answer }
}

/// Decides on an input with these answers.
fn with(play: &Play, input: Input, answers: &[GivenAnswer]) -> Vec<Record> {
    decide(&play.state, input, Surroundings { limits: &play.limits, answers, ..QUIET })
}

fn claimed(play: &Play, answers: &[GivenAnswer]) -> Vec<Record> {
    with(play, Input::Claimed, answers)
}

fn unknown(name: &str, kind: OutcomeKind) -> Input {
    let outcome = ToolOutcome { attempts: 1, ..ToolOutcome::not_run(id(name), "look", kind, None) };
    Input::CallEnded { outcome, attempt: 1 }
}

fn asking_for(calls: Vec<PlannedCall>) -> (Play, Vec<Record>) {
    let mut play = Play::thinking(LIMITS);
    let records = play.ask(calls);
    (play, records)
}

/// A run that waits for a resolution.
fn in_doubt() -> Play {
    let (mut play, _) = asking_for(vec![held("a")]);
    play.feed(Input::CallsStarting { call_ids: ids(&["a"]) });
    let records = play.feed(unknown("a", OutcomeKind::InDoubt));
    let reason = WaitReason::InDoubt;
    assert_eq!(records, [waits("a", reason), parked(reason)]);
    play
}

#[test]
fn a_client_call_waits_with_the_reply_and_parks_the_run() {
    let reason = WaitReason::ToolResults;
    let (play, records) = asking_for(vec![client("a")]);
    assert_eq!(records[1..], [waits("a", reason), parked(reason)]);
    assert_eq!(due(&play.state), []);
}

#[test]
fn a_result_ends_its_call_and_the_run_goes_on() {
    let (play, _) = asking_for(vec![client("a")]);
    let reason = WaitReason::ToolResults;
    let records = claimed(&play, &[answered("a", reason, 0, answer_for(reason, 0))]);
    let ended = Record::CallEnded { outcome: done("a") };
    assert_eq!(records, [Record::Unparked, ended, recorded(1), turn(2, 1)]);
}

#[test]
fn a_run_waits_only_once_nothing_else_goes_on() {
    let reason = WaitReason::ToolResults;
    let (mut play, records) = asking_for(vec![client("a"), pure("b"), once("c")]);
    assert_eq!(records[1..], [started(&["b"]), waits("a", reason)]);
    play.feed(Input::CallsStarting { call_ids: ids(&["c"]) });
    assert_eq!(play.end_call("c", 1), [Record::CallEnded { outcome: done("c") }]);
    assert_eq!(play.end_call("b", 1)[1..], [parked(reason)]);
}

#[test]
fn a_call_that_is_not_parallel_safe_waits_alone() {
    let reason = WaitReason::ToolResults;
    let (play, records) = asking_for(vec![alone(client("a")), pure("b")]);
    assert_eq!(records[1..], [waits("a", reason), parked(reason)], "`b` has to come after it");
    let records = claimed(&play, &[answered("a", reason, 0, answer_for(reason, 0))]);
    assert_eq!(records[2..], [started(&["b"])]);
}

#[test]
fn no_call_runs_before_its_approval() {
    let reason = WaitReason::Approval;
    let (play, records) = asking_for(vec![guarded("a")]);
    assert_eq!(records[1..], [waits("a", reason), parked(reason)]);
    assert_eq!(claimed(&play, &[]), [Record::Unparked, parked(reason)]);
    for arguments in [None, Some("{}")] {
        let answer = CallAnswer::Approved { arguments: arguments.map(str::to_owned) };
        let records = claimed(&play, &[answered("a", reason, 0, answer)]);
        assert_eq!(records, [Record::Unparked, approved("a", arguments), started(&["a"])]);
        let state = records.iter().fold(play.state.clone(), evolve);
        let sent = &state.call(&id("a")).unwrap().planned.arguments;
        assert_eq!(sent, arguments.unwrap_or(r#"{"at":"a"}"#));
    }
}

#[test]
fn a_denied_call_never_runs_and_the_model_is_told_why() {
    let (play, _) = asking_for(vec![guarded("a")]);
    let reason = WaitReason::Approval;
    let records = claimed(&play, &[answered("a", reason, 0, answer_for(reason, 2))]);
    let Record::CallEnded { outcome } = &records[1] else { panic!("it ends: {records:?}") };
    assert_eq!((outcome.kind, outcome.attempts), (OutcomeKind::Denied, 0));
    assert_eq!(outcome.error.as_ref().unwrap().message, "No.");
}

#[test]
fn what_may_have_taken_effect_waits_for_a_resolution() {
    for kind in [OutcomeKind::InDoubt, OutcomeKind::Timeout] {
        let (mut play, _) = asking_for(vec![held("a")]);
        play.feed(Input::CallsStarting { call_ids: ids(&["a"]) });
        assert_eq!(play.feed(unknown("a", kind))[0], waits("a", WaitReason::InDoubt));
    }
    let (mut play, _) = asking_for(vec![held("a")]);
    play.feed(Input::CallsStarting { call_ids: ids(&["a"]) });
    let records = play.feed(Input::Claimed);
    assert_eq!(records[0], waits("a", WaitReason::InDoubt), "its worker was lost");
}

#[test]
fn a_tool_that_wants_it_has_the_model_told_at_once() {
    let (mut play, _) = asking_for(vec![doubtful("a", OnInDoubt::Observe)]);
    play.feed(Input::CallsStarting { call_ids: ids(&["a"]) });
    let records = play.feed(unknown("a", OutcomeKind::Timeout));
    assert_eq!(outcomes(&records), [(id("a"), OutcomeKind::Timeout)]);
}

#[test]
fn a_call_in_doubt_is_started_again_only_when_someone_says_so() {
    let play = in_doubt();
    let reason = WaitReason::InDoubt;
    assert_eq!(claimed(&play, &[]), [Record::Unparked, parked(reason)]);
    let records = claimed(&play, &[answered("a", reason, 1, CallAnswer::Retry)]);
    let again = Record::CallRestarted { call_id: id("a"), attempt: 2 };
    assert_eq!(records, [Record::Unparked, again]);
    let stale = [answered("a", reason, 0, CallAnswer::Retry)];
    assert_eq!(claimed(&play, &stale), [Record::Unparked, parked(reason)], "another question");
}

#[test]
fn a_probe_decides_first_and_a_caller_where_it_does_not_know() {
    let reason = WaitReason::InDoubt;
    let (mut play, _) = asking_for(vec![doubtful("a", OnInDoubt::Probe)]);
    play.feed(Input::CallsStarting { call_ids: ids(&["a"]) });
    assert_eq!(play.feed(unknown("a", OutcomeKind::InDoubt)), [waits("a", reason)]);
    assert_eq!(due(&play.state), [Effect::Probe { call_id: id("a"), attempt: 1 }]);
    let probed = |answer| Input::Probed { call_id: id("a"), attempt: 1, answer };
    let asked = Record::CallProbed { call_id: id("a") };
    assert_eq!(with(&play, probed(None), &[]), [asked, parked(reason)]);
    let records = with(&play, probed(Some(CallAnswer::Retry)), &[]);
    assert_eq!(records[1..], [Record::CallRestarted { call_id: id("a"), attempt: 2 }]);
    let said = [answered("a", reason, 1, answer_for(reason, 2))];
    let records = with(&play, probed(Some(CallAnswer::Retry)), &said);
    assert_eq!(
        outcomes(&records),
        [(id("a"), OutcomeKind::Execution)],
        "a caller has said already"
    );
}

#[test]
fn a_call_that_keeps_being_lost_on_its_way_is_not_sent_for_ever() {
    let (mut play, _) = asking_for(vec![doubtful("a", OnInDoubt::Probe)]);
    play.feed(Input::CallsStarting { call_ids: ids(&["a"]) });
    for attempt in 1..10 {
        let lost = ToolOutcome::not_run(id("a"), "look", OutcomeKind::Timeout, None);
        play.feed(Input::CallEnded { outcome: lost, attempt });
        let answer = Some(CallAnswer::Retry);
        play.feed(Input::Probed { call_id: id("a"), attempt, answer });
        if play.state.parked().is_some() {
            return assert_eq!(attempt, 4);
        }
    }
    panic!("it is sent for ever");
}

#[test]
fn a_wait_that_takes_too_long_is_given_up() {
    for (calls, kind) in
        [(vec![client("a")], OutcomeKind::Timeout), (vec![guarded("a")], OutcomeKind::Denied)]
    {
        let (play, _) = asking_for(calls);
        let around = Surroundings { overdue: &ids(&["a"]), ..QUIET };
        let records = decide(&play.state, Input::Claimed, around);
        assert_eq!(outcomes(&records), [(id("a"), kind)]);
    }
    let overdue = ids(&["a"]);
    let around = Surroundings { overdue: &overdue, ..QUIET };
    let records = decide(&in_doubt().state, Input::Claimed, around);
    assert_eq!(outcomes(&records), [(id("a"), OutcomeKind::InDoubt)]);
}

#[test]
fn an_answer_counts_also_at_the_last_moment() {
    let (play, _) = asking_for(vec![client("a")]);
    let reason = WaitReason::ToolResults;
    let (overdue, answers) = (ids(&["a"]), [answered("a", reason, 0, answer_for(reason, 0))]);
    let around = Surroundings { overdue: &overdue, answers: &answers, ..QUIET };
    let records = decide(&play.state, Input::Claimed, around);
    assert_eq!(outcomes(&records), [(id("a"), OutcomeKind::Success)]);
}

#[test]
fn a_run_without_budget_waits_before_its_next_turn_and_its_next_attempt() {
    let around = Surroundings { is_out_of_budget: true, ..QUIET };
    let reason = WaitReason::BudgetExhausted;
    assert_eq!(decide(&fold([task()]), Input::Claimed, around), [parked(reason)]);
    let mut play = Play::thinking(LIMITS);
    play.outside.is_out_of_budget = true;
    assert_eq!(play.fail_model(true), [parked(reason)]);
    assert_eq!(due(&play.state), []);
    play.outside.is_out_of_budget = false;
    assert_eq!(play.feed(Input::Claimed), [Record::Unparked, turn(1, 2)]);
}

#[test]
fn a_run_that_is_to_stop_stops_where_it_would_wait() {
    let mut play = Play::thinking(LIMITS);
    let calls = vec![client("a")];
    let input = Input::Replied {
        turn: 1,
        attempt: 1,
        reply: asking(&calls, FinishReason::ToolCalls),
        calls,
        verdict: None,
    };
    let around = Surroundings { is_to_stop: true, ..QUIET };
    let records = decide(&play.state, input, around);
    assert_eq!(outcomes(&records), [(id("a"), OutcomeKind::Interrupted)]);
    assert_eq!(records.last(), Some(&Record::Ended(Ending::Interrupted)));
    for record in records {
        play.commit(record);
    }
    assert_eq!(play.feed(Input::Resumed), [Record::Resumed, turn(2, 1)]);
}

#[test]
fn stopping_a_run_that_waits_closes_its_calls_by_what_is_known_of_them() {
    let closed = |play: &Play, answers: &[GivenAnswer]| {
        let records = with(play, Input::Cancelled, answers);
        assert_eq!(records.last(), Some(&Record::Ended(Ending::Cancelled)));
        outcomes(&records).remove(0).1
    };
    let (client, _) = asking_for(vec![client("a")]);
    assert_eq!(closed(&client, &[]), OutcomeKind::Cancelled);
    let result = answered("a", WaitReason::ToolResults, 0, answer_for(WaitReason::ToolResults, 0));
    assert_eq!(closed(&client, &[result]), OutcomeKind::Success);
    let (guarded, _) = asking_for(vec![guarded("a")]);
    let yes = answered("a", WaitReason::Approval, 0, answer_for(WaitReason::Approval, 0));
    assert_eq!(closed(&guarded, &[yes]), OutcomeKind::Cancelled);
    let doubt = in_doubt();
    assert_eq!(closed(&doubt, &[]), OutcomeKind::InDoubt);
    let again = answered("a", WaitReason::InDoubt, 1, CallAnswer::Retry);
    assert_eq!(closed(&doubt, &[again]), OutcomeKind::Cancelled);
}

#[test]
fn a_call_says_that_it_waits() {
    let (play, _) = asking_for(vec![client("a")]);
    assert_eq!(play.state.calls()[0].state(), CallState::Waiting);
}

#[test]
fn what_a_caller_has_to_do_is_said_before_what_sub_runs_do() {
    let (_, records) = asking_for(vec![delegated("a"), client("b")]);
    let last = &records[records.len() - 3..];
    let (first, second) = (waits("a", WaitReason::SubRuns), waits("b", WaitReason::ToolResults));
    assert_eq!(last, [first, second, parked(WaitReason::ToolResults)]);
    let (_, records) = asking_for(vec![delegated("a")]);
    assert_eq!(records.last(), Some(&parked(WaitReason::SubRuns)));
}

#[test]
fn the_end_of_a_sub_run_is_the_outcome_of_its_call_and_a_sub_run_that_is_given_up_is_in_doubt() {
    let (play, _) = asking_for(vec![delegated("a")]);
    let answer = answer_for(WaitReason::SubRuns, 0);
    let records = claimed(&play, &[answered("a", WaitReason::SubRuns, 0, answer)]);
    let ended = |records: &[Record]| {
        records.iter().find_map(|record| {
            let Record::CallEnded { outcome } = record else { return None };
            Some((outcome.kind, outcome.attempts))
        })
    };
    assert_eq!(ended(&records), Some((OutcomeKind::Success, 1)));
    for input in [Input::Cancelled, Input::Interrupted { partial: None }] {
        assert_eq!(ended(&with(&play, input, &[])), Some((OutcomeKind::InDoubt, 1)));
    }
}
