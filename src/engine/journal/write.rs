//! Records to rows.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::calls;
use super::slots::{Slot, newly_told, slots_of};
use crate::clock::Ids;
use crate::domain::event::{AskedFallback, EventData, EventName, ModelName};
use crate::domain::id::{ErrorId, StepId};
use crate::domain::ledger::Purpose;
use crate::domain::mcp::Pins;
use crate::domain::message::Reply;
use crate::domain::model::Usage;
use crate::domain::request::RequestFigures;
use crate::domain::run::{RunFacts, RunFailure, RunStatus};
use crate::domain::run_message::Voice;
use crate::domain::step::{ActionStep, FinalStep, RetryStep, StepContent, SummaryStep, ToolsStep};
use crate::domain::tool::{FINAL_ANSWER, PlannedCall};
use crate::machine::record::{Ending, Record};
use crate::store::budget::Draws;
use crate::store::journal::{Batch, Head, Hearing, LoadedRun, NewStep};
use crate::store::ledger::{NewRequest, Recorded};

/// What comes from outside the records of a decision.
#[derive(Debug)]
pub(crate) struct Stamp<'a> {
    /// The moment.
    pub(crate) now: DateTime<Utc>,
    /// Where ids come from.
    pub(crate) ids: &'a dyn Ids,
    /// The request in figures, when the decision is about a reply that was heard to its end.
    pub(crate) heard: Option<RequestFigures>,
    /// The requests that are not recorded yet, in order.
    pub(crate) sent: &'a [Arc<NewRequest>],
}

/// A worker's picture of a run's rows: where they end, and what the model sees.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Journal {
    /// Where the next append goes.
    pub(crate) head: Head,
    /// The run's facts.
    pub(crate) facts: RunFacts,
    /// The steps a model sees, in order.
    pub(crate) history: Vec<StepContent>,
    /// The number of the last message that entered the run.
    n_messages: u32,
    /// All answers to calls that are known.
    n_answers: u32,
    closing: bool,
    /// The agent's models after the first.
    fallbacks: Arc<[ModelName]>,
    /// The one of them that is asked.
    fallback: Option<AskedFallback>,
    pub(super) action_seq: i64,
    pub(super) slots: Vec<Slot>,
}

impl Journal {
    /// The picture after a load.
    pub(crate) fn of(loaded: &LoadedRun) -> Self {
        let action_seq = loaded.calls.last().map_or(0, |call| call.step_seq);
        let slots = slots_of(loaded, action_seq);
        let mut journal = Self {
            head: loaded.head,
            facts: loaded.run.facts.clone(),
            history: loaded.steps.iter().map(|step| step.content.clone()).collect(),
            n_messages: loaded.n_messages,
            n_answers: loaded.n_answers,
            closing: loaded.closing,
            fallbacks: loaded.agent.model.fallbacks.iter().map(ModelName::of).collect(),
            fallback: loaded.fallback.clone(),
            action_seq,
            slots,
        };
        // What had ended in order was told when it was written.
        drop(newly_told(&mut journal.slots));
        journal
    }

    /// Counts what a call took that leaves nothing else on record; the next batch writes it.
    pub(crate) fn count(&mut self, spent: Usage) {
        self.facts.usage = self.facts.usage.plus(spent);
    }

    /// Notes how many answers to calls there are.
    pub(crate) const fn heard_answers(&mut self, n_answers: u32) {
        self.n_answers = n_answers;
    }

    /// The batch that writes a decision, and the picture after it. The picture holds only once the
    /// batch is stored.
    pub(crate) fn plan(&self, records: &[Record], stamp: &Stamp<'_>) -> (Batch, Self) {
        let mut draft = Draft { journal: self.clone(), batch: self.empty_batch(stamp), stamp };
        for record in records {
            draft.write(record);
        }
        let Draft { mut journal, mut batch, .. } = draft;
        journal.head.next_seq += count(batch.steps.len());
        journal.head.next_event_seq += count(batch.events.len());
        journal.head.op_id = batch.op_id;
        batch.facts = journal.facts.clone();
        batch.closing = journal.closing;
        batch.hearing.n_messages = journal.n_messages;
        (batch, journal)
    }

    /// The batch that gives a run its tools, and says how they changed.
    pub(crate) fn equip(&self, pins: Pins, change: Option<ToolsStep>, stamp: &Stamp<'_>) -> Batch {
        let mut draft = Draft { journal: self.clone(), batch: self.empty_batch(stamp), stamp };
        if let Some(change) = change {
            draft.recorded(StepContent::Tools(change));
        }
        let Draft { journal, mut batch, .. } = draft;
        batch.facts = journal.facts;
        batch.facts.unavailable_servers.clone_from(&pins.missing);
        batch.hearing.n_messages = self.n_messages;
        batch.pins = Some(pins);
        batch
    }

