//! Generated moves against a run. Random inputs rarely fit a state, so most moves answer what is due;
//! some repeat an old input, some babble, some lose the worker.

use proptest::prelude::*;

use super::outside::{Deed, answer_for, deed, relieve, reload, rules, suffer};
use super::*;
use crate::domain::step::{Replaces, SummaryStep};
use crate::domain::wait::{GivenAnswer, WaitReason};

/// How a model call is answered.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Say,
    SayUnfit,
    Nothing,
    CutOff,
    Withheld,
    Calls {
        calls: Vec<CallShape>,
        cut: bool,
        text: bool,
    },
    Fail {
        retryable: bool,
        elsewhere: bool,
    },
    /// The conversation does not fit: it is made shorter.
    Shorten,
}

/// A call of a reply. `same` calls are equal in every turn.
#[derive(Debug, Clone)]
pub(super) struct CallShape {
    pub(super) effect: EffectClass,
    pub(super) parallel_safe: bool,
    pub(super) settled: Option<Settled>,
    pub(super) same: bool,
    pub(super) waits: WaitRules,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Settled {
    Unparsable,
    Refused,
    Answered,
    Loaded,
}

/// One thing that happens to a run.
#[derive(Debug, Clone)]
pub(super) enum Move {
    /// Something due is done; whatever is not begun is begun.
    Answer { pick: usize, shape: Shape },
    /// An old input comes again.
    Repeat(usize),
    /// Any input, with keys near those that would fit.
    Babble { kind: InputKind, pick: usize, shape: Shape },
    /// A caller says something to the run.
    Tell(Voice),
    /// A caller or a clock does something to the run.
    Suffer(Deed),
    /// The worker is lost, and another one reads the journal and claims the run.
    Reclaim,
}

/// The kinds of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InputKind {
    Claimed,
    Replied,
    ModelFailed,
    Compacted,
    CallsStarting,
    CallEnded,
    Probed,
    Interrupted,
    Cancelled,
    Aborted,
    Resumed,
}

impl InputKind {
    pub(super) const ALL: [Self; 11] = [
        Self::Claimed,
        Self::Replied,
        Self::ModelFailed,
        Self::Compacted,
        Self::CallsStarting,
        Self::CallEnded,
        Self::Probed,
        Self::Interrupted,
        Self::Cancelled,
        Self::Aborted,
        Self::Resumed,
    ];

    pub(super) const fn of(input: &Input) -> Self {
        match input {
            Input::Claimed => Self::Claimed,
            Input::Replied { .. } => Self::Replied,
            Input::ModelFailed { .. } => Self::ModelFailed,
            Input::Compacted { .. } => Self::Compacted,
            Input::CallsStarting { .. } => Self::CallsStarting,
            Input::CallEnded { .. } => Self::CallEnded,
            Input::Probed { .. } => Self::Probed,
            Input::Interrupted { .. } => Self::Interrupted,
            Input::Cancelled => Self::Cancelled,
            Input::Aborted { .. } => Self::Aborted,
            Input::Resumed => Self::Resumed,
        }
    }

    /// Whether its key names one effect, so that it counts at most once in the life of a run.
    const fn is_keyed(self) -> bool {
        matches!(
            self,
            Self::Replied
                | Self::ModelFailed
                | Self::Compacted
                | Self::CallsStarting
                | Self::CallEnded
        )
    }
}

/// A decision: the state it was made in, what was decided on, and what was decided.
#[derive(Debug, Clone)]
pub(super) struct Decision {
    pub(super) before: State,
    pub(super) input: Input,
    pub(super) records: Vec<Record>,
    /// The answers that were known then.
    pub(super) answers: Vec<GivenAnswer>,
}

