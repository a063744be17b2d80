//! The guarded append.

use std::fmt::Display;
use std::time::Duration;

use sqlx::PgExecutor;

use super::{Appended, Batch, CallMove, CallTo, Guard, Head, NewCall, NewStep};
use crate::domain::event::{EventData, EventName};
use crate::domain::id::RunId;
use crate::domain::model::Usage;
use crate::domain::request::RequestFigures;
use crate::domain::run::{RunStatus, StopReason};
use crate::domain::tool::{CallState, ToolOutcome};
use crate::domain::wait::WaitRules;
use crate::store::rows::{At, to_json, to_json_opt};
use crate::store::lease::{FAMILY_FORMAT, FIRST_FORMAT};
use crate::store::{Conflict, Store, StoreError, ledger, patience, sub_runs};

/// How long an answer is waited for: a commit may be held up for ever, and no limit of the server's
/// own ends that.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a look may take; the lock is waited for no longer than two seconds of it.
const LOOK: Duration = Duration::from_secs(5);

/// Appends a batch, or nothing of it.
///
/// A write whose answer was lost is looked for under the run's row lock: there it has either landed
/// or never will. It is looked for until that is known, so whoever loses the right to write meanwhile
/// stops waiting; nothing is written behind his back.
///
/// # Errors
/// When the database does not take it; then nothing was written.
pub async fn append(store: &Store, guard: &Guard, batch: &Batch) -> Result<Appended, StoreError> {
    let mut stored = execute(store, guard, batch).await;
    while matches!(stored, Err(StoreError::OutcomeUnknown(_))) {
        match find(store, guard, batch).await? {
            Place::Free => stored = execute(store, guard, batch).await,
            Place::Taken(appended) => return Ok(appended),
        }
    }
    match stored {
        Ok(true) => return Ok(Appended::Stored),
        Ok(false) => {}
        Err(StoreError::Conflict(Conflict::BudgetExhausted)) => {
            return Ok(Appended::BudgetExhausted);
        }
        Err(error) => return Err(error),
    }
    match look(store, guard, batch).await? {
        // The calls are not where the writer believes.
        Place::Free => Ok(Appended::Fenced),
        Place::Taken(appended) => Ok(appended),
    }
}

/// Where the row stands for a batch that is not known to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where the batch goes. It is not there, and as its writer holds no lock, it will never be.
    Free,
    /// Elsewhere: this is what became of the batch.
    Taken(Appended),
}

/// Looks until there is something to be seen: the lock may be that of the very write.
async fn find(store: &Store, guard: &Guard, batch: &Batch) -> Result<Place, StoreError> {
    let mut n_before = 1;
    loop {
        match look(store, guard, batch).await {
            Err(error) if error.is_passing() => {
                let run = guard.run;
                tracing::warn!(%run, %error, "a write whose outcome is unknown is looked for");
            }
            seen => return seen,
        }
        patience::pause(n_before).await;
        n_before += 1;
    }
}

/// Where the row stands, seen under its lock: a plain read would not see a write that is on its way.
async fn look(store: &Store, guard: &Guard, batch: &Batch) -> Result<Place, StoreError> {
    let looked = async {
        let mut tx = store.worker().begin().await?;
        let row = sqlx::query!(
            r#"SELECT op_id, lease_token, next_seq, next_event_seq, n_messages, n_answers,
                      budgeted, status = 'running' AS "runs!",
                      cancel_requested_at IS NOT NULL AS "cancel!",
                      interrupt_requested_at IS NOT NULL AS "interrupt!"
                 FROM run
                WHERE tenant_id = $1
                  AND run_id = $2
                  FOR UPDATE"#,
            guard.tenant.as_str(),
            guard.run.uuid()
        )
        .fetch_optional(&mut *tx)
        .await?;
        // There is nothing to commit, and a commit may be held up where a rollback is not.
        tx.rollback().await?;
        Ok(row)
    };
    let row = patience::in_time(LOOK, looked).await.map_err(StoreError::of_read)?;
    let Some(row) = row else { return Ok(Place::Taken(Appended::Fenced)) };
    if row.op_id == batch.op_id {
        return Ok(Place::Taken(Appended::Stored));
    }
    let head =
        Head { next_seq: row.next_seq, next_event_seq: row.next_event_seq, op_id: row.op_id };
    let is_ours = row.runs && row.lease_token == Some(guard.token.0) && head == guard.head;
    let heard = i64::from(batch.hearing.n_messages);
    let unheard = batch.hearing.is_boundary && i64::from(row.n_messages) > heard;
    let parks = matches!(batch.facts.status, RunStatus::RequiresAction | RunStatus::Queued);
    let ends_wait = batch.moves.iter().any(|moved| moved.from == CallState::Waiting);
    let unanswered = (parks || ends_wait) && i64::from(row.n_answers) > i64::from(batch.n_answers);
    Ok(match (is_ours, row.cancel && !batch.despite_cancel) {
        (false, _) => Place::Taken(Appended::Fenced),
        (true, true) => Place::Taken(Appended::CancelRequested),
        (true, false) if parks && row.interrupt => Place::Taken(Appended::InterruptRequested),
        (true, false) if row.budgeted && !batch.draws.is_budgeted => {
            Place::Taken(Appended::BudgetSet)
        }
        (true, false) if unheard => Place::Taken(Appended::MessagesWait),
        (true, false) if unanswered => Place::Taken(Appended::AnswersWait),
        (true, false) => Place::Free,
    })
}

/// Sends the batch: as one statement where it concerns this run alone, else in a transaction with what
/// becomes of its sub-runs or is told to its parent.
async fn execute(store: &Store, guard: &Guard, batch: &Batch) -> Result<bool, StoreError> {
    let told = batch.parent.as_ref().filter(|_| batch.facts.status.is_ended());
    let silence =
        || StoreError::OutcomeUnknown(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
    if !batch.concerns_others() {
        let sent = send(store.worker(), guard, batch);
        return tokio::time::timeout(ANSWER, sent).await.unwrap_or_else(|_| Err(silence()));
    }
    let family = async {
        let mut tx = store.worker().begin().await.map_err(StoreError::of_read)?;
        if let Some(parent) = told {
            sub_runs::lock_parent(&mut tx, &guard.tenant, parent).await?;
        }
        for new in &batch.sub_runs {
            sub_runs::start(&mut tx, &guard.tenant, new).await?;
        }
        let is_stored = Box::pin(send(&mut *tx, guard, batch)).await?;
        if let (true, Some(parent)) = (is_stored, told) {
            let end = (&batch.facts, batch.now);
            sub_runs::answer(&mut tx, &guard.tenant, parent, end).await?;
        }
        if is_stored {
            tx.commit().await.map_err(StoreError::of_write)?;
        }
        Ok(is_stored)
    };
    tokio::time::timeout(ANSWER, family).await.unwrap_or_else(|_| Err(silence()))
}

#[expect(clippy::too_many_lines, reason = "one line a parameter of the statement")]
async fn send<'e>(
    executor: impl PgExecutor<'e>,
    guard: &Guard,
    batch: &Batch,
) -> Result<bool, StoreError> {
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
        guard.head.op_id,
        to_json_opt(facts.stopped.as_ref())?,
        if batch.sub_runs.is_empty() { FIRST_FORMAT } else { FAMILY_FORMAT },
    );
    Ok(stored.fetch_one(executor).await.map_err(StoreError::of_write)? == 1)
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
