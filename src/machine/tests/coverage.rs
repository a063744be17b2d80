//! The generated moves reach every kind of input in every kind of state, and exactly the pairs that
//! should count do.

use std::collections::BTreeSet;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::world::{InputKind, World, limits, moves};
use super::*;

/// The kinds of state that decide differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StateKind {
    Blank,
    Ready,
    Thinking,
    Closing,
    Planned,
    Running,
    Waiting,
    Parked,
    Completed,
    Failed,
    Cancelled,
    Interrupted,
}

impl StateKind {
    const ALL: [Self; 12] = [
        Self::Blank,
        Self::Ready,
        Self::Thinking,
        Self::Closing,
        Self::Planned,
        Self::Running,
        Self::Waiting,
        Self::Parked,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
    ];

    fn of(state: &State) -> Self {
        if state.parked().is_some() {
            return Self::Parked;
        }
        match state.phase() {
            Phase::Blank => Self::Blank,
            Phase::Ready => Self::Ready,
            Phase::Thinking if state.is_closing() => Self::Closing,
            Phase::Thinking => Self::Thinking,
            Phase::Acting if state.open_calls().any(|call| call.waits.is_some()) => Self::Waiting,
            Phase::Acting if state.open_calls().any(|call| call.attempt > 0) => Self::Running,
            Phase::Acting => Self::Planned,
            Phase::Ended(Ending::Completed { .. }) => Self::Completed,
            Phase::Ended(Ending::Failed(_)) => Self::Failed,
            Phase::Ended(Ending::Cancelled) => Self::Cancelled,
            Phase::Ended(Ending::Interrupted) => Self::Interrupted,
        }
    }

    /// The inputs that can count in it.
    fn heeds(self) -> Vec<InputKind> {
        use InputKind::{
            Aborted, CallEnded, CallsStarting, Cancelled, Claimed, Compacted, Interrupted,
            ModelFailed, Probed, Replied, Resumed,
        };
        let (stops, own) = match self {
            Self::Blank | Self::Completed | Self::Failed | Self::Cancelled => (false, vec![]),
            Self::Ready | Self::Parked => (true, vec![Claimed]),
            Self::Thinking | Self::Closing => {
                (true, vec![Claimed, Replied, ModelFailed, Compacted])
            }
            Self::Planned => (true, vec![CallsStarting]),
            Self::Running => (true, vec![Claimed, CallsStarting, CallEnded]),
            Self::Waiting => (true, vec![Claimed, CallsStarting, CallEnded, Probed]),
            Self::Interrupted => (false, vec![Resumed]),
        };
        let stops = if stops { vec![Interrupted, Cancelled, Aborted] } else { vec![] };
        own.into_iter().chain(stops).collect()
    }
}

type Pairs = BTreeSet<(StateKind, InputKind)>;

/// The pairs that occurred, and those that led to a record.
fn sampled() -> (Pairs, Pairs) {
    let mut runner = TestRunner::deterministic();
    let strategy = (limits(), moves(60));
    let (mut seen, mut counted) = (Pairs::new(), Pairs::new());
    for _ in 0..2_000 {
        let (limits, moves) = strategy.new_tree(&mut runner).unwrap().current();
        let mut world = World::new(limits);
        for step in &moves {
            world.make(step);
        }
        for decision in world.decisions {
            let pair = (StateKind::of(&decision.before), InputKind::of(&decision.input));
            seen.insert(pair);
            if !decision.records.is_empty() {
                counted.insert(pair);
            }
        }
    }
    (seen, counted)
}

#[test]
fn every_input_meets_every_state_and_counts_exactly_where_it_should() {
    let pairs =
        StateKind::ALL.into_iter().flat_map(|state| InputKind::ALL.map(|kind| (state, kind)));
    let heeded = StateKind::ALL
        .into_iter()
        .flat_map(|state| state.heeds().into_iter().map(move |kind| (state, kind)));
    let (seen, counted) = sampled();
    let missing: Vec<_> = pairs.filter(|pair| !seen.contains(pair)).collect();
    assert_eq!(missing, [], "the moves reach every pair");
    assert_eq!(counted, heeded.collect::<Pairs>(), "exactly these count");
}