/// A run and everything that happened to it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) play: Play,
    pub(super) decisions: Vec<Decision>,
    call_ids: Vec<CallId>,
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        Self { play: Play::new(limits), decisions: Vec::new(), call_ids: Vec::new() }
    }

    /// Makes a move and says what was decided on it.
    pub(super) fn make(&mut self, step: &Move) -> Vec<Record> {
        match step {
            Move::Answer { .. } if self.play.journal.is_empty() => {
                self.play.commit(task());
                Vec::new()
            }
            Move::Answer { pick, shape } => self.answer(*pick, shape),
            Move::Repeat(pick) => {
                let n = self.decisions.len().max(1);
                let old = self.decisions.get(pick % n).map(|decision| decision.input.clone());
                old.map_or_else(Vec::new, |input| self.feed(input))
            }
            Move::Babble { kind, pick, shape } => {
                let input = self.babble(*kind, *pick, shape);
                self.feed(input)
            }
            Move::Tell(voice) => {
                self.play.tell(*voice);
                Vec::new()
            }
            Move::Suffer(deed) if !suffer(&mut self.play, *deed) => Vec::new(),
            Move::Suffer(_) | Move::Reclaim => {
                reload(&mut self.play);
                self.feed(Input::Claimed)
            }
        }
    }

    fn answer(&mut self, pick: usize, shape: &Shape) -> Vec<Record> {
        let due = due(&self.play.state);
        let input = match due.get(pick % due.len().max(1)) {
            // A conversation is made shorter once a turn.
            Some(Effect::CallModel { turn, attempt, .. })
                if matches!(shape, Shape::Shorten) && !self.play.state.is_compacted() =>
            {
                Input::Compacted { turn: *turn, attempt: *attempt, summary: summary() }
            }
            Some(Effect::CallModel { turn, attempt, .. }) => {
                self.model_answer((*turn, *attempt), shape)
            }
            Some(Effect::StartCalls { call_ids }) => {
                Input::CallsStarting { call_ids: call_ids.clone() }
            }
            Some(Effect::CallTool { call_id, attempt }) => {
                Input::CallEnded { outcome: done(call_id.as_str()), attempt: *attempt }
            }
            Some(Effect::Probe { call_id, attempt }) => {
                let answer =
                    (!pick.is_multiple_of(4)).then(|| answer_for(WaitReason::InDoubt, pick));
                Input::Probed { call_id: call_id.clone(), attempt: *attempt, answer }
            }
            None if self.play.state.parked().is_some() => {
                relieve(&mut self.play, pick);
                Input::Claimed
            }
            None if self.play.state.is_ended() => Input::Resumed,
            None => Input::Claimed,
        };
        let is_over =
            self.play.state.is_ended() && self.play.state.ending() != Some(&Ending::Interrupted);
        let records = self.feed(input);
        assert_eq!(records.is_empty(), is_over, "doing what is due counts");
        records
    }

    fn feed(&mut self, input: Input) -> Vec<Record> {
        let before = self.play.state.clone();
        let records = self.play.feed(input.clone());
        if InputKind::of(&input).is_keyed() {
            let earlier = self.decisions.iter().find(|decision| decision.input == input);
            // That there is no budget for it leaves it due.
            let parks = |record: &Record| matches!(record, Record::Parked { .. });
            let counted = earlier.is_some_and(|decision| !decision.records.iter().all(parks));
            assert!(!counted || records.is_empty(), "{input:?} counts once");
        }
        let answers = self.play.outside.heard().to_vec();
        let decision = Decision { before, input: input.clone(), records: records.clone(), answers };
        self.decisions.push(decision);
        if input != Input::Claimed {
            let again = self.play.decide(input);
            assert_eq!(again, [], "the second time does not count");
        }
        records
    }

    fn model_answer(&mut self, (turn, attempt): (u32, u32), shape: &Shape) -> Input {
        let prefix = format!("n{}-", self.call_ids.len());
        let input = shape.input((turn, attempt), &prefix);
        if let Input::Replied { calls, .. } = &input {
            self.call_ids.extend(calls.iter().map(|call| call.call_id.clone()));
        }
        input
    }

    fn babble(&mut self, kind: InputKind, pick: usize, shape: &Shape) -> Input {
        let near = |at: u32, skew: usize| match skew % 6 {
            0 => at.saturating_sub(1),
            1 => at + 1,
            _ => at,
        };
        let turn = near(self.play.state.turn(), pick);
        let attempt = near(self.play.state.attempt(), pick / 6);
        match kind {
            InputKind::Claimed => Input::Claimed,
            InputKind::Replied => self.model_answer((turn, attempt), shape),
            InputKind::ModelFailed => {
                let (retryable, elsewhere) = (pick.is_multiple_of(2), pick.is_multiple_of(3));
                Input::ModelFailed { turn, attempt, retryable, elsewhere, failure: down() }
            }
            InputKind::Compacted => Input::Compacted { turn, attempt, summary: summary() },
            InputKind::CallsStarting => Input::CallsStarting {
                call_ids: vec![self.any_call(pick), self.any_call(pick / 7)],
            },
            InputKind::CallEnded => {
                let outcome = done(self.any_call(pick).as_str());
                Input::CallEnded { outcome, attempt: u32::try_from(pick % 4).unwrap() }
            }
            InputKind::Probed => {
                let (call_id, attempt) = (self.any_call(pick), u32::try_from(pick % 3).unwrap());
                Input::Probed { call_id, attempt, answer: None }
            }
            InputKind::Interrupted => {
                let parts = vec![words("It will ra")];
                let partial = (pick.is_multiple_of(2)).then(|| reply(parts, FinishReason::Other));
                Input::Interrupted { partial }
            }
            InputKind::Cancelled => Input::Cancelled,
            InputKind::Aborted => Input::Aborted { failure: timed_out() },
            InputKind::Resumed => Input::Resumed,
        }
    }

    /// One of the last calls or, sometimes, one that never was.
    fn any_call(&self, pick: usize) -> CallId {
        let back = pick % 6;
        self.call_ids.iter().rev().nth(back).cloned().unwrap_or_else(|| id("nobody"))
    }
}

