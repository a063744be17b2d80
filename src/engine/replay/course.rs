//! What is on record of how a run went, in the order and by the keys in which driving it asks for it.

use std::collections::{BTreeMap, VecDeque};

use crate::domain::event::{EventData, EventName, RunEvent};
use crate::domain::id::CallId;
use crate::domain::ledger::{LedgerEntry, Purpose, RequestOutcome};
use crate::domain::message::{Reply, ReplyState};
use crate::domain::model::{ModelErrorKind, Provider};
use crate::domain::run::{Failure, FailureCause, RunFacts};
use crate::domain::run_message::{RunMessage, Voice};
use crate::domain::step::{Step, StepContent, SummaryStep};
use crate::domain::tool::{OutcomeKind, ToolOutcome};
use crate::store::journal::{Head, LoadedRun};

/// A moment of a run that its events tell of.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mark {
    /// A model is asked.
    Turn {
        /// The turn.
        turn: u32,
        /// The attempt at it.
        attempt: u32,
        /// The place of the model among the fallbacks, from 1; 0 for the agent's first one.
        fallback: u32,
    },
    /// The run goes on after an interruption.
    Resumed,
    /// The run ends.
    Ends(EventName, Box<RunFacts>),
}

/// Which request: the turn, the attempt at it, and what is asked for.
type Key = (u32, u32, &'static str);

/// What is on record of how a run went.
#[derive(Debug)]
pub(super) struct Course {
    marks: VecDeque<Mark>,
    replies: BTreeMap<(u32, u32), Reply>,
    summaries: BTreeMap<u32, SummaryStep>,
    outcomes: BTreeMap<CallId, ToolOutcome>,
    /// The messages that have entered the run, by the turn that was over then.
    messages: Vec<(u32, RunMessage)>,
    entries: BTreeMap<Key, LedgerEntry>,
}

/// What the ledger says came of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Came {
    /// Why it failed, or what was made of a reply that could not be used.
    pub(super) error: Option<ModelErrorKind>,
    provider: Option<Provider>,
    provider_status: Option<u16>,
}

impl Course {
    pub(super) fn of(loaded: &LoadedRun, events: &[RunEvent], entries: Vec<LedgerEntry>) -> Self {
        let is_own = |step: &&Step| step.run_id == Some(loaded.run.id);
        let mut course = Self {
            marks: marks(events),
            replies: BTreeMap::new(),
            summaries: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            messages: Vec::new(),
            entries: entries.into_iter().map(|entry| (key(&entry), entry)).collect(),
        };
        for step in loaded.steps.iter().filter(is_own) {
            course.messages.extend(message(loaded, step));
            match &step.content {
                StepContent::Action(action) => {
                    course.replies.insert((step.turn, step.attempt), action.reply.clone());
                }
                StepContent::Summary(summary) => {
                    course.summaries.insert(step.turn, summary.clone());
                }
                _ => {}
            }
        }
        let ended = loaded
            .calls
            .iter()
            .filter_map(|call| Some((call.planned.call_id.clone(), call.outcome.clone()?)));
        course.outcomes.extend(ended);
        course
    }

    /// How many requests the ledger has.
    pub(super) fn n_requests(&self) -> usize {
        self.entries.len()
    }

    /// What happens next.
    pub(super) fn next(&self) -> Option<&Mark> {
        self.marks.front()
    }

    /// What happens after that.
    pub(super) fn next_but_one(&self) -> Option<&Mark> {
        self.marks.get(1)
    }

    /// It has happened.
    pub(super) fn pass(&mut self) {
        self.marks.pop_front();
    }

    /// The messages that have entered the run by the end of a turn.
    pub(super) fn messages(&self, turn: u32) -> Vec<RunMessage> {
        let entered = self.messages.iter().filter(|(after, _)| *after <= turn);
        entered.map(|(_, message)| message.clone()).collect()
    }

    /// The reply to an attempt, whole or cut off as it is asked for.
    pub(super) fn reply(&self, attempt: (u32, u32), state: ReplyState) -> Option<Reply> {
        self.replies.get(&attempt).filter(|reply| reply.state == state).cloned()
    }

    /// What stands for older steps since a turn.
    pub(super) fn summary(&self, turn: u32) -> Option<SummaryStep> {
        self.summaries.get(&turn).cloned()
    }

    /// How a call ended.
    pub(super) fn outcome(&self, call: &CallId) -> Option<&ToolOutcome> {
        self.outcomes.get(call)
    }

    /// How a call ended that was not closed by the end of the run.
    pub(super) fn own_outcome(&self, call: &CallId) -> Option<&ToolOutcome> {
        let is_closed = |outcome: &ToolOutcome| {
            use OutcomeKind::{Cancelled, InDoubt, Interrupted};
            matches!(outcome.kind, Cancelled | Interrupted | InDoubt)
        };
        self.outcome(call).filter(|outcome| !is_closed(outcome))
    }

