//! What holds whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::turn::RECLAIMS;
use super::world::{Decision, Move, World, limits, moves, restored, shape};
use super::*;
use crate::domain::wait::{CallAnswer, OnInDoubt, WaitReason};

fn config() -> ProptestConfig {
    ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() }
}

fn played(limits: Limits, moves: &[Move]) -> World {
    let mut world = World::new(limits);
    for step in moves {
        world.make(step);
        let state = &world.play.state;
        let is_at_work =
            matches!(state.phase(), Phase::Thinking | Phase::Acting) && state.parked().is_none();
        assert_eq!(due(state).is_empty(), !is_at_work, "work is due exactly while there is work");
    }
    world
}

/// One pass over a journal that knows the rules but not the machine.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are what the rules are about")]
struct Audit {
    limits: Limits,
    turn: u32,
    attempt: u32,
    fallback: u32,
    has_reply: bool,
    is_recorded: bool,
    ended: Option<Ending>,
    n_resumes: u32,
    announced: bool,
    n_given: u32,
    /// The messages that the run was given since its last turn began.
    unheard: u32,
    calls: BTreeMap<CallId, PlannedCall>,
    running: BTreeMap<CallId, u32>,
    /// The calls that wait, and how often they had been started.
    waiting: BTreeMap<CallId, (WaitReason, u32)>,
    approved: BTreeSet<CallId>,
    is_parked: bool,
    open: BTreeSet<CallId>,
    seen: BTreeSet<CallId>,
}

impl Audit {
    fn of(limits: Limits, journal: &[Record]) -> Self {
        let mut audit = Self {
            limits,
            turn: 0,
            attempt: 0,
            fallback: 0,
            has_reply: false,
            is_recorded: false,
            ended: None,
            n_resumes: 0,
            announced: false,
            n_given: 0,
            unheard: 0,
            calls: BTreeMap::new(),
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            approved: BTreeSet::new(),
            is_parked: false,
            open: BTreeSet::new(),
            seen: BTreeSet::new(),
        };
        for record in journal {
            audit.read(record);
        }
        audit
    }

    fn read(&mut self, record: &Record) {
        let resumes = *record == Record::Resumed && self.ended == Some(Ending::Interrupted);
        assert!(self.ended.is_none() || resumes, "{record:?} after the end");
        assert!(!self.is_parked || may_follow_parked(record), "{record:?} while it waits");
        match record {
            Record::TaskGiven { .. }
            | Record::RetryAsked { .. }
            | Record::SystemSaid { .. }
            | Record::Compacted { .. } => {}
            Record::CallWaits { call_id, reason } => self.wait(call_id, *reason),
            Record::CallApproved { call_id, .. } => self.approve(call_id),
            Record::CallProbed { call_id } => self.probe(call_id),
            Record::Parked { reason } => self.park(*reason),
            Record::Unparked => assert!(std::mem::take(&mut self.is_parked), "it waited"),
            Record::MessageGiven { number, .. } => self.hear(*number),
            Record::TurnStarted { turn, attempt, closing } => self.start(*turn, *attempt, *closing),
            Record::FellBack { turn, attempt, fallback } => {
                self.fall_back((*turn, *attempt), *fallback);
            }
            Record::Replied { turn, attempt, reply, calls } => {
                assert_eq!((*turn, *attempt), (self.turn, self.attempt), "it answers the attempt");
                assert!(!self.has_reply, "turn {turn} has one reply");
                self.has_reply = true;
                self.plan(reply, calls);
            }
            Record::CallsStarted { call_ids } => {
                for call_id in call_ids {
                    self.run(call_id, 1);
                }
            }
            Record::CallRestarted { call_id, attempt } => {
                let before = self.restart(call_id);
                assert_eq!(before, attempt - 1, "{call_id} was running");
                self.run(call_id, *attempt);
            }
            Record::CallEnded { outcome } => self.end(outcome),
            Record::ActionRecorded { turn } => self.record(*turn),
            Record::ToolsChanged { added, .. } => {
                assert!(self.has_reply && !self.is_recorded, "a reply brings tools");
                assert!(!added.is_empty(), "something changes");
            }
            Record::Ended(ending) => {
                self.leave();
                assert_eq!(self.unheard, 0, "a message is followed by a turn");
                self.ended = Some(ending.clone());
                self.is_parked = false;
            }
            Record::Resumed => {
                self.ended = None;
                self.n_resumes += 1;
            }
        }
        self.announced = matches!(record, Record::SystemSaid { .. });
    }

    fn wait(&mut self, call_id: &CallId, reason: WaitReason) {
        let call = &self.calls[call_id];
        assert!(self.open.contains(call_id), "{call_id} is open");
        let ran = self.running.remove(call_id);
        let is_right = match reason {
            WaitReason::Approval => call.waits.approval && !self.approved.contains(call_id),
            WaitReason::ToolResults => call.waits.by_client && self.may_run(call),
            WaitReason::InDoubt => {
                call.effect == EffectClass::AtMostOnce
                    && call.waits.on_in_doubt != OnInDoubt::Observe
            }
            WaitReason::SubRuns => call.waits.by_run.is_some() && self.may_run(call),
            WaitReason::BudgetExhausted => false,
        };
        assert!(is_right, "{call_id} has to wait for {reason}");
        assert_eq!(ran.is_some(), reason == WaitReason::InDoubt, "{call_id} waits for {reason}");
        let before = self.waiting.insert(call_id.clone(), (reason, ran.unwrap_or(0)));
        assert_eq!(before, None, "{call_id} waits for one thing");
    }

