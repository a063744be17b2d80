//! A batch as the columns that the guarded append takes.

use std::fmt::Display;

use super::{Batch, CallMove, CallTo, Guard, NewCall, NewStep};
use crate::domain::event::{EventData, EventName};
use crate::domain::id::RunId;
use crate::domain::model::Usage;
use crate::domain::request::RequestFigures;
use crate::domain::tool::ToolOutcome;
use crate::domain::wait::WaitRules;
use crate::store::StoreError;
use crate::store::rows::{At, to_json, to_json_opt};

/// How soon one of the waits that begin with a batch ends, in milliseconds.
pub(super) fn wake_ms(at: &At<'_, RunId>, batch: &Batch) -> Result<Option<i64>, StoreError> {
    let moved = batch.moves.iter().map(|moved| &moved.to);
    let waits = moved.chain(batch.calls.iter().map(|call| &call.to)).filter_map(|to| to.wait);
    waits.map(|wait| wait.bound_ms).min().map(|ms| at.count("wake_at", ms)).transpose()
}

/// Tokens in the order of the statement: input, output, cache read, cache write, reasoning.
pub(super) fn token_columns(guard: &Guard, usage: Usage) -> Result<[i64; 5], StoreError> {
    let at = At { table: "run", id: &guard.run };
    Ok([
        at.count("usage_input", usage.input)?,
        at.count("usage_output", usage.output)?,
        at.count("usage_cache_read", usage.cache_read)?,
        at.count("usage_cache_write", usage.cache_write)?,
        at.count("usage_reasoning", usage.reasoning)?,
    ])
}

/// The numbers of messages, and the steps that they become.
pub(super) fn taken_columns(
    guard: &Guard,
    taken: &[(u32, i64)],
) -> Result<(Vec<i32>, Vec<i64>), StoreError> {
    let at = At { table: "run_message", id: &guard.run };
    let numbers: Result<_, _> = taken.iter().map(|(n, _)| at.count("number", *n)).collect();
    Ok((numbers?, taken.iter().map(|(_, seq)| *seq).collect()))
}

#[derive(Default)]
pub(super) struct StepColumns {
    pub(super) ids: Vec<uuid::Uuid>,
    pub(super) turns: Vec<i32>,
    pub(super) attempts: Vec<i32>,
    pub(super) kinds: Vec<String>,
    pub(super) contents: Vec<String>,
    pub(super) differences: Vec<Option<String>>,
    pub(super) request_bytes: Vec<Option<i64>>,
    pub(super) shared_bytes: Vec<Option<i64>>,
    pub(super) sha256: Vec<Option<Vec<u8>>>,
}

impl StepColumns {
    pub(super) fn of(steps: &[NewStep], guard: &Guard) -> Result<Self, StoreError> {
        let at = At { table: "step", id: &guard.run };
        let mut columns = Self::default();
        for step in steps {
            columns.ids.push(step.id.uuid());
            columns.turns.push(at.count("turn", step.turn)?);
            columns.attempts.push(at.count("attempt", step.attempt)?);
            columns.kinds.push(step.content.kind().to_string());
            columns.contents.push(to_json(&step.content)?);
            columns.request(step.request.as_ref(), &at)?;
        }
        Ok(columns)
    }

    fn request<I: Display>(
        &mut self,
        request: Option<&RequestFigures>,
        at: &At<'_, I>,
    ) -> Result<(), StoreError> {
        let bytes = request.map(|request| at.count("request_bytes", request.bytes));
        let shared = request.and_then(|request| request.shared_bytes);
        let shared = shared.map(|shared| at.count("request_shared_bytes", shared));
        let difference = request.and_then(|request| request.difference.as_ref());
        self.request_bytes.push(bytes.transpose()?);
        self.shared_bytes.push(shared.transpose()?);
        self.sha256.push(request.map(|request| request.sha256.0.to_vec()));
        self.differences.push(to_json_opt(difference)?);
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct EventColumns {
    pub(super) names: Vec<String>,
    pub(super) data: Vec<String>,
}

impl EventColumns {
    pub(super) fn of(events: &[(EventName, EventData)]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for (name, data) in events {
            columns.names.push(name.to_string());
            columns.data.push(to_json(data)?);
        }
        Ok(columns)
    }
}

/// How calls stand after a batch.
#[derive(Default)]
pub(super) struct ToColumns {
    pub(super) states: Vec<String>,
    pub(super) attempts: Vec<i32>,
    pub(super) waits_for: Vec<Option<String>>,
    pub(super) wait_ms: Vec<Option<i64>>,
    pub(super) outcomes: Vec<Option<String>>,
}

impl ToColumns {
    fn push<I: Display>(&mut self, to: &CallTo, at: &At<'_, I>) -> Result<(), StoreError> {
        self.states.push(to.state.to_string());
        self.attempts.push(at.count("attempt", to.attempt)?);
        self.waits_for.push(to.wait.map(|wait| wait.reason.to_string()));
        let wait_ms = to.wait.map(|wait| at.count("wait_until", wait.bound_ms));
        self.wait_ms.push(wait_ms.transpose()?);
        self.outcomes.push(to_json_opt::<ToolOutcome>(to.outcome.as_ref())?);
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct MoveColumns {
    pub(super) ids: Vec<String>,
    pub(super) from: Vec<String>,
    pub(super) to: ToColumns,
    pub(super) approved: Vec<bool>,
    pub(super) sent_arguments: Vec<Option<String>>,
}

impl MoveColumns {
    pub(super) fn of(moves: &[CallMove]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for moved in moves {
            let at = At { table: "tool_call", id: &moved.call_id };
            columns.ids.push(moved.call_id.to_string());
            columns.from.push(moved.from.to_string());
            columns.to.push(&moved.to, &at)?;
            columns.approved.push(moved.to.is_approved);
            columns.sent_arguments.push(moved.to.sent_arguments.clone());
        }
        Ok(columns)
    }
}

#[derive(Default)]
pub(super) struct CallColumns {
    pub(super) step_seqs: Vec<i64>,
    pub(super) places: Vec<i32>,
    pub(super) ids: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) effects: Vec<String>,
    pub(super) parallel_safe: Vec<bool>,
    pub(super) unparsable: Vec<bool>,
    pub(super) wait_rules: Vec<Option<String>>,
    pub(super) to: ToColumns,
}

impl CallColumns {
    pub(super) fn of(calls: &[NewCall]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for call in calls {
            let planned = &call.planned;
            let at = At { table: "tool_call", id: &planned.call_id };
            columns.step_seqs.push(call.step_seq);
            columns.places.push(at.count("call_idx", call.call_idx)?);
            columns.ids.push(planned.call_id.to_string());
            columns.names.push(planned.name.clone());
            columns.arguments.push(planned.arguments.clone());
            columns.effects.push(planned.effect.to_string());
            columns.parallel_safe.push(planned.parallel_safe);
            columns.unparsable.push(planned.unparsable);
            let rules = Some(&planned.waits).filter(|rules| **rules != WaitRules::NONE);
            columns.wait_rules.push(to_json_opt(rules)?);
            columns.to.push(&call.to, &at)?;
        }
        Ok(columns)
    }
}
