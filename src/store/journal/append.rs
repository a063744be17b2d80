//! The guarded append.

use std::fmt::Display;

use super::{Appended, Batch, CallMove, CallTo, Guard, NewCall, NewStep};
use crate::domain::event::{EventData, EventName};
use crate::domain::id::RunId;
use crate::domain::model::Usage;
use crate::domain::request::RequestFigures;
use crate::domain::run::{RunStatus, StopReason};
use crate::domain::tool::ToolOutcome;
use crate::domain::wait::WaitRules;
use crate::store::rows::{At, to_json, to_json_opt};
use crate::store::{Conflict, Store, StoreError, ledger};

/// Appends a batch, or nothing of it.
///
/// A write whose answer was lost is looked for under the run's row lock: there it has either landed
/// or never will.
///
/// # Errors
/// When the database does not take it, and whether it did could not be found out.
pub async fn append(store: &Store, guard: &Guard, batch: &Batch) -> Result<Appended, StoreError> {
    match execute(store, guard, batch).await {
        Ok(true) => Ok(Appended::Stored),
        Ok(false) => look(store, guard, batch).await,
        Err(StoreError::OutcomeUnknown(_)) => reconcile(store, guard, batch).await,
        Err(StoreError::Conflict(Conflict::BudgetExhausted)) => Ok(Appended::BudgetExhausted),
        Err(error) => Err(error),
    }
}