/// A conversation that is made shorter.
pub(super) fn compacted(turn: u32, attempt: u32) -> Input {
    Input::Compacted { turn, attempt, summary: summary() }
}

/// What stands for an older step.
fn summary() -> SummaryStep {
    SummaryStep { replaces: Replaces::ToolOutput, through_seq: 1, text: None, usage: None }
}

/// The state as another worker reads it: from the journal, through JSON.
pub(super) fn restored(journal: &[Record]) -> State {
    let stored = serde_json::to_string(journal).unwrap();
    let records: Vec<Record> = serde_json::from_str(&stored).unwrap();
    assert_eq!(records, journal, "records survive the store");
    fold(records)
}

impl Shape {
    /// The answer to a model call; call ids begin with `prefix`.
    pub(super) fn input(&self, (turn, attempt): (u32, u32), prefix: &str) -> Input {
        let (reply, calls, verdict) = match self {
            Self::Say | Self::Shorten => {
                (reply(vec![words("Rainy.")], FinishReason::Stop), Vec::new(), None)
            }
            Self::SayUnfit => {
                let said = reply(vec![words("{}")], FinishReason::Stop);
                (said, Vec::new(), Some(Verdict::Fails(Vec::new())))
            }
            Self::Nothing => (reply(vec![thinking("hm")], FinishReason::Stop), Vec::new(), None),
            Self::CutOff => (reply(Vec::new(), FinishReason::Length), Vec::new(), None),
            Self::Withheld => (reply(Vec::new(), FinishReason::ContentFilter), Vec::new(), None),
            Self::Calls { calls, cut, text } => {
                let named = calls.iter().enumerate();
                let calls: Vec<_> =
                    named.map(|(n, call)| call.planned(&format!("{prefix}{n}"))).collect();
                let finish = if *cut { FinishReason::Length } else { FinishReason::ToolCalls };
                let mut said = asking(&calls, finish);
                if *text {
                    said.parts.push(words("Let me look."));
                }
                (said, calls, None)
            }
            Self::Fail { retryable, elsewhere } => {
                let (retryable, elsewhere, failure) = (*retryable, *elsewhere, down());
                return Input::ModelFailed { turn, attempt, retryable, elsewhere, failure };
            }
        };
        Input::Replied { turn, attempt, reply, calls, verdict }
    }
}

