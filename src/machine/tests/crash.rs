//! A lost worker leaves no trace in the history: another one reads the journal, claims the run, and
//! the run ends as it would have.

use proptest::prelude::*;

use super::outside::{relieve, reload};
use super::world::{CallShape, Shape, limits, reply_shape};
use super::*;

/// Plays a script, one shape a turn; in the turns in `told` the run is told something. After each
/// decision whose number is in `crashes`, the worker is lost and the next one goes on from the journal.
fn driven(limits: Limits, (script, told): (&[Shape], &[u32]), crashes: &[usize]) -> Vec<Record> {
    let mut play = Play::new(limits);
    play.commit(task());
    play.feed(Input::Claimed);
    let mut turn = 0;
    for n in 0..400 {
        if play.state.turn() > turn {
            turn = play.state.turn();
            told.iter().filter(|in_turn| **in_turn == turn).for_each(|_| play.tell(Voice::User));
        }
        if crashes.contains(&n) {
            reload(&mut play);
            play.feed(Input::Claimed);
        }
        if play.state.parked().is_some() {
            relieve(&mut play, 0);
            play.feed(Input::Claimed);
        }
        let Some(effect) = due(&play.state).into_iter().next() else { continue };
        play.feed(match effect {
            Effect::CallModel { turn, attempt, .. } => {
                let shape = &script[turn as usize % script.len()];
                shape.input((turn, attempt), &format!("t{turn}-"))
            }
            Effect::StartCalls { call_ids } => Input::CallsStarting { call_ids },
            Effect::CallTool { call_id, attempt } => {
                let outcome = ToolOutcome { attempts: attempt, ..done(call_id.as_str()) };
                Input::CallEnded { outcome, attempt }
            }
            Effect::Probe { call_id, attempt } => Input::Probed { call_id, attempt, answer: None },
        });
    }
    assert!(play.state.is_ended(), "{:?}", play.state);
    play.journal
}

/// What the history says, without how often it was tried.
pub(super) fn history(journal: Vec<Record>) -> Vec<Record> {
    let said = journal.into_iter().filter_map(|record| match record {
        Record::Replied { turn, reply, calls, .. } => {
            Some(Record::Replied { turn, attempt: 0, reply, calls })
        }
        Record::CallEnded { outcome } => {
            Some(Record::CallEnded { outcome: ToolOutcome { attempts: 0, ..outcome } })
        }
        Record::TurnStarted { .. }
        | Record::FellBack { .. }
        | Record::CallsStarted { .. }
        | Record::CallRestarted { .. }
        | Record::CallWaits { .. }
        | Record::CallApproved { .. }
        | Record::CallProbed { .. }
        | Record::Parked { .. }
        | Record::Unparked => None,
        Record::TaskGiven { .. }
        | Record::SystemSaid { .. }
        | Record::Compacted { .. }
        | Record::MessageGiven { .. }
        | Record::ActionRecorded { .. }
        | Record::ToolsChanged { .. }
        | Record::RetryAsked { .. }
        | Record::Ended(_)
        | Record::Resumed => Some(record),
    });
    said.collect()
}

/// The shape with calls that may be repeated only.
fn repeatable(shape: Shape) -> Shape {
    let pure = |call: CallShape| CallShape { effect: EffectClass::Pure, ..call };
    match shape {
        Shape::Calls { calls, cut, text } => {
            Shape::Calls { calls: calls.into_iter().map(pure).collect(), cut, text }
        }
        Shape::Say
        | Shape::SayUnfit
        | Shape::Nothing
        | Shape::CutOff
        | Shape::Withheld
        | Shape::Shorten
        | Shape::Fail { .. } => shape,
    }
}

/// The turns in which a run is told something.
pub(super) fn told() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1..6_u32, 0..3)
}

fn script() -> impl Strategy<Value = Vec<Shape>> {
    prop::collection::vec(reply_shape().prop_map(repeatable), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn lost_workers_leave_no_trace_in_the_history(
        limits in limits(),
        script in script(),
        told in told(),
        crashes in prop::collection::vec(0..30_usize, 1..5),
    ) {
        let story = (script.as_slice(), told.as_slice());
        let undisturbed = history(driven(limits, story, &[]));
        prop_assert_eq!(history(driven(limits, story, &crashes)), undisturbed);
    }

    #[test]
    fn a_worker_may_be_lost_after_any_decision(
        limits in limits(),
        script in script(),
        told in told(),
    ) {
        let story = (script.as_slice(), told.as_slice());
        let undisturbed = history(driven(limits, story, &[]));
        for n in 0..30 {
            prop_assert_eq!(history(driven(limits, story, &[n])), undisturbed.clone());
        }
    }
}
