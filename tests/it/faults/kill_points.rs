//! Every point at which a process is killed, and what must come of it: the tests run this table, and the
//! crate's documentation shows it.

use agentling::engine::CommitPoint;

use crate::support::Harm;

/// How the process dies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Death {
    /// Right before or after its n-th append.
    Append(CommitPoint, usize),
    /// When a statement is on its way, or done and not answered.
    Statement(&'static str, Harm),
    /// While the model streams.
    Streaming,
    /// While a tool works.
    InCall,
}

/// A point, in the life of a run with one tool call and then an answer.
#[derive(Debug)]
pub(super) struct KillPoint {
    /// The number of the fault case.
    pub(super) case: &'static str,
    /// When the process dies.
    pub(super) moment: &'static str,
    /// The effect class of the run's tool.
    pub(super) effect: &'static str,
    /// How the death is brought about.
    pub(super) death: Death,
    /// What the next worker does.
    pub(super) next: &'static str,
    /// How often the model is asked for each of the two turns, both workers taken together.
    pub(super) asked: [usize; 2],
    /// How often the tool is called.
    pub(super) called: usize,
    /// How the call ends.
    pub(super) outcome: &'static str,
}

const CLAIM: &str = "WITH due AS";

/// The points, in the order of a run's life.
pub(super) const KILL_POINTS: &[KillPoint] = &[
    KillPoint {
        case: "F-03",
        moment: "the run is claimed (C1), the model was not asked",
        effect: "pure",
        death: Death::Statement(CLAIM, Harm::Mute),
        next: "asks the model",
        asked: [1, 1],
        called: 1,
        outcome: "success",
    },
    KillPoint {
        case: "F-04",
        moment: "the model streams its reply",
        effect: "pure",
        death: Death::Streaming,
        next: "drops what had arrived, says `turn.restarted`, asks again",
        asked: [2, 1],
        called: 1,
        outcome: "success",
    },
    KillPoint {
        case: "F-05",
        moment: "the reply is there, it is not recorded (C3)",
        effect: "pure",
        death: Death::Append(CommitPoint::Before, 1),
        next: "asks again; one paid call is lost",
        asked: [2, 1],
        called: 1,
        outcome: "success",
    },
    KillPoint {
        case: "F-06",
        moment: "the reply is recorded (C3), the tool was not called",
        effect: "pure",
        death: Death::Append(CommitPoint::After, 1),
        next: "calls the tool; the model is not asked again",
        asked: [1, 1],
        called: 1,
        outcome: "success",
    },
    KillPoint {
        case: "F-06",
        moment: "the reply is recorded (C3), the tool was not called",
        effect: "at_most_once",
        death: Death::Append(CommitPoint::After, 1),
        next: "calls the tool, which is not on record as started",
        asked: [1, 1],
        called: 1,
        outcome: "success",
    },
    KillPoint {
        case: "F-07",
        moment: "the tool works",
        effect: "idempotent",
        death: Death::InCall,
        next: "calls again with the same key",
        asked: [1, 1],
        called: 2,
        outcome: "success",
    },
    KillPoint {
        case: "F-08",
        moment: "the call is about to be recorded as started (C4)",
        effect: "at_most_once",
        death: Death::Append(CommitPoint::Before, 2),
        next: "calls the tool, which is not on record as started",
        asked: [1, 1],
        called: 1,
        outcome: "success",
    },
    KillPoint {
        case: "F-08",
        moment: "the call is recorded as started (C4), the tool was not called",
        effect: "at_most_once",
        death: Death::Append(CommitPoint::After, 2),
        next: "does not call: it cannot know that nothing was sent",
        asked: [1, 1],
        called: 0,
        outcome: "in_doubt",
    },
    KillPoint {
        case: "F-08",
        moment: "the tool works",
        effect: "at_most_once",
        death: Death::InCall,
        next: "does not call again",
        asked: [1, 1],
        called: 1,
        outcome: "in_doubt",
    },
    KillPoint {
        case: "F-09",
        moment: "the tool works",
        effect: "pure",
        death: Death::InCall,
        next: "calls again",
        asked: [1, 1],
        called: 2,
        outcome: "success",
    },
    KillPoint {
        case: "F-10",
        moment: "the tool has answered, its outcome is not recorded (C5)",
        effect: "pure",
        death: Death::Append(CommitPoint::Before, 2),
        next: "calls again",
        asked: [1, 1],
        called: 2,
        outcome: "success",
    },
    KillPoint {
        case: "F-10",
        moment: "the tool has answered, its outcome is not recorded (C5)",
        effect: "idempotent",
        death: Death::Append(CommitPoint::Before, 2),
        next: "calls again with the same key",
        asked: [1, 1],
        called: 2,
        outcome: "success",
    },
    KillPoint {
        case: "F-10",
        moment: "the tool has answered, its outcome is not recorded (C5)",
        effect: "at_most_once",
        death: Death::Append(CommitPoint::Before, 3),
        next: "does not call again",
        asked: [1, 1],
        called: 1,
        outcome: "in_doubt",
    },
    KillPoint {
        case: "F-10",
        moment: "the outcome is recorded (C5), the model was not asked again",
        effect: "at_most_once",
        death: Death::Append(CommitPoint::After, 3),
        next: "asks the model; the tool is not called again",
        asked: [1, 1],
        called: 1,
        outcome: "success",
    },
    KillPoint {
        case: "F-12",
        moment: "the answer is there, the end is not recorded (C6)",
        effect: "pure",
        death: Death::Append(CommitPoint::Before, 3),
        next: "asks for the answer again; one paid call is lost",
        asked: [1, 2],
        called: 1,
        outcome: "success",
    },
    KillPoint {
        case: "F-12",
        moment: "the end is recorded (C6), nobody was told",
        effect: "pure",
        death: Death::Append(CommitPoint::After, 3),
        next: "has nothing to do: state, answer and last event are one commit",
        asked: [1, 1],
        called: 1,
        outcome: "success",
    },
];

/// The table as the crate's documentation shows it.
fn markdown() -> String {
    let mut lines = vec![
        "| case | the process dies when | effect class | the next worker | model asked | tool called | outcome |".to_owned(),
        "|---|---|---|---|---|---|---|".to_owned(),
    ];
    lines.extend(KILL_POINTS.iter().map(|point| {
        let KillPoint { case, moment, effect, next, asked, called, outcome, .. } = point;
        let asked: usize = asked.iter().sum();
        format!("| {case} | {moment} | `{effect}` | {next} | {asked} | {called} | `{outcome}` |")
    }));
    let intro = "A run asks its model, calls one tool, and asks for the answer. Undisturbed it asks \
                 twice and calls once. Its process is killed once, at each of these points, and \
                 another one takes over when the lease has run out. Before C0 is committed nothing \
                 exists and the caller tries again (F-01); after it the same key leads to the same run \
                 (F-02). In every case the steps and events are those of the undisturbed run but for \
                 the outcome shown.\n\n";
    format!("{intro}{}\n", lines.join("\n"))
}

#[test]
fn the_table_of_kill_points_in_the_documentation_is_the_one_that_is_tested() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/engine/kill_points.md");
    let kept = std::fs::read_to_string(file).unwrap_or_default();
    if kept != markdown() {
        std::fs::write(file, markdown()).unwrap();
        panic!("the table was out of date and has been rewritten: look at its diff and commit it");
    }
}
