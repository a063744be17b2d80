//! A worker is lost at every boundary of an effect, and at every pair of them. Outside is a ledger of
//! what was sent: no call that may run once is in it twice, and the history is that of a run to which
//! nothing happened, save that such a call may be in doubt.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::crash::{history, told};
use super::outside::{relieve, reload};
use super::world::{Shape, compacted, limits, reply_shape};
use super::*;

/// What happens to a run besides crashes: one shape a turn, and the turns in which it is told something
/// or interrupted as they begin.
#[derive(Debug, Clone)]
struct Story {
    limits: Limits,
    script: Vec<Shape>,
    told: Vec<u32>,
    interrupted: Vec<u32>,
}

/// A run, what of it is under way outside, and what ever was.
struct Stage<'a> {
    story: &'a Story,
    crashes: &'a [usize],
    play: Play,
    running: Vec<Effect>,
    /// How often each call was sent.
    sent: BTreeMap<CallId, usize>,
    /// How often a model was asked.
    asked: usize,
    /// The turns that were begun, so that what belongs to their beginning happens once.
    begun: u32,
    n_boundaries: usize,
}

/// How a run went.
struct Played {
    journal: Vec<Record>,
    sent: BTreeMap<CallId, usize>,
    asked: usize,
    n_boundaries: usize,
}

fn play(story: &Story, crashes: &[usize]) -> Played {
    let mut stage = Stage {
        story,
        crashes,
        play: Play::new(story.limits),
        running: Vec::new(),
        sent: BTreeMap::new(),
        asked: 0,
        begun: 0,
        n_boundaries: 0,
    };
    stage.play.commit(task());
    stage.commit(Input::Claimed);
    for _ in 0..800 {
        if !stage.go_on() {
            break;
        }
    }
    assert!(stage.play.state.is_ended(), "{:?}", stage.play.state);
    let Stage { play, sent, asked, n_boundaries, .. } = stage;
    Played { journal: play.journal, sent, asked, n_boundaries }
}

impl Stage<'_> {
    /// Does the next thing, as the driver does; whether there was one.
    fn go_on(&mut self) -> bool {
        if self.play.state.turn() > self.begun {
            self.begin_turn();
            return true;
        }
        if self.play.state.parked().is_some() {
            relieve(&mut self.play, 0);
            self.commit(Input::Claimed);
            return true;
        }
        let due = due(&self.play.state);
        if let Some(Effect::StartCalls { call_ids }) = due.first().cloned() {
            self.commit(Input::CallsStarting { call_ids });
            return true;
        }
        if let Some(effect) = due.into_iter().find(|effect| !self.running.contains(effect)) {
            self.start(effect);
            return true;
        }
        // All that is due is under way: the first of it ends.
        let Some(effect) = self.running.first().cloned() else { return false };
        let input = self.answer(&effect);
        if !self.is_lost() {
            self.running.retain(|running| *running != effect);
            self.commit(input);
        }
        true
    }

    fn begin_turn(&mut self) {
        self.begun = self.play.state.turn();
        let now = |turns: &[u32]| turns.iter().filter(|turn| **turn == self.begun).count();
        let (n_told, n_interrupted) = (now(&self.story.told), now(&self.story.interrupted));
        (0..n_told).for_each(|_| self.play.tell(Voice::User));
        if n_interrupted > 0 && !self.play.state.is_ended() {
            self.commit(Input::Interrupted { partial: None });
            self.running.clear();
            self.commit(Input::Resumed);
        }
    }

    /// Sends what an effect sends. Whoever is lost right before or after that has lost what comes back.
    fn start(&mut self, effect: Effect) {
        if self.is_lost() {
            return;
        }
        match &effect {
            Effect::CallModel { .. } => self.asked += 1,
            Effect::CallTool { call_id, .. } => {
                *self.sent.entry(call_id.clone()).or_default() += 1;
            }
            Effect::StartCalls { .. } | Effect::Probe { .. } => {}
        }
        self.running.push(effect);
        self.is_lost();
    }

    fn answer(&self, effect: &Effect) -> Input {
        match effect {
            Effect::CallModel { turn, attempt, .. } => {
                let script = &self.story.script;
                let shape = &script[*turn as usize % script.len()];
                if matches!(shape, Shape::Shorten) && !self.play.state.is_compacted() {
                    return compacted(*turn, *attempt);
                }
                shape.input((*turn, *attempt), &format!("t{turn}-"))
            }
            Effect::StartCalls { call_ids } => Input::CallsStarting { call_ids: call_ids.clone() },
            Effect::Probe { call_id, attempt } => {
                Input::Probed { call_id: call_id.clone(), attempt: *attempt, answer: None }
            }
            Effect::CallTool { call_id, attempt } => {
                let outcome = ToolOutcome { attempts: *attempt, ..done(call_id.as_str()) };
                Input::CallEnded { outcome, attempt: *attempt }
            }
        }
    }

    /// Commits what an input decides to. The worker may be lost right before and right after.
    fn commit(&mut self, input: Input) {
        if input == Input::Claimed || !self.is_lost() {
            self.play.feed(input);
            self.is_lost();
        } else if matches!(input, Input::Interrupted { .. } | Input::Resumed) {
            // What a caller asks for outlives the worker.
            self.play.feed(input);
        }
    }

    /// Whether the worker is lost at this boundary; then the next one goes on from the journal.
    fn is_lost(&mut self) -> bool {
        let here = self.n_boundaries;
        self.n_boundaries += 1;
        if !self.crashes.contains(&here) {
            return false;
        }
        self.running.clear();
        reload(&mut self.play);
        self.play.feed(Input::Claimed);
        true
    }
}

