//! The guarded append.

use std::time::Duration;

use sqlx::PgExecutor;

use super::columns::{
    CallColumns, EventColumns, MoveColumns, StepColumns, taken_columns, token_columns, wake_ms,
};
use super::{Appended, Batch, Guard, Head};
use crate::domain::format::RunFormat;
use crate::domain::run::{RunStatus, StopReason};
use crate::domain::tool::CallState;
use crate::store::rows::{At, to_json, to_json_opt};
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
    if matches!(stored, Err(StoreError::Conflict(Conflict::IdTaken))) {
        // A caller was faster by a moment; now it is seen whose sub-run is not to be started.
        stored = execute(store, guard, batch).await;
    }
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
        let refused = sub_runs::start(&mut tx, &guard.tenant, &batch.sub_runs).await?;
        let is_stored = Box::pin(send(&mut *tx, guard, batch)).await?;
        for parent in refused.into_iter().filter(|_| is_stored) {
            sub_runs::refuse(&mut tx, &guard.tenant, parent, batch.now).await?;
        }
        if let (true, Some(parent)) = (is_stored, told) {
            let end = (&batch.facts, batch.now);
            sub_runs::answer(&mut tx, &guard.tenant, parent, end).await?;
        }
        if is_stored && !batch.given_up.is_empty() {
            let calls = (guard.run, batch.given_up.as_slice());
            sub_runs::give_up(&mut tx, &guard.tenant, calls, batch.now).await?;
        }
        if is_stored {
            tx.commit().await.map_err(StoreError::of_write)?;
        }
        Ok(is_stored)
    };
    tokio::time::timeout(ANSWER, family).await.unwrap_or_else(|_| Err(silence()))
}

/// What a worker must know to go on from a batch.
const fn format_of(batch: &Batch) -> RunFormat {
    if batch.sub_runs.is_empty() { RunFormat::First } else { RunFormat::Family }
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
        to_json_opt(batch.pins.as_ref())?,
        format_of(batch).number(),
        to_json_opt(Some(&facts.unavailable_servers).filter(|servers| !servers.is_empty()))?,
    );
    Ok(stored.fetch_one(executor).await.map_err(StoreError::of_write)? == 1)
}