    fn may_run(&self, call: &PlannedCall) -> bool {
        !call.waits.approval || self.approved.contains(&call.call_id)
    }

    /// How often a call had been started that starts again.
    fn restart(&mut self, call_id: &CallId) -> u32 {
        if let Some((reason, before)) = self.waiting.remove(call_id) {
            assert_eq!(reason, WaitReason::InDoubt, "{call_id} was in doubt");
            return before;
        }
        let call = &self.calls[call_id];
        assert_ne!(call.effect, EffectClass::AtMostOnce, "{call_id} runs once");
        self.running.remove(call_id).expect("it was running")
    }

    fn park(&mut self, reason: WaitReason) {
        assert!(self.running.is_empty(), "something runs: {:?}", self.running);
        let is_budget = reason == WaitReason::BudgetExhausted;
        // Calls may wait for a caller while there is no budget for the others of their turn.
        assert!(is_budget || !self.waiting.is_empty(), "it waits for its calls or for budget");
        self.is_parked = true;
    }

    fn approve(&mut self, call_id: &CallId) {
        let before = self.waiting.remove(call_id);
        assert_eq!(before, Some((WaitReason::Approval, 0)), "{call_id} was asked about");
        self.approved.insert(call_id.clone());
    }

    fn probe(&self, call_id: &CallId) {
        assert_eq!(self.calls[call_id].waits.on_in_doubt, OnInDoubt::Probe);
        assert!(self.waiting.contains_key(call_id), "{call_id} is in doubt");
    }

    fn record(&mut self, turn: u32) {
        assert_eq!(turn, self.turn, "it is this turn");
        assert!(self.has_reply && !self.is_recorded, "turn {turn} is recorded once");
        self.is_recorded = true;
        assert!(self.open.is_empty(), "every call has its outcome");
    }

    fn end(&mut self, outcome: &ToolOutcome) {
        let call_id = &outcome.tool_call_id;
        assert!(self.open.remove(call_id), "{outcome:?} ends an open call");
        let waited = self.waiting.remove(call_id).map(|(_, attempt)| attempt);
        let ran = self.running.remove(call_id).or(waited);
        assert!(ran.is_some() || outcome.attempts == 0, "{outcome:?} tells the truth");
        // A call that never ran has no say in what runs beside what.
        if ran.unwrap_or(0) == 0 {
            self.calls.remove(call_id);
        }
    }

    fn fall_back(&mut self, after: (u32, u32), fallback: u32) {
        assert_eq!(after, (self.turn, self.attempt), "it follows the attempt");
        assert_eq!(fallback, self.fallback + 1, "models are asked in order");
        assert!(fallback <= self.limits.fallbacks, "there is such a model");
        self.fallback = fallback;
    }

    fn hear(&mut self, number: u32) {
        self.n_given += 1;
        self.unheard += 1;
        assert_eq!(number, self.n_given, "messages come in order, each once");
        self.leave();
    }

    fn start(&mut self, turn: u32, attempt: u32, closing: bool) {
        if turn == self.turn {
            assert_eq!(attempt, self.attempt + 1, "attempts are counted");
            assert!(!self.has_reply, "an answered turn is not tried again");
        } else {
            assert_eq!((turn, attempt), (self.turn + 1, 1), "turns are counted");
            assert_eq!(self.announced, closing, "the closing turn is announced");
            self.leave();
            self.fallback = 0;
        }
        assert_eq!(closing, turn > self.limits.max_steps, "turns past the limit are closing");
        assert!(turn <= self.limits.max_steps + 1 + self.n_resumes, "turns are bounded");
        let bound = self.limits.model_attempts * (self.limits.fallbacks + 1) + RECLAIMS;
        assert!(attempt <= bound, "attempts are bounded");
        assert!(attempt == 1 || self.unheard == 0, "a message comes between turns");
        self.unheard = 0;
        (self.turn, self.attempt) = (turn, attempt);
        self.has_reply = false;
        self.is_recorded = false;
    }

    fn leave(&self) {
        assert!(self.open.is_empty(), "no call is left open: {:?}", self.open);
        assert_eq!(self.has_reply, self.is_recorded, "a reply is recorded before the turn is left");
    }

    fn plan(&mut self, reply: &Reply, calls: &[PlannedCall]) {
        let is_cut = reply.finish_reason == Some(FinishReason::Length);
        self.calls.clear();
        for call in calls {
            assert!(self.seen.insert(call.call_id.clone()), "{:?} is new", call.call_id);
            self.calls.insert(call.call_id.clone(), call.clone());
            let kind = call.settled.as_ref().map(|outcome| outcome.kind);
            assert!(!is_cut || kind == Some(OutcomeKind::Truncated), "a cut reply runs nothing");
            if kind.is_none() {
                self.open.insert(call.call_id.clone());
            }
        }
    }