/// The calls that may run once.
fn unrepeatable(journal: &[Record]) -> BTreeSet<CallId> {
    let replied = journal.iter().filter_map(|record| {
        let Record::Replied { calls, .. } = record else { return None };
        Some(calls)
    });
    let runs_once =
        |call: &&PlannedCall| call.effect == EffectClass::AtMostOnce && !call.waits.by_client;
    let calls = replied.flatten().filter(runs_once);
    calls.map(|call| call.call_id.clone()).collect()
}

/// The history, and how the calls that may run once have ended, which is no part of it.
fn told_apart(journal: Vec<Record>) -> (Vec<Record>, BTreeMap<CallId, OutcomeKind>) {
    let once = unrepeatable(&journal);
    let mut kinds = BTreeMap::new();
    let mut lines = history(journal);
    for line in &mut lines {
        if let Record::CallEnded { outcome } = line
            && once.contains(&outcome.tool_call_id)
        {
            kinds.insert(outcome.tool_call_id.clone(), outcome.kind);
            let name = outcome.tool_call_id.as_str().to_owned();
            *outcome = ToolOutcome { attempts: 0, ..done(&name) };
        }
    }
    // Calls that end in doubt end as their worker is replaced, and so in an order of their own.
    let place = |record: &Record| {
        let Record::CallEnded { outcome } = record else { return None };
        Some(outcome.tool_call_id.as_str().to_owned())
    };
    for group in lines.chunk_by_mut(|one, next| place(one).is_some() == place(next).is_some()) {
        group.sort_by_key(place);
    }
    (lines, kinds)
}

/// What must hold of a run that lost so many workers.
fn check(story: &Story, crashes: &[usize], undisturbed: &Played) {
    let played = play(story, crashes);
    let once = unrepeatable(&played.journal);
    let n_crashes = crashes.len();
    for (call, times) in &played.sent {
        let bound = if once.contains(call) { 1 } else { 1 + n_crashes };
        assert!(*times <= bound, "{call} was sent {times} times: {crashes:?}");
    }
    assert!(played.asked <= undisturbed.asked + n_crashes, "{crashes:?}");
    let (lines, kinds) = told_apart(played.journal);
    let (expected, expected_kinds) = told_apart(undisturbed.journal.clone());
    assert_eq!(lines, expected, "{crashes:?}");
    let mut n_doubts = 0;
    for (call, kind) in kinds {
        if kind != expected_kinds[&call] {
            assert_eq!(kind, OutcomeKind::InDoubt, "{call}: {crashes:?}");
            n_doubts += 1;
        } else if kind == OutcomeKind::Success {
            // Of a call that is held a caller may say that it took effect, though it was never sent.
            let times = played.sent.get(&call).copied();
            assert!(times.is_none_or(|times| times == 1), "{call}: {times:?}, {crashes:?}");
        }
    }
    assert!(n_crashes > 0 || n_doubts == 0);
}

fn script() -> impl Strategy<Value = Vec<Shape>> {
    let shape = prop_oneof![12 => reply_shape(), 1 => Just(Shape::Shorten)];
    prop::collection::vec(shape, 1..4)
}

fn story() -> impl Strategy<Value = Story> {
    let interrupted = prop::collection::vec(1..4_u32, 0..2);
    (limits(), script(), told(), interrupted).prop_map(|(limits, script, told, interrupted)| {
        let max_steps = limits.max_steps.min(3);
        Story { limits: Limits { max_steps, ..limits }, script, told, interrupted }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default()
    })]

    #[test]
    fn f13_a_worker_may_be_lost_at_any_boundary_and_the_next_one_at_any_other(story in story()) {
        let undisturbed = play(&story, &[]);
        for first in 0..undisturbed.n_boundaries {
            check(&story, &[first], &undisturbed);
            // A run that lost a worker has boundaries of its own.
            let n_boundaries = play(&story, &[first]).n_boundaries;
            for second in first + 1..n_boundaries {
                check(&story, &[first, second], &undisturbed);
            }
        }
    }
}
