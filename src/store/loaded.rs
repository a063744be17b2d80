//! Appending steps that come from a document rather than from a run.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use super::rows::to_json;
use super::threads::LoadedSteps;
use crate::domain::id::{TenantId, ThreadId};
use crate::domain::step::StepKind;

/// Appends them to a thread, the first one at this place.
pub(super) async fn insert_steps(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (thread, first_seq): (ThreadId, i64),
    steps: &LoadedSteps,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut batch = Batch { first_seq, ..Batch::default() };
    for (id, content) in steps.ids.iter().zip(&steps.contents) {
        // In a document, steps are counted from its first one.
        batch.add(id.uuid(), content.kind(), to_json(&*content.moved_by(first_seq - 1))?);
        if batch.bytes > BATCH_BYTES {
            let next = batch.next();
            insert_batch(tx, tenant, thread, (steps.op_id, now), &batch).await?;
            batch = next;
        }
    }
    insert_batch(tx, tenant, thread, (steps.op_id, now), &batch).await
}

/// About as many bytes of steps as are sent at once: a large document is not held once more as a whole.
const BATCH_BYTES: usize = 1024 * 1024;

/// Steps that are sent at once.
#[derive(Default)]
struct Batch {
    first_seq: i64,
    ids: Vec<Uuid>,
    kinds: Vec<String>,
    contents: Vec<String>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, id: Uuid, kind: StepKind, content: String) {
        self.bytes += content.len();
        self.ids.push(id);
        self.kinds.push(kind.to_string());
        self.contents.push(content);
    }

    /// One for the steps that follow.
    fn next(&self) -> Self {
        let n_steps = i64::try_from(self.ids.len()).unwrap_or(i64::MAX);
        Self { first_seq: self.first_seq.saturating_add(n_steps), ..Self::default() }
    }
}

async fn insert_batch(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
    (op_id, now): (Uuid, DateTime<Utc>),
    batch: &Batch,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO step (tenant_id, thread_id, seq, step_id, run_id, turn, attempt, kind, op_id,
                           epoch, content, created_at)
         SELECT $1, $2, $3 + s.place - 1, s.step_id, NULL, 0, 0, s.kind, $4, 0, s.content::json, $5
           FROM unnest($6::uuid[], $7::text[], $8::text[])
                WITH ORDINALITY AS s(step_id, kind, content, place)",
        tenant.as_str(),
        thread.uuid(),
        batch.first_seq,
        op_id,
        now,
        &batch.ids,
        &batch.kinds,
        &batch.contents
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}