    fn run(&mut self, call_id: &CallId, attempt: u32) {
        assert!(self.open.contains(call_id), "{call_id} is open");
        assert!(attempt <= 1 + RECLAIMS, "restarts are bounded");
        let before = self.running.insert(call_id.clone(), attempt);
        assert_eq!(before, None, "{call_id} starts once");
        let call = &self.calls[call_id];
        let is_elsewhere = call.waits.by_client || call.waits.by_run.is_some();
        assert!(self.may_run(call) && !is_elsewhere, "{call_id} may run");
        assert!(!self.waiting.contains_key(call_id), "{call_id} waits no more");
        let is_alone = |call: &PlannedCall| call.settled.is_none() && !call.parallel_safe;
        let is_ordered = !self.limits.parallel_tools || self.calls.values().any(is_alone);
        let n_others = self.running.len() + self.waiting.len();
        assert!(!is_ordered || n_others == 1, "{call_id} runs alone");
    }
}

/// Whether a record may come while the run waits: only its going on, and what closes it.
const fn may_follow_parked(record: &Record) -> bool {
    matches!(
        record,
        Record::Unparked
            | Record::CallEnded { .. }
            | Record::ActionRecorded { .. }
            | Record::Ended(_)
    )
}

/// Whether someone said that a call is to be sent again.
fn is_to_be_repeated(decision: &Decision, call_id: &CallId, attempt: u32) -> bool {
    let said = decision.answers.iter().any(|given| {
        given.call_id == *call_id && given.attempt == attempt && given.answer == CallAnswer::Retry
    });
    let is_probed = matches!(&decision.input, Input::Probed { call_id: probed, answer, .. }
        if probed == call_id && *answer == Some(CallAnswer::Retry));
    said || is_probed
}

/// What holds of calls that are sent again.
fn check_restarts(decision: &Decision) {
    for record in &decision.records {
        let Record::CallRestarted { call_id, attempt } = record else { continue };
        let call = decision.before.call(call_id).unwrap();
        let may = call.planned.effect != EffectClass::AtMostOnce
            || is_to_be_repeated(decision, call_id, attempt - 1);
        assert!(may, "{call_id} is sent again because someone says so");
    }
}

/// What holds of one decision.
fn check(decision: &Decision, limits: &Limits) {
    let Decision { before, input, records, .. } = decision;
    check_restarts(decision);
    if before.is_ended() && !records.is_empty() {
        assert_eq!(before.ending(), Some(&Ending::Interrupted), "an end is an end");
        assert_eq!(*input, Input::Resumed, "only a resumption leads on");
    }
    if let (Input::ModelFailed { retryable, elsewhere, .. }, Some(first)) = (input, records.first())
    {
        let is_final = !retryable || before.tries() >= limits.model_attempts;
        let is_again = matches!(first, Record::TurnStarted { .. });
        let waits = matches!(first, Record::Parked { .. } | Record::Ended(Ending::Interrupted));
        assert!(waits || is_again != is_final, "failures use up the attempts");
        if matches!(first, Record::FellBack { .. }) {
            assert!(*elsewhere, "the next model is asked where it may do better");
            assert!(matches!(records[1], Record::TurnStarted { .. }), "it is asked at once");
        }
    }
    check_starts(records);
}

/// What holds of calls that start with their reply.
fn check_starts(records: &[Record]) {
    if let [Record::Replied { calls, .. }, Record::CallsStarted { call_ids }, ..] = records {
        for call in calls.iter().filter(|call| call_ids.contains(&call.call_id)) {
            assert_ne!(call.effect, EffectClass::AtMostOnce, "it starts in its own commit");
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_journal_obeys_the_rules(limits in limits(), moves in moves(60)) {
        let world = played(limits, &moves);
        let audit = Audit::of(limits, &world.play.journal);
        prop_assert_eq!(audit.ended.as_ref(), world.play.state.ending());
        if let Some(Ending::Completed { .. }) = audit.ended {
            prop_assert_eq!(audit.n_given as usize, world.play.said.len(), "every message was heard");
        }
        for decision in &world.decisions {
            check(decision, &limits);
        }
    }

    #[test]
    fn the_journal_alone_restores_the_state(limits in limits(), moves in moves(60)) {
        let world = played(limits, &moves);
        prop_assert_eq!(restored(&world.play.journal), world.play.state);
    }

    #[test]
    fn answering_what_is_due_reaches_an_end(
        limits in limits(),
        moves in moves(30),
        shapes in prop::collection::vec(shape(), 1..8),
    ) {
        let mut world = played(limits, &moves);
        let mut answers = shapes.iter().cycle();
        for _ in 0..400 {
            if world.play.state.is_ended() {
                break;
            }
            let shape = answers.next().unwrap().clone();
            world.make(&Move::Answer { pick: 0, shape });
        }
        prop_assert!(world.play.state.is_ended(), "{:?}", world.play.state);
        Audit::of(limits, &world.play.journal);
    }
}
