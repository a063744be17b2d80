//! Rows to records.

use crate::domain::run_message::RunMessage;
use crate::domain::step::StepContent;
use crate::domain::tool::CallState;
use crate::machine::record::{Ending, Record};
use crate::store::journal::LoadedRun;
use crate::store::steps::StoredCall;

/// The records of a run, as far as its rows tell: of the attempts of a turn only the last is there.
pub(crate) fn records_of(loaded: &LoadedRun) -> Vec<Record> {
    let mut records = Vec::new();
    let mut last_turn = 0;
    for step in loaded.steps.iter().filter(|step| step.run_id == Some(loaded.run.id)) {
        if let Some(message) = loaded.messages.iter().find(|it| it.step_seq == Some(step.seq)) {
            records.push(given(&message.message));
            continue;
        }
        match &step.content {
            StepContent::Task(task) => {
                records.push(Record::TaskGiven { parts: task.parts.clone() });
            }
            StepContent::Action(action) => {
                last_turn = step.turn;
                let closing = loaded.closing && step.turn == loaded.run.facts.turn;
                let (turn, attempt) = (step.turn, step.attempt);
                records.push(Record::TurnStarted { turn, attempt, closing });
                let calls = calls_of(&loaded.calls, step.seq);
                let planned = calls.iter().map(|call| call.planned.clone()).collect();
                let reply = action.reply.clone();
                records.push(Record::Replied { turn, attempt, reply, calls: planned });
                push_calls(&mut records, &calls, turn);
            }
            StepContent::Retry(retry) => records.push(Record::RetryAsked {
                turn: step.turn,
                cause: retry.cause,
                content: retry.content.clone(),
            }),
            StepContent::System(system) => {
                records.push(Record::SystemSaid { text: system.text.clone() });
            }
            StepContent::Summary(summary) => {
                records.push(Record::Compacted { turn: step.turn, summary: summary.clone() });
            }
            // No run sets a block of context or changes its tools.
            StepContent::Context(_) | StepContent::Tools(_) | StepContent::Final(_) => {}
        }
    }
    let facts = &loaded.run.facts;
    if facts.turn > last_turn {
        let (turn, attempt) = (facts.turn, facts.attempt);
        records.push(Record::TurnStarted { turn, attempt, closing: loaded.closing });
    }
    if loaded.resumed {
        records.push(Record::Ended(Ending::Interrupted));
    }
    records
}

fn given(message: &RunMessage) -> Record {
    let RunMessage { number, voice, text, .. } = message;
    Record::MessageGiven { number: *number, voice: *voice, text: text.clone() }
}

fn calls_of(calls: &[StoredCall], step_seq: i64) -> Vec<&StoredCall> {
    calls.iter().filter(|call| call.step_seq == step_seq).collect()
}

fn push_calls(records: &mut Vec<Record>, calls: &[&StoredCall], turn: u32) {
    for call in calls {
        let call_id = &call.planned.call_id;
        if call.attempt > 0 {
            records.push(Record::CallsStarted { call_ids: vec![call_id.clone()] });
        }
        if call.attempt > 1 {
            let attempt = call.attempt;
            records.push(Record::CallRestarted { call_id: call_id.clone(), attempt });
        }
        if let Some(outcome) = &call.outcome {
            records.push(Record::CallEnded { outcome: outcome.clone() });
        }
    }
    if calls.iter().all(|call| call.state == CallState::Ended) {
        records.push(Record::ActionRecorded { turn });
    }
}