    fn empty_batch(&self, stamp: &Stamp<'_>) -> Batch {
        Batch {
            op_id: stamp.ids.random(),
            now: stamp.now,
            facts: self.facts.clone(),
            closing: self.closing,
            hearing: Hearing::default(),
            is_progress: false,
            despite_cancel: false,
            n_answers: self.n_answers,
            steps: Vec::new(),
            calls: Vec::new(),
            moves: Vec::new(),
            events: Vec::new(),
            draws: Draws::default(),
            pins: None,
            sub_runs: Vec::new(),
            given_up: Vec::new(),
            parent: None,
            requests: stamp
                .sent
                .iter()
                .map(|request| Recorded { request: Arc::clone(request), step_seq: None })
                .collect(),
        }
    }
}

/// A batch in the making.
pub(super) struct Draft<'a> {
    pub(super) journal: Journal,
    pub(super) batch: Batch,
    stamp: &'a Stamp<'a>,
}

impl Draft<'_> {
    fn write(&mut self, record: &Record) {
        match record {
            Record::TaskGiven { .. } | Record::CallProbed { .. } | Record::Resumed => {}
            Record::TurnStarted { turn, attempt, closing } => {
                self.start_turn(*turn, *attempt, *closing);
            }
            Record::FellBack { attempt, fallback, .. } => self.fall_back(*attempt, *fallback),
            Record::SystemSaid { text } => {
                self.recorded(Voice::System.step(text.clone()));
            }
            Record::MessageGiven { number, voice, text } => {
                let step_seq = self.recorded(voice.step(text.clone()));
                self.batch.hearing.taken.push((*number, step_seq));
                self.journal.n_messages = *number;
            }
            Record::Replied { turn, attempt, reply, calls } => {
                self.reply((*turn, *attempt), reply, calls);
            }
            Record::CallsStarted { call_ids } => {
                for call_id in call_ids {
                    calls::start(self, call_id, 1);
                }
            }
            Record::CallRestarted { call_id, attempt } => calls::start(self, call_id, *attempt),
            Record::CallWaits { call_id, reason } => calls::wait(self, call_id, *reason),
            Record::CallApproved { call_id, arguments } => {
                calls::approve(self, call_id, arguments.as_deref());
            }
            Record::CallEnded { outcome } => calls::end_call(self, outcome),
            Record::Parked { reason } => calls::park(self, *reason),
            Record::Unparked => calls::unpark(self),
            Record::ActionRecorded { turn } => {
                let step_seq = self.journal.action_seq;
                self.event(EventName::StepRecorded, EventData::Step { step_seq, turn: *turn });
                self.tell_tools(step_seq, *turn);
            }
            Record::ToolsChanged { added, removed } => {
                let change = ToolsStep { added: added.clone(), removed: removed.clone() };
                // It is told after the step before it, which other calls may still hold up.
                self.step(StepContent::Tools(change), 0, None);
            }
            Record::RetryAsked { cause, content, .. } => {
                let retry = RetryStep { cause: *cause, content: content.clone() };
                self.recorded(StepContent::Retry(retry));
            }
            Record::Compacted { summary, .. } => {
                self.journal.count(summary.usage.unwrap_or_default());
                self.compacted(summary.clone());
            }
            Record::Ended(ending) => self.end(ending),
        }
    }

    pub(super) fn event(&mut self, name: EventName, data: EventData) {
        self.batch.events.push((name, data));
    }

    /// Appends a step and answers its `seq`.
    fn step(&mut self, content: StepContent, attempt: u32, request: Option<RequestFigures>) -> i64 {
        let seq = self.journal.head.next_seq + count(self.batch.steps.len());
        self.journal.history.push(content.clone());
        self.journal.facts.steps = self.journal.facts.steps.saturating_add(1);
        self.batch.is_progress = true;
        self.batch.steps.push(NewStep {
            id: StepId::from(self.stamp.ids.sortable()),
            turn: self.journal.facts.turn,
            attempt,
            content,
            request,
        });
        seq
    }

    /// Appends a step that is complete as it is, and answers its `seq`.
    fn recorded(&mut self, content: StepContent) -> i64 {
        let step_seq = self.step(content, 0, None);
        let data = EventData::Step { step_seq, turn: self.journal.facts.turn };
        self.event(EventName::StepRecorded, data);
        step_seq
    }

    /// Tells of the change of tools that stands right behind the action whose calls brought it, if one
    /// does.
    fn tell_tools(&mut self, action_seq: i64, turn: u32) {
        if matches!(self.journal.history.last(), Some(StepContent::Tools(_))) {
            let step_seq = action_seq + 1;
            self.event(EventName::StepRecorded, EventData::Step { step_seq, turn });
        }
    }

    /// Appends a summary, which is written in the middle of a turn whose reply is still to come.
    fn compacted(&mut self, summary: SummaryStep) {
        let is_written = summary.text.is_some();
        let step_seq = self.step(StepContent::Summary(summary), 0, None);
        if is_written {
            self.came_of(Purpose::Summary, step_seq);
        }
        let data = EventData::Step { step_seq, turn: self.journal.facts.turn.saturating_sub(1) };
        self.event(EventName::StepRecorded, data);
    }

    /// Notes the step that came of the last request.
    fn came_of(&mut self, purpose: Purpose, step_seq: i64) {
        let last = self.batch.requests.last_mut();
        if let Some(last) = last.filter(|last| last.request.purpose == purpose) {
            last.step_seq = Some(step_seq);
        }
    }

    fn start_turn(&mut self, turn: u32, attempt: u32, closing: bool) {
        self.journal.facts.turn = turn;
        self.journal.facts.attempt = attempt;
        self.journal.closing = closing;
        // A turn that is tried again began before.
        self.batch.hearing.is_boundary |= attempt == 1;
        let name = if attempt == 1 { EventName::TurnStarted } else { EventName::TurnRestarted };
        let fallback = self.journal.fallback.take().filter(|_| attempt > 1);
        self.journal.fallback.clone_from(&fallback);
        self.event(name, EventData::Turn { turn, attempt, fallback });
    }

    /// Tells of the model with the next attempt.
    fn fall_back(&mut self, after: u32, place: u32) {
        let index = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
        let model = index.and_then(|index| self.journal.fallbacks.get(index)).cloned();
        self.journal.fallback = model.map(|model| AskedFallback { place, after, model });
    }

    fn reply(&mut self, (turn, attempt): (u32, u32), reply: &Reply, calls: &[PlannedCall]) {
        let action = ActionStep { reply: reply.clone(), outcomes: Vec::new(), v1: None };
        self.journal.count(reply.usage.unwrap_or_default());
        let heard = self.stamp.heard.clone();
        let is_heard = heard.is_some();
        let step_seq = self.step(StepContent::Action(action), attempt, heard);
        if is_heard {
            self.came_of(Purpose::Reply, step_seq);
        }
        self.journal.action_seq = step_seq;
        self.journal.slots.clear();
        for (call_idx, planned) in (0_u32..).zip(calls) {
            if planned.name != FINAL_ANSWER {
                self.event(EventName::ToolCall, EventData::Call { step_seq, call_idx, turn });
            }
            calls::new_call(self, step_seq, call_idx, planned);
        }
        for planned in calls {
            if let Some(outcome) = &planned.settled {
                calls::end_call(self, outcome);
            }
        }
    }

    fn end(&mut self, ending: &Ending) {
        let name = match ending {
            Ending::Completed { answer, output, stop_reason } => {
                self.recorded(StepContent::Final(FinalStep {
                    answer: answer.clone(),
                    output: output.clone(),
                    stop_reason: Some(*stop_reason),
                }));
                let facts = &mut self.journal.facts;
                facts.status = RunStatus::Completed;
                facts.stop_reason = Some(*stop_reason);
                facts.answer = Some(answer.clone());
                facts.output.clone_from(output);
                self.batch.hearing.is_boundary = true;
                EventName::RunCompleted
            }
            Ending::Failed(failure) => {
                let facts = &mut self.journal.facts;
                facts.status = RunStatus::Failed;
                facts.failure = Some(RunFailure {
                    cause: failure.cause.clone(),
                    detail: failure.detail.clone(),
                    error_id: ErrorId::from(self.stamp.ids.sortable()),
                });
                EventName::RunFailed
            }
            Ending::Cancelled => {
                self.journal.facts.status = RunStatus::Cancelled;
                EventName::RunCancelled
            }
            Ending::Interrupted => {
                self.journal.facts.status = RunStatus::Interrupted;
                EventName::RunInterrupted
            }
        };
        self.journal.facts.requires_action = None;
        self.journal.facts.finished_at = Some(self.stamp.now);
        self.batch.is_progress = true;
        self.event(name, EventData::Run(self.journal.facts.clone()));
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
