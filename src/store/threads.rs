//! Threads, and the memory that callers load into them.

use std::fmt::Display;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::idempotency::{self, IdempotencyKey};
use super::rows::{At, labels, to_json};
use super::{Conflict, Store, StoreError, loaded};
use crate::domain::agent::Metadata;
use crate::domain::id::{RunId, StepId, TenantId, ThreadId};
use crate::domain::page::{ListFilter, Page, PageRequest};
use crate::domain::step::StepContent;
use crate::domain::thread::{ForkPoint, Framing, Thread};

pub(super) struct ThreadRow {
    pub(super) thread_id: Uuid,
    pub(super) framing_policy: String,
    pub(super) announce: String,
    pub(super) framing_tags: Vec<String>,
    pub(super) metadata: String,
    pub(super) memory_from: i64,
    pub(super) head_seq: i64,
    pub(super) forked_from: Option<Uuid>,
    pub(super) forked_at: Option<i64>,
    pub(super) revision: i64,
    pub(super) created_at: DateTime<Utc>,
    pub(super) updated_at: DateTime<Utc>,
}

impl TryFrom<ThreadRow> for Thread {
    type Error = StoreError;

    fn try_from(row: ThreadRow) -> Result<Self, StoreError> {
        let id = ThreadId::from(row.thread_id);
        let at = At { table: "thread", id: &id };
        Ok(Self {
            id,
            framing: framing(&at, &row.framing_policy, &row.announce, &row.framing_tags)?,
            metadata: at.json("metadata", &row.metadata)?,
            memory_from: row.memory_from,
            head_seq: row.head_seq,
            forked_from: row
                .forked_from
                .zip(row.forked_at)
                .map(|(thread, at_seq)| ForkPoint { thread_id: ThreadId::from(thread), at_seq }),
            revision: row.revision,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// How a thread is framed, from its columns.
pub(super) fn framing(
    at: &At<'_, impl Display>,
    policy: &str,
    announce: &str,
    tags: &[String],
) -> Result<Framing, StoreError> {
    Ok(Framing {
        policy: at.label("framing_policy", policy)?,
        announce: at.label("announce", announce)?,
        tags: tags.to_vec(),
    })
}

/// Steps to append that come from a document rather than from a run.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedSteps {
    /// Their ids, one a step.
    pub ids: Vec<StepId>,
    /// What they say.
    pub contents: Vec<StepContent>,
    /// Marks the write.
    pub op_id: Uuid,
}

/// Stores a new thread, with the memory it starts from.
///
/// # Errors
/// [`Conflict::IdTaken`] when the tenant has a thread of this id.
pub async fn create(
    store: &Store,
    tenant: &TenantId,
    thread: &Thread,
    (memory, key): (Option<&LoadedSteps>, Option<&IdempotencyKey>),
) -> Result<(), StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, key, thread.id.uuid().into()).await?;
    insert(&mut tx, tenant, thread).await?;
    if let Some(memory) = memory {
        loaded::insert_steps(&mut tx, tenant, (thread.id, 1), memory, thread.created_at).await?;
    }
    tx.commit().await.map_err(StoreError::of_write)
}

pub(super) async fn insert(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: &Thread,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO thread (tenant_id, thread_id, framing_policy, announce, framing_tags, metadata,
                             memory_from, revision, created_at, updated_at, forked_from, forked_at)
         VALUES ($1, $2, $3, $4, $5, ($6::text)::json, $7, $8, $9, $9, $10, $11)",
        tenant.as_str(),
        thread.id.uuid(),
        thread.framing.policy.label(),
        thread.framing.announce.label(),
        &thread.framing.tags,
        to_json(&thread.metadata)?,
        thread.memory_from,
        thread.revision,
        thread.created_at,
        thread.forked_from.map(|point| point.thread_id.uuid()),
        thread.forked_from.map(|point| point.at_seq)
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// A thread.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    id: ThreadId,
) -> Result<Option<Thread>, StoreError> {
    read(store.api(), tenant, id).await
}

async fn read(
    executor: impl PgExecutor<'_>,
    tenant: &TenantId,
    id: ThreadId,
) -> Result<Option<Thread>, StoreError> {
    sqlx::query_as!(
        ThreadRow,
        r#"SELECT t.thread_id, t.framing_policy, t.announce, t.framing_tags,
                  t.metadata::text AS "metadata!", t.memory_from,
                  greatest((SELECT max(s.seq) FROM step s
                             WHERE s.tenant_id = t.tenant_id AND s.thread_id = t.thread_id),
                           t.forked_at, 0) AS "head_seq!",
                  t.forked_from, t.forked_at, t.revision, t.created_at, t.updated_at
             FROM thread t
            WHERE t.tenant_id = $1
              AND t.thread_id = $2"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(executor)
    .await
    .map_err(StoreError::of_read)?
    .map(Thread::try_from)
    .transpose()
}

/// The place of a thread in a list: when it was created, and its id.
pub type ThreadKey = (DateTime<Utc>, ThreadId);

/// A tenant's threads, newest first.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    filter: &ListFilter,
    page: &PageRequest<ThreadKey>,
) -> Result<Page<Thread, ThreadKey>, StoreError> {
    let after = page.after.as_ref();
    let (keys, values) = labels(&filter.metadata);
    let rows = sqlx::query_as!(
        ThreadRow,
        r#"SELECT t.thread_id, t.framing_policy, t.announce, t.framing_tags,
                  t.metadata::text AS "metadata!", t.memory_from,
                  greatest((SELECT max(s.seq) FROM step s
                             WHERE s.tenant_id = t.tenant_id AND s.thread_id = t.thread_id),
                           t.forked_at, 0) AS "head_seq!",
                  t.forked_from, t.forked_at, t.revision, t.created_at, t.updated_at
             FROM thread t
            WHERE t.tenant_id = $1
              AND ($2::timestamptz IS NULL OR (t.created_at, t.thread_id) < ($2, $3::uuid))
              AND ($4::timestamptz IS NULL OR t.created_at > $4)
              AND ($5::timestamptz IS NULL OR t.created_at < $5)
              AND NOT EXISTS (
                  SELECT 1 FROM unnest($6::text[], $7::text[]) AS wanted(key, value)
                   WHERE (t.metadata ->> wanted.key) IS DISTINCT FROM wanted.value)
            ORDER BY t.created_at DESC, t.thread_id DESC
            LIMIT $8"#,
        tenant.as_str(),
        after.map(|key| key.0),
        after.map(|key| key.1.uuid()),
        filter.created_after,
        filter.created_before,
        &keys,
        &values,
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let threads: Result<Vec<Thread>, _> = rows.into_iter().map(Thread::try_from).collect();
    Ok(Page::of(threads?, page.limit, |thread| (thread.created_at, thread.id)))
}

/// What replaces a thread's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMemory {
    /// The steps a model sees from now on; none for a reset.
    pub steps: LoadedSteps,
    /// The thread's new labels, where the document carries them.
    pub metadata: Option<Metadata>,
    /// The `(revision, head_seq)` the caller saw, where they say.
    pub seen: Option<(i64, i64)>,
}

/// Replaces a thread's memory: the steps before stay stored and listed, a model no longer sees them.
/// `None` when there is no such thread.
///
/// # Errors
/// [`Conflict::ThreadBusy`] while a run is active on the thread, [`Conflict::Stale`] when the caller
/// saw something else.
pub async fn replace_memory(
    store: &Store,
    tenant: &TenantId,
    id: ThreadId,
    memory: &NewMemory,
    now: DateTime<Utc>,
) -> Result<Option<Thread>, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    if lock(&mut tx, tenant, id).await?.is_none() {
        return Ok(None);
    }
    refuse_if_busy(&mut tx, tenant, id).await?;
    // A worker appends without the lock of the thread. Only what is read after the thread was seen to be
    // free is sure to be its end.
    let Some(thread) = lock(&mut tx, tenant, id).await? else { return Ok(None) };
    if memory.seen.is_some_and(|seen| seen != (thread.revision, thread.head_seq)) {
        return Err(StoreError::Conflict(Conflict::Stale));
    }
    let first_seq = thread.head_seq + 1;
    loaded::insert_steps(&mut tx, tenant, (id, first_seq), &memory.steps, now).await?;
    let metadata = memory.metadata.as_ref().unwrap_or(&thread.metadata);
    sqlx::query!(
        "UPDATE thread
            SET memory_from = $3, revision = revision + 1, metadata = ($4::text)::json, updated_at = $5
          WHERE tenant_id = $1
            AND thread_id = $2",
        tenant.as_str(),
        id.uuid(),
        first_seq,
        to_json(metadata)?,
        now
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    tx.commit().await.map_err(StoreError::of_write)?;
    let n_steps = i64::try_from(memory.steps.contents.len()).unwrap_or(i64::MAX);
    Ok(Some(Thread {
        metadata: metadata.clone(),
        memory_from: first_seq,
        head_seq: thread.head_seq.saturating_add(n_steps),
        revision: thread.revision + 1,
        updated_at: now,
        ..thread
    }))
}

/// Locks a thread against everything else that would append to it outside a run.
pub(super) async fn lock(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: ThreadId,
) -> Result<Option<Thread>, StoreError> {
    // The row lock comes first and the head is read after it: a statement that did both would read
    // the head as of before the wait. A worker's append, which holds its run and inserts steps, needs
    // the thread's key to stay: the lock must not be stronger than that lets through, or the two wait
    // for each other.
    let locked = sqlx::query_scalar!(
        "SELECT thread_id
           FROM thread
          WHERE tenant_id = $1
            AND thread_id = $2
            FOR NO KEY UPDATE",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_read)?;
    if locked.is_none() { Ok(None) } else { read(tx, tenant, id).await }
}

/// Refuses when a run is active on a thread that is locked, or waits for it.
pub(super) async fn refuse_if_busy(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: ThreadId,
) -> Result<(), StoreError> {
    let active = sqlx::query_scalar!(
        "SELECT run_id
           FROM run
          WHERE tenant_id = $1
            AND thread_id = $2
            AND status IN ('queued', 'running', 'requires_action')
          -- The active one, or else the first of those that wait for the thread.
          ORDER BY queue_place NULLS FIRST
          LIMIT 1",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(tx)
    .await
    .map_err(StoreError::of_read)?;
    match active {
        None => Ok(()),
        Some(run_id) => Err(StoreError::Conflict(Conflict::ThreadBusy {
            active_run_id: Some(RunId::from(run_id)),
        })),
    }
}
