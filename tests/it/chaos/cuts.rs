//! Streams that end too early, at every percent of their bytes.

use futures::future::join_all;
use serde_json::Value;

use super::{Ended, Stage, WIRES, Wire, call_of};
use crate::support::Recording;

/// How a stream is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The connection is reset.
    Reset,
    /// The body ends as a whole one does.
    Clean,
}

impl Cut {
    fn spec(self, percent: usize) -> String {
        match self {
            Self::Reset => format!("cut={percent}%"),
            Self::Clean => format!("cut={percent}%;clean=1"),
        }
    }

    /// The kinds that such a failure has.
    fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Reset => &["transport"],
            Self::Clean => &["truncated_stream", "protocol"],
        }
    }
}

/// A reply that is whole may lack what comes after the reason why it stopped.
fn assert_same(reply: &Value, whole: &Value, first: bool, case: &str) {
    for (member, value) in whole.as_object().unwrap() {
        let told = &reply[member];
        assert!(told == value || (first && member == "usage" && told.is_null()), "{case} {member}");
    }
}

/// Every failure is of the kind, and what came of the first attempt is how the recording begins.
async fn assert_cut(
    stage: &Stage,
    ended: &Ended,
    (wire, id): (&Wire, &str),
    cut: Cut,
    percent: usize,
) {
    let case = format!("{} {cut:?} {percent} {}", wire.provider, ended.run);
    assert!(ended.failures().iter().all(|kind| cut.kinds().contains(kind)), "{case}");
    let (first, bytes) = (&ended.requests[0], Recording::of_any_wire(id).bytes());
    let received = stage.received(first).await;
    assert!(bytes.starts_with(&received), "{case}");
    let whole = bytes.len() * percent / 100;
    let mut windows = received.windows(wire.end.len());
    let has_end = windows.any(|window| window == wire.end.as_bytes());
    if first["outcome"] == "replied" {
        assert!(has_end, "{case}");
    } else if cut == Cut::Clean {
        assert_eq!(received.len(), whole, "{case}");
    } else {
        assert!(received.len() <= whole, "{case}");
    }
    if percent == 100 && cut == Cut::Clean {
        assert_eq!(first["outcome"], "replied", "{case}");
    }
}

/// A provider that heals after its first answer, or that never does.
async fn cut_short(stage: &Stage, wire: &Wire, whole: &Value, cut: Cut, percent: usize) {
    let heals = percent % 25 != 12;
    let mut answers = vec![(wire.said, cut.spec(percent))];
    if heals {
        answers.push((wire.said, String::new()));
    }
    let ended = stage.play(wire, &answers).await;
    let case = format!("{} {cut:?} {percent} {}", wire.provider, ended.run);
    assert_cut(stage, &ended, (wire, wire.said), cut, percent).await;
    let attempts = ended.requests.len();
    if ended.completed() {
        assert!(attempts == 1 || (heals && attempts == 2), "{case}");
        assert_same(&ended.reply(), whole, attempts == 1, &case);
    } else {
        assert!(!heals && attempts == 4, "{case}");
    }
}

#[tokio::test]
async fn a_stream_cut_at_any_percent_is_a_whole_reply_or_none() {
    let Some(stage) = Stage::set().await else { return };
    let replies = stage.replies().await;
    let wires = WIRES.iter().zip(&replies);
    let all = wires.flat_map(|(wire, whole)| {
        let percents = (0..=100).flat_map(|percent| [(percent, Cut::Reset), (percent, Cut::Clean)]);
        percents.map(move |(percent, cut)| (wire, whole, cut, percent))
    });
    join_all(all.map(|(wire, whole, cut, percent)| cut_short(&stage, wire, whole, cut, percent)))
        .await;
    stage.assert_invariants().await;
}

/// Answers how many tools were called.
async fn call_cut_short(stage: &Stage, wire: &Wire, called: &'static str, percent: usize) -> usize {
    let cut = if percent.is_multiple_of(4) { Cut::Reset } else { Cut::Clean };
    let answers =
        [(called, cut.spec(percent)), (called, String::new()), (wire.said, String::new())];
    let ended = stage.play(wire, &answers).await;
    let case = format!("{} {cut:?} {percent} {}", wire.provider, ended.run);
    assert!(ended.completed(), "{case}");
    assert_cut(stage, &ended, (wire, called), cut, percent).await;
    // A whole first reply leaves its second copy to the next turn.
    let (turns, calls) = if ended.failures().is_empty() { (3, 2) } else { (2, 1) };
    let (name, arguments) = call_of(&Recording::of_any_wire(called));
    let outcomes = ended.actions().flat_map(|action| action["outcomes"].as_array().unwrap());
    let outcomes: Vec<&Value> = outcomes.collect();
    assert_eq!((ended.run["turn"].as_u64(), outcomes.len()), (Some(turns), calls));
    for outcome in &outcomes {
        assert_eq!(
            (&outcome["name"], &outcome["output"]["json"]),
            (&name.clone().into(), &arguments)
        );
    }
    outcomes.len()
}

#[tokio::test]
async fn no_tool_is_called_by_a_stream_that_is_cut() {
    let Some(stage) = Stage::set().await else { return };
    let calls = WIRES.iter().filter_map(|wire| Some((wire, wire.called?)));
    let all = calls.flat_map(|call| (0..=100).step_by(2).map(move |percent| (call, percent)));
    let calls = all.map(|((wire, called), percent)| call_cut_short(&stage, wire, called, percent));
    let calls: usize = join_all(calls).await.into_iter().sum();
    assert_eq!(stage.app.tools.seen().len(), calls);
    stage.assert_invariants().await;
}