/// Where the row stands after an append that did not go through.
async fn look(store: &Store, guard: &Guard, batch: &Batch) -> Result<Appended, StoreError> {
    // FOR UPDATE waits for a write that is still on its way, which a plain read would not see.
    let row = sqlx::query!(
        r#"SELECT op_id, lease_token, next_seq, next_event_seq, n_messages,
                  n_answers, budgeted, cancel_requested_at IS NOT NULL AS "cancel!",
                  interrupt_requested_at IS NOT NULL AS "interrupt!"
             FROM run
            WHERE tenant_id = $1
              AND run_id = $2
              FOR UPDATE"#,
        guard.tenant.as_str(),
        guard.run.uuid()
    )
    .fetch_optional(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    let Some(row) = row else { return Ok(Appended::Fenced) };
    if row.op_id == batch.op_id {
        return Ok(Appended::Stored);
    }
    let is_ours = row.lease_token == Some(guard.token.0)
        && (row.next_seq, row.next_event_seq) == (guard.head.next_seq, guard.head.next_event_seq);
    let heard = i64::from(batch.hearing.n_messages);
    let unheard = batch.hearing.is_boundary && i64::from(row.n_messages) > heard;
    let parks = batch.facts.status == RunStatus::RequiresAction;
    let unanswered = i64::from(row.n_answers) > i64::from(batch.n_answers);
    Ok(match (is_ours, row.cancel) {
        (true, true) => Appended::CancelRequested,
        (true, false) if parks && row.interrupt => Appended::InterruptRequested,
        (true, false) if row.budgeted && !batch.draws.is_budgeted => Appended::BudgetSet,
        (true, false) if unheard => Appended::MessagesWait,
        (true, false) if parks && unanswered => Appended::AnswersWait,
        _ => Appended::Fenced,
    })
}

/// Finds out what became of a write whose answer was lost, and does it again if it never landed.
async fn reconcile(store: &Store, guard: &Guard, batch: &Batch) -> Result<Appended, StoreError> {
    match look(store, guard, batch).await? {
        done @ (Appended::Stored
        | Appended::MessagesWait
        | Appended::AnswersWait
        | Appended::BudgetSet
        | Appended::BudgetExhausted
        | Appended::InterruptRequested) => Ok(done),
        Appended::CancelRequested if !batch.despite_cancel => Ok(Appended::CancelRequested),
        Appended::CancelRequested | Appended::Fenced => {
            // With the row lock seen free and the write absent, it can only land if the same guard
            // still holds, and then only once: the compare-and-set is what makes this safe.
            match execute(store, guard, batch).await {
                Ok(true) => Ok(Appended::Stored),
                Ok(false) => look(store, guard, batch).await,
                Err(StoreError::Conflict(Conflict::BudgetExhausted)) => {
                    Ok(Appended::BudgetExhausted)
                }
                Err(error) => Err(error),
            }
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one line a parameter of the statement")]
async fn execute(store: &Store, guard: &Guard, batch: &Batch) -> Result<bool, StoreError> {
    let facts = &batch.facts;
    let at = At { table: "run", id: &guard.run };
    let tokens = token_columns(guard, facts.usage)?;
    let steps = StepColumns::of(&batch.steps, guard)?;
    let events = EventColumns::of(&batch.events)?;
    let moves = MoveColumns::of(&batch.moves)?;
    let calls = CallColumns::of(&batch.calls)?;
    let (taken, taken_by) = taken_columns(guard, &batch.hearing.taken)?;
    let requests = ledger::Columns::of(&batch.requests)?;
    let stored = sqlx::query_file_scalar!(
        "src/store/journal/append.sql",
        guard.tenant.as_str(),
        guard.run.uuid(),
        guard.token.0,
        guard.head.next_seq,
        guard.head.next_event_seq,
        batch.op_id,
        guard.epoch,
        batch.now,
        batch.despite_cancel,
        facts.status.label(),
        facts.stop_reason.map(StopReason::label),
        facts.answer.as_deref(),
        to_json_opt(facts.output.as_ref())?,
        to_json_opt(facts.failure.as_ref())?,
        tokens[0],
        tokens[1],
        tokens[2],
        tokens[3],
        tokens[4],
        at.count::<u32, i32>("n_steps", facts.steps)?,
        at.count::<u32, i32>("turn", facts.turn)?,
        at.count::<u32, i32>("attempt", facts.attempt)?,
        facts.finished_at,
        batch.closing,
        batch.is_progress,
        &steps.ids,
        &steps.turns,
        &steps.attempts,
        &steps.kinds,
        &steps.contents,
        &steps.differences as &[Option<String>],
        &events.names,
        &events.data,
        &moves.ids,
        &moves.from,
        &moves.to.states,
        &moves.to.attempts,
        &moves.to.outcomes as &[Option<String>],
        &calls.step_seqs,
        &calls.places,
        &calls.ids,
        &calls.names,
        &calls.arguments,
        &calls.effects,
        &calls.parallel_safe,
        &calls.unparsable,
        &calls.to.states,
        &calls.to.attempts,
        &calls.to.outcomes as &[Option<String>],
        at.count::<u32, i32>("n_messages_taken", batch.hearing.n_messages)?,
        batch.hearing.is_boundary,
        &taken,
        &taken_by,
        to_json(&facts.redactions)?,
        &steps.request_bytes as &[Option<i64>],
        &steps.shared_bytes as &[Option<i64>],
        &steps.sha256 as &[Option<Vec<u8>>],
        requests.facts,
        &requests.sha256,
        &requests.responses as &[Option<Vec<u8>>],
        &requests.heads,
        &requests.conversations,
        &requests.spans,
        to_json_opt(facts.requires_action.as_ref())?,
        wake_ms(&at, batch)?,
        at.count::<u32, i32>("n_answers", batch.n_answers)?,
        &moves.to.waits_for as &[Option<String>],
        &moves.to.wait_ms as &[Option<i64>],
        &moves.approved,
        &moves.sent_arguments as &[Option<String>],
        &calls.wait_rules as &[Option<String>],
        &calls.to.waits_for as &[Option<String>],
        &calls.to.wait_ms as &[Option<i64>],
        to_json(&batch.draws.draws)?,
        to_json(&batch.draws.waits)?,
        batch.draws.is_budgeted,
        facts.cost.map(|cost| at.count::<u64, i64>("cost", cost.micros())).transpose()?,
    )
    .fetch_one(store.worker())
    .await
    .map_err(StoreError::of_write)?;
    Ok(stored == 1)
}

/// How soon one of the waits that begin with a batch ends, in milliseconds.
fn wake_ms(at: &At<'_, RunId>, batch: &Batch) -> Result<Option<i64>, StoreError> {
    let moved = batch.moves.iter().map(|moved| &moved.to);
    let waits = moved.chain(batch.calls.iter().map(|call| &call.to)).filter_map(|to| to.wait);
    waits.map(|wait| wait.bound_ms).min().map(|ms| at.count("wake_at", ms)).transpose()
}

/// Tokens in the order of the statement: input, output, cache read, cache write, reasoning.
fn token_columns(guard: &Guard, usage: Usage) -> Result<[i64; 5], StoreError> {
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
fn taken_columns(guard: &Guard, taken: &[(u32, i64)]) -> Result<(Vec<i32>, Vec<i64>), StoreError> {
    let at = At { table: "run_message", id: &guard.run };
    let numbers: Result<_, _> = taken.iter().map(|(n, _)| at.count("number", *n)).collect();
    Ok((numbers?, taken.iter().map(|(_, seq)| *seq).collect()))
}

#[derive(Default)]
struct StepColumns {
    ids: Vec<uuid::Uuid>,
    turns: Vec<i32>,
    attempts: Vec<i32>,
    kinds: Vec<String>,
    contents: Vec<String>,
    differences: Vec<Option<String>>,
    request_bytes: Vec<Option<i64>>,
    shared_bytes: Vec<Option<i64>>,
    sha256: Vec<Option<Vec<u8>>>,
}

impl StepColumns {
    fn of(steps: &[NewStep], guard: &Guard) -> Result<Self, StoreError> {
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
struct EventColumns {
    names: Vec<String>,
    data: Vec<String>,
}

impl EventColumns {
    fn of(events: &[(EventName, EventData)]) -> Result<Self, StoreError> {
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
struct ToColumns {
    states: Vec<String>,
    attempts: Vec<i32>,
    waits_for: Vec<Option<String>>,
    wait_ms: Vec<Option<i64>>,
    outcomes: Vec<Option<String>>,
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
struct MoveColumns {
    ids: Vec<String>,
    from: Vec<String>,
    to: ToColumns,
    approved: Vec<bool>,
    sent_arguments: Vec<Option<String>>,
}

impl MoveColumns {
    fn of(moves: &[CallMove]) -> Result<Self, StoreError> {
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
struct CallColumns {
    step_seqs: Vec<i64>,
    places: Vec<i32>,
    ids: Vec<String>,
    names: Vec<String>,
    arguments: Vec<String>,
    effects: Vec<String>,
    parallel_safe: Vec<bool>,
    unparsable: Vec<bool>,
    wait_rules: Vec<Option<String>>,
    to: ToColumns,
}

impl CallColumns {
    fn of(calls: &[NewCall]) -> Result<Self, StoreError> {
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
