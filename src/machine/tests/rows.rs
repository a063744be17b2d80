//! The store keeps rows, not records: the last attempt of a turn, one row a call, one end a run. A
//! journal that is made from rows again restores the state all the same.

use proptest::prelude::*;

use super::world::{World, limits, moves};
use super::*;
use crate::domain::wait::WaitReason;

/// What a call was approved with, where that is not what the model sent.
#[derive(Debug)]
struct Approved(Option<String>);

/// A call as a row keeps it.
#[derive(Debug)]
struct CallRow {
    planned: PlannedCall,
    attempt: u32,
    waits: Option<WaitReason>,
    approved: Option<Approved>,
    outcome: Option<ToolOutcome>,
}

impl CallRow {
    fn of(planned: &PlannedCall) -> Self {
        let mut planned = planned.clone();
        let outcome = planned.settled.take();
        Self { planned, attempt: 0, waits: None, approved: None, outcome }
    }

    fn records(self) -> Vec<Record> {
        let call_id = self.planned.call_id;
        let mut records = Vec::new();
        if self.attempt > 0 {
            records.push(Record::CallsStarted { call_ids: vec![call_id.clone()] });
        }
        if self.attempt > 1 {
            let (call_id, attempt) = (call_id.clone(), self.attempt);
            records.push(Record::CallRestarted { call_id, attempt });
        }
        if let Some(Approved(arguments)) = self.approved {
            records.push(Record::CallApproved { call_id: call_id.clone(), arguments });
        }
        records.extend(self.waits.map(|reason| Record::CallWaits { call_id, reason }));
        records.extend(self.outcome.map(|outcome| Record::CallEnded { outcome }));
        records
    }
}

/// What rows keep of a journal.
#[derive(Debug, Default)]
struct Rows {
    made: Vec<Record>,
    turn: Option<Record>,
    fallback: Option<Record>,
    calls: Vec<CallRow>,
    tools: Option<Record>,
    parked: Option<Record>,
    end: Option<Record>,
}

impl Rows {
    fn of(journal: &[Record]) -> Vec<Record> {
        let mut rows = Self::default();
        for record in journal {
            rows.keep(record);
        }
        rows.flush();
        let turn = rows.fallback.into_iter().chain(rows.turn);
        rows.made.into_iter().chain(turn).chain(rows.parked).chain(rows.end).collect()
    }

    fn keep(&mut self, record: &Record) {
        match record {
            // Only the last one counts unless a reply makes a step of it.
            Record::TurnStarted { attempt, .. } => {
                self.turn = Some(record.clone());
                self.fallback = self.fallback.take().filter(|_| *attempt > 1);
            }
            // The event of the attempt tells it, as long as there is no reply.
            Record::FellBack { .. } => self.fallback = Some(record.clone()),
            Record::Replied { turn, attempt, reply, calls } => {
                self.made.extend(self.turn.take());
                self.fallback = None;
                self.calls = calls.iter().map(CallRow::of).collect();
                let calls = self.calls.iter().map(|row| row.planned.clone()).collect();
                let (turn, attempt, reply) = (*turn, *attempt, reply.clone());
                self.made.push(Record::Replied { turn, attempt, reply, calls });
            }
            Record::CallsStarted { call_ids } => {
                for call_id in call_ids {
                    self.row(call_id).attempt = 1;
                }
            }
            Record::CallRestarted { call_id, attempt } => {
                let row = self.row(call_id);
                (row.attempt, row.waits) = (*attempt, None);
            }
            Record::CallWaits { call_id, reason } => self.row(call_id).waits = Some(*reason),
            Record::CallApproved { call_id, arguments } => {
                let row = self.row(call_id);
                (row.approved, row.waits) = (Some(Approved(arguments.clone())), None);
            }
            // What is not known is asked once more.
            Record::CallProbed { .. } => {}
            Record::Parked { .. } => self.parked = Some(record.clone()),
            Record::Unparked => self.parked = None,
            Record::CallEnded { outcome } => {
                let row = self.row(&outcome.tool_call_id);
                (row.outcome, row.waits) = (Some(outcome.clone()), None);
            }
            // Its step stands behind that of the calls, whenever it was written.
            Record::ToolsChanged { .. } => self.tools = Some(record.clone()),
            Record::TaskGiven { .. }
            | Record::SystemSaid { .. }
            | Record::Compacted { .. }
            | Record::MessageGiven { .. }
            | Record::ActionRecorded { .. }
            | Record::RetryAsked { .. } => {
                self.flush();
                self.made.push(record.clone());
            }
            Record::Ended(_) => {
                self.parked = None;
                self.end = Some(record.clone());
            }
            Record::Resumed => self.end = None,
        }
    }

    fn row(&mut self, call_id: &CallId) -> &mut CallRow {
        self.calls.iter_mut().find(|row| row.planned.call_id == *call_id).unwrap()
    }

    /// Puts the calls of the turn behind its reply, in call order.
    fn flush(&mut self) {
        self.made.extend(self.calls.drain(..).flat_map(CallRow::records));
        self.made.extend(self.tools.take());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn what_rows_keep_restores_the_state(limits in limits(), moves in moves(60)) {
        let mut world = World::new(limits);
        for step in &moves {
            world.make(step);
        }
        let made = Rows::of(&world.play.journal);
        let asked = |record: &Record| matches!(record, Record::CallProbed { .. });
        let known = world.play.journal.into_iter().filter(|record| !asked(record));
        prop_assert_eq!(fold(made), fold(known));
    }
}
