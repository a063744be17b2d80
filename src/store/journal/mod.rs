//! The only way a worker writes: the guarded append, and the load that recovery starts from.

mod append;
mod columns;
mod load;
mod replay;

pub use append::append;
pub use load::{LoadedRun, load};
pub use replay::load_as_begun;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::budget::Draws;
use super::ledger::Recorded;
use super::runs::NewRun;
use crate::domain::event::{EventData, EventName};
use crate::domain::id::{CallId, LeaseToken, RunId, StepId, TenantId};
use crate::domain::mcp::Pins;
use crate::domain::request::RequestFigures;
use crate::domain::run::RunFacts;
use crate::domain::step::StepContent;
use crate::domain::sub_run::Parent;
use crate::domain::tool::{CallState, PlannedCall, ToolOutcome};
use crate::domain::wait::WaitReason;

/// Where the journal of a run ends: the compare-and-set of every append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// `seq` of the next step.
    pub next_seq: i64,
    /// `seq` of the next event.
    pub next_event_seq: i64,
    /// Mark of the last append. A batch that only moves calls moves neither number on, but this.
    pub op_id: Uuid,
}

/// The right to append: who, to what, from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The run's tenant.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// The lease.
    pub token: LeaseToken,
    /// The claim's number.
    pub epoch: i64,
    /// Where the writer believes the journal ends.
    pub head: Head,
}

/// What one decision writes, all in one statement and so in one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Marks the write, so that one whose answer was lost can be recognised.
    pub op_id: Uuid,
    /// The moment.
    pub now: DateTime<Utc>,
    /// The run's facts after it.
    pub facts: RunFacts,
    /// Whether the current turn is the closing one.
    pub closing: bool,
    /// What it has to do with the messages to the run.
    pub hearing: Hearing,
    /// Whether the run got on: counts against its being poisoned.
    pub is_progress: bool,
    /// Whether it goes through although a cancel was asked for: it is the answer to that.
    pub despite_cancel: bool,
    /// How many answers to calls are known: when there are more, neither does the run begin to wait nor
    /// does a call wait no more.
    pub n_answers: u32,
    /// New steps, in order.
    pub steps: Vec<NewStep>,
    /// New calls of the last new step, in order.
    pub calls: Vec<NewCall>,
    /// Calls that moved on.
    pub moves: Vec<CallMove>,
    /// New events, in order.
    pub events: Vec<(EventName, EventData)>,
    /// Requests to models that are not recorded yet, in order.
    pub requests: Vec<Recorded>,
    /// What it has to do with budgets.
    pub draws: Draws,
    /// The tools of MCP servers that the run is given; only ahead of its first request.
    pub pins: Option<Pins>,
    /// The runs that its calls start.
    pub sub_runs: Vec<NewRun>,
    /// Calls that nobody waits for any more although the runs that they started have not ended.
    pub given_up: Vec<CallId>,
    /// Who is told when the run ends with it.
    pub parent: Option<Parent>,
}

impl Batch {
    /// Whether other runs may go on because of it.
    pub fn concerns_others(&self) -> bool {
        !self.sub_runs.is_empty()
            || !self.given_up.is_empty()
            || (self.parent.is_some() && self.facts.status.is_ended())
    }
}

/// What a batch has to do with the messages to the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hearing {
    /// The number of the last message that has entered the run with it; 0 before the first.
    pub n_messages: u32,
    /// Whether it is refused when there are more: it begins a turn or completes the run.
    pub is_boundary: bool,
    /// Messages that enter the run: their number and the `seq` of the step that they become.
    pub taken: Vec<(u32, i64)>,
}

/// A step to append.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStep {
    /// Its id.
    pub id: StepId,
    /// Its turn.
    pub turn: u32,
    /// Its attempt.
    pub attempt: u32,
    /// What it says.
    pub content: StepContent,
    /// The request in figures, for a reply that was heard to its end.
    pub request: Option<RequestFigures>,
}

/// A call to append.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCall {
    /// `seq` of its step.
    pub step_seq: i64,
    /// Its place in the step, from 0.
    pub call_idx: u32,
    /// What is planned.
    pub planned: PlannedCall,
    /// How far it comes within this batch.
    pub to: CallTo,
}

/// A call that moves on. It only does so from the state it is believed to be in.
#[derive(Debug, Clone, PartialEq)]
pub struct CallMove {
    /// Which one.
    pub call_id: CallId,
    /// From where.
    pub from: CallState,
    /// To where.
    pub to: CallTo,
}

/// How a call stands after a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTo {
    /// How far it has come.
    pub state: CallState,
    /// How often it was started.
    pub attempt: u32,
    /// What it waits for.
    pub wait: Option<Wait>,
    /// Whether whoever was asked agreed to it.
    pub is_approved: bool,
    /// What it is sent with, where that is not what the model sent.
    pub sent_arguments: Option<String>,
    /// How it ended.
    pub outcome: Option<ToolOutcome>,
}

impl CallTo {
    /// A call that nothing was done about.
    pub const PLANNED: Self = Self {
        state: CallState::Planned,
        attempt: 0,
        wait: None,
        is_approved: false,
        sent_arguments: None,
        outcome: None,
    };
}

/// What a call begins to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// What for.
    pub reason: WaitReason,
    /// How long at most, in milliseconds, by the database's clock.
    pub bound_ms: u64,
}

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is stored.
    Stored,
    /// It is not: the run is another's, or not where the writer believes. Stop, write nothing.
    Fenced,
    /// It is not: a caller asked for the end of the run.
    CancelRequested,
    /// It is not: a caller asked the run to stop, so it does not begin to wait.
    InterruptRequested,
    /// It is not: messages were added that the writer does not know of.
    MessagesWait,
    /// It is not: calls were answered, so that the run has no need to wait for that.
    AnswersWait,
    /// It is not: a budget was set that the writer does not know of.
    BudgetSet,
    /// It is not: a budget has no room for what it asks for.
    BudgetExhausted,
}
