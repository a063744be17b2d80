//! Rows to records.

use std::collections::BTreeMap;

use crate::domain::event::AskedFallback;
use crate::domain::run_message::Voice;
use crate::domain::step::{Step, StepContent};
use crate::domain::tool::CallState;
use crate::machine::record::{Ending, Record};
use crate::store::journal::LoadedRun;
use crate::store::steps::StoredCall;

/// The records of a run, as far as its rows tell: of the attempts of a turn only the last is there.
pub(crate) fn records_of(loaded: &LoadedRun) -> Vec<Record> {
    let mut records = Vec::new();
    let mut last_turn = 0;
    let mut calls = calls_by_step(&loaded.calls);
    for step in loaded.steps.iter().filter(|step| step.run_id == Some(loaded.run.id)) {
        if let Some(given) = given(loaded, step) {
            records.push(given);
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
                let calls = calls.remove(&step.seq).unwrap_or_default();
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
            StepContent::Tools(change) => records.push(Record::ToolsChanged {
                added: change.added.clone(),
                removed: change.removed.clone(),
            }),
            // No run sets a block of context.
            StepContent::Context(_) | StepContent::Final(_) => {}
        }
    }
    let facts = &loaded.run.facts;
    if facts.turn > last_turn {
        let (turn, attempt) = (facts.turn, facts.attempt);
        if let Some(AskedFallback { place: fallback, after: attempt, .. }) = loaded.fallback {
            records.push(Record::FellBack { turn, attempt, fallback });
        }
        records.push(Record::TurnStarted { turn, attempt, closing: loaded.closing });
    }
    if let Some(waits) = &facts.requires_action {
        records.push(Record::Parked { reason: waits.reason });
    }
    if loaded.resumed {
        records.push(Record::Ended(Ending::Interrupted));
    }
    records
}

/// The message that a step was, if it was one.
fn given(loaded: &LoadedRun, step: &Step) -> Option<Record> {
    let number = *loaded.heard.get(&step.seq)?;
    let (voice, text) = Voice::heard(&step.content)?;
    Some(Record::MessageGiven { number, voice, text: text.to_owned() })
}

fn calls_by_step(calls: &[StoredCall]) -> BTreeMap<i64, Vec<&StoredCall>> {
    let mut by_step: BTreeMap<i64, Vec<&StoredCall>> = BTreeMap::new();
    for call in calls {
        by_step.entry(call.step_seq).or_default().push(call);
    }
    by_step
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
        if call.is_approved {
            let arguments = call.sent_arguments.clone();
            records.push(Record::CallApproved { call_id: call_id.clone(), arguments });
        }
        if let Some(reason) = call.waits {
            records.push(Record::CallWaits { call_id: call_id.clone(), reason });
        }
        if let Some(outcome) = &call.outcome {
            records.push(Record::CallEnded { outcome: outcome.clone() });
        }
    }
    if calls.iter().all(|call| call.state == CallState::Ended) {
        records.push(Record::ActionRecorded { turn });
    }
}