impl CallShape {
    fn planned(&self, name: &str) -> PlannedCall {
        let planned = match self.settled {
            None => pure(name),
            Some(Settled::Unparsable) => unparsable(name),
            Some(Settled::Refused) => {
                let kind = OutcomeKind::UnknownTool;
                settled(pure(name), ToolOutcome::not_run(id(name), "look", kind, None))
            }
            Some(Settled::Loaded) => PlannedCall {
                brings: vec![format!("tool_{name}")],
                ..settled(pure(name), ToolOutcome { attempts: 0, ..done(name) })
            },
            Some(Settled::Answered) => final_answer(name, text_output("Rainy.")),
        };
        let arguments = if self.same { "{}".to_owned() } else { planned.arguments };
        let (parallel_safe, waits) = (self.parallel_safe, self.waits);
        // What a caller or a sub-run does is never sent.
        let is_elsewhere = waits.by_client || waits.by_run.is_some();
        let effect = if is_elsewhere { EffectClass::Pure } else { self.effect };
        PlannedCall { arguments, effect, parallel_safe, waits, ..planned }
    }
}

pub(super) fn limits() -> impl Strategy<Value = Limits> {
    let bounds = (1..5_u32, 2..4_u32, 0..3_u32, 1..4_u32);
    (bounds, 0..3_u32, any::<bool>()).prop_map(|(bounds, fallbacks, parallel_tools)| {
        let (max_steps, loop_limit, output_retries, model_attempts) = bounds;
        Limits { max_steps, loop_limit, output_retries, model_attempts, fallbacks, parallel_tools }
    })
}

fn call_shape() -> impl Strategy<Value = CallShape> {
    let effect = prop::sample::select(EffectClass::ALL);
    let settled = prop_oneof![
        12 => Just(None),
        2 => Just(Some(Settled::Unparsable)),
        2 => Just(Some(Settled::Refused)),
        1 => Just(Some(Settled::Answered)),
        2 => Just(Some(Settled::Loaded)),
    ];
    (effect, prop::bool::weighted(0.8), settled, prop::bool::weighted(0.3), rules()).prop_map(
        |(effect, parallel_safe, settled, same, waits)| CallShape {
            effect,
            parallel_safe,
            settled,
            same,
            waits,
        },
    )
}

/// A complete reply.
pub(super) fn reply_shape() -> impl Strategy<Value = Shape> {
    let calls = prop::collection::vec(call_shape(), 1..5);
    let asks = (calls, prop::bool::weighted(0.1), any::<bool>());
    prop_oneof![
        24 => asks.prop_map(|(calls, cut, text)| Shape::Calls { calls, cut, text }),
        1 => Just(Shape::Say),
        2 => Just(Shape::SayUnfit),
        2 => Just(Shape::Nothing),
        1 => Just(Shape::CutOff),
        1 => Just(Shape::Withheld),
    ]
}

pub(super) fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        9 => reply_shape(),
        1 => (prop::bool::weighted(0.8), prop::bool::weighted(0.7))
            .prop_map(|(retryable, elsewhere)| Shape::Fail { retryable, elsewhere }),
        1 => Just(Shape::Shorten),
    ]
}

pub(super) fn moves(n: usize) -> impl Strategy<Value = Vec<Move>> {
    let answer = (any::<usize>(), shape());
    let babble = (prop::sample::select(&InputKind::ALL[..]), any::<usize>(), shape());
    let one = prop_oneof![
        9 => answer.prop_map(|(pick, shape)| Move::Answer { pick, shape }),
        2 => any::<usize>().prop_map(Move::Repeat),
        3 => babble.prop_map(|(kind, pick, shape)| Move::Babble { kind, pick, shape }),
        2 => prop::sample::select(Voice::ALL).prop_map(Move::Tell),
        3 => deed().prop_map(Move::Suffer),
        1 => Just(Move::Reclaim),
    ];
    prop::collection::vec(one, 0..n)
}