    /// Takes the ledger's entry of a request that is made.
    pub(super) fn take_entry(
        &mut self,
        turn: u32,
        attempt: u32,
        purpose: Purpose,
    ) -> Option<LedgerEntry> {
        self.entries.remove(&(turn, attempt, purpose.label()))
    }

    /// The first entry that was not taken.
    pub(super) fn left(&self) -> Option<&LedgerEntry> {
        self.entries.values().next()
    }

    /// What is next ends the run while something is under way.
    pub(super) fn stops(&self) -> bool {
        match self.next() {
            Some(Mark::Ends(EventName::RunCancelled | EventName::RunInterrupted, _)) => true,
            Some(Mark::Ends(EventName::RunFailed, facts)) => !is_of_model(facts),
            _ => false,
        }
    }
}

/// Whether a run failed by what its model did.
fn is_of_model(facts: &RunFacts) -> bool {
    let cause = facts.failure.as_ref().map(|failure| &failure.cause);
    matches!(cause, Some(FailureCause::Model { .. }))
}

/// The marks of a run. That it waited for a caller leaves none: what came of that is in its calls.
fn marks(events: &[RunEvent]) -> VecDeque<Mark> {
    let mut waits = false;
    let mut marks = VecDeque::new();
    for event in events {
        let ends_wait = event.name == EventName::RunResumed && waits;
        waits = event.name == EventName::RunRequiresAction || waits && !ends_wait;
        marks.extend(mark(event).filter(|_| !ends_wait));
    }
    marks
}

fn mark(event: &RunEvent) -> Option<Mark> {
    match (event.name, &event.data) {
        (_, EventData::Turn { turn, attempt, fallback }) => Some(Mark::Turn {
            turn: *turn,
            attempt: *attempt,
            fallback: fallback.as_ref().map_or(0, |asked| asked.place),
        }),
        (EventName::RunResumed, _) => Some(Mark::Resumed),
        (name, EventData::Run(facts)) if name.is_last() => {
            Some(Mark::Ends(name, Box::new(facts.clone())))
        }
        _ => None,
    }
}

fn message(loaded: &LoadedRun, step: &Step) -> Option<(u32, RunMessage)> {
    let number = *loaded.heard.get(&step.seq)?;
    let (voice, text) = Voice::heard(&step.content)?;
    let message = RunMessage {
        run_id: loaded.run.id,
        number,
        voice,
        text: text.to_owned(),
        created_at: step.created_at,
    };
    Some((step.turn, message))
}

fn key(entry: &LedgerEntry) -> Key {
    (entry.turn, entry.attempt, entry.purpose.label())
}

impl Came {
    /// What is not on record.
    pub(super) const UNKNOWN: Self = Self { error: None, provider: None, provider_status: None };

    /// What came of a request; a reply is none, a summary that no step was made of is a failure.
    pub(super) fn of(entry: &LedgerEntry) -> Option<Self> {
        let error = match entry.outcome {
            RequestOutcome::Abandoned => return None,
            RequestOutcome::Failed => entry.error,
            RequestOutcome::Replied if entry.step_seq.is_some() => return None,
            RequestOutcome::Replied => Some(ModelErrorKind::UnusableOutput),
        };
        Some(Self { error, provider: entry.provider, provider_status: entry.status })
    }

    /// The same as a failure of the run.
    pub(super) fn failure(self) -> Failure {
        let cause = FailureCause::Model {
            provider: self.provider.unwrap_or(Provider::Openai),
            provider_status: self.provider_status,
            kind: self.error.unwrap_or(ModelErrorKind::Server),
        };
        Failure { cause, detail: String::new() }
    }
}

/// Takes a run back to when it was accepted. `false` where the steps that it began with are gone.
pub(super) fn rewind(loaded: &mut LoadedRun) -> bool {
    let id = Some(loaded.run.id);
    let own = loaded.steps.iter().position(|step| step.run_id == id);
    let Some((place, task)) = own.and_then(|place| Some((place, loaded.steps.get(place)?))) else {
        return false;
    };
    // Steps are numbered without gaps, and so those before the task are all there or not.
    let first = loaded.steps.first().map(|step| step.seq);
    let task_seq = task.seq;
    if first != Some(loaded.memory_from) {
        return false;
    }
    // The tools of a run are announced behind its task, before anything else.
    let is_tools = |step: &&Step| matches!(step.content, StepContent::Tools(_));
    let n_tools = loaded.steps.iter().skip(place + 1).take_while(is_tools).count();
    loaded.steps.truncate(place + 1 + n_tools);
    loaded.calls.retain(|call| call.step_seq < task_seq);
    loaded.run.facts = RunFacts::accepted();
    let next_seq = task_seq + 1 + i64::try_from(n_tools).unwrap_or(0);
    loaded.head = Head { next_seq, next_event_seq: 3, op_id: loaded.head.op_id };
    (loaded.closing, loaded.resumed, loaded.fallback, loaded.n_messages) = (false, false, None, 0);
    loaded.heard.clear();
    loaded.waiting.clear();
    true
}
