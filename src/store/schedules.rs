//! Schedules: runs that the clock starts, each due time once.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::idempotency::{self, IdempotencyKey};
use super::rows::{At, labels, to_json};
use super::{Conflict, Store, StoreError};
use crate::domain::id::{AgentId, RunId, ScheduleId, TenantId, ThreadId};
use crate::domain::page::{ListFilter, Page, PageRequest};
use crate::domain::schedule::{Firing, Schedule, SkipReason};

struct ScheduleRow {
    schedule_id: Uuid,
    cron: String,
    timezone: String,
    agent_id: Uuid,
    agent_version: Option<i32>,
    thread_id: Option<Uuid>,
    input: String,
    on_overlap: String,
    enabled: bool,
    metadata: String,
    revision: i64,
    next_at: Option<DateTime<Utc>>,
    last_at: Option<DateTime<Utc>>,
    last_run_id: Option<Uuid>,
    last_skip: Option<String>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<ScheduleRow> for Schedule {
    type Error = StoreError;

    fn try_from(row: ScheduleRow) -> Result<Self, StoreError> {
        let id = ScheduleId::from(row.schedule_id);
        let at = At { table: "schedule", id: &id };
        Ok(Self {
            id,
            agent_id: AgentId::from(row.agent_id),
            agent_version: row.agent_version,
            thread_id: row.thread_id.map(ThreadId::from),
            input: at.json("input", &row.input)?,
            on_overlap: at.label("on_overlap", &row.on_overlap)?,
            enabled: row.enabled,
            metadata: at.json("metadata", &row.metadata)?,
            revision: row.revision,
            next_at: row.next_at,
            last_at: row.last_at,
            last_run_id: row.last_run_id.map(RunId::from),
            last_skip: at.label_opt("last_skip", row.last_skip.as_deref())?,
            created_at: row.created_at,
            updated_at: row.updated_at,
            cron: row.cron,
            timezone: row.timezone,
        })
    }
}

/// Stores a new schedule.
///
/// # Errors
/// When the database does not take it.
pub async fn create(
    store: &Store,
    tenant: &TenantId,
    new: &Schedule,
    key: Option<&IdempotencyKey>,
) -> Result<(), StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, key, new.id.uuid().into()).await?;
    sqlx::query!(
        "INSERT INTO schedule (tenant_id, schedule_id, cron, timezone, agent_id, agent_version,
                               thread_id, input, on_overlap, enabled, metadata, next_at, created_at,
                               updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, ($8::text)::json, $9, $10, ($11::text)::json, $12, $13,
                 $13)",
        tenant.as_str(),
        new.id.uuid(),
        new.cron,
        new.timezone,
        new.agent_id.uuid(),
        new.agent_version,
        new.thread_id.map(ThreadId::uuid),
        to_json(&new.input)?,
        new.on_overlap.label(),
        new.enabled,
        to_json(&new.metadata)?,
        new.next_at,
        new.created_at
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(())
}

/// Replaces what callers say of a schedule that is as the caller saw it, or as it is when they saw
/// nothing. `None` when there is no such schedule.
///
/// # Errors
/// [`Conflict::Stale`] when the caller saw something else.
pub async fn replace(
    store: &Store,
    tenant: &TenantId,
    new: &Schedule,
    seen: Option<i64>,
) -> Result<Option<Schedule>, StoreError> {
    let row = sqlx::query_as!(
        ScheduleRow,
        r#"UPDATE schedule
              SET cron = $3, timezone = $4, agent_id = $5, agent_version = $6, thread_id = $7,
                  input = ($8::text)::json, on_overlap = $9, enabled = $10,
                  metadata = ($11::text)::json, next_at = $12, updated_at = $13,
                  revision = revision + 1
            WHERE tenant_id = $1
              AND schedule_id = $2
              AND ($14::bigint IS NULL OR revision = $14)
        RETURNING schedule_id, cron, timezone, agent_id, agent_version, thread_id,
                  input::text AS "input!", on_overlap, enabled, metadata::text AS "metadata!", revision,
                  next_at, last_at, last_run_id, last_skip, created_at, updated_at"#,
        tenant.as_str(),
        new.id.uuid(),
        new.cron,
        new.timezone,
        new.agent_id.uuid(),
        new.agent_version,
        new.thread_id.map(ThreadId::uuid),
        to_json(&new.input)?,
        new.on_overlap.label(),
        new.enabled,
        to_json(&new.metadata)?,
        new.next_at,
        new.updated_at,
        seen
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_write)?;
    match row {
        Some(row) => Schedule::try_from(row).map(Some),
        None if seen.is_some() && get(store, tenant, new.id).await?.is_some() => {
            Err(StoreError::Conflict(Conflict::Stale))
        }
        None => Ok(None),
    }
}

/// Removes a schedule. Its runs stay. `false` when there is no such schedule.
///
/// # Errors
/// When the database does not take it.
pub async fn delete(store: &Store, tenant: &TenantId, id: ScheduleId) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM schedule WHERE tenant_id = $1 AND schedule_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected() == 1)
}

/// A schedule.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    id: ScheduleId,
) -> Result<Option<Schedule>, StoreError> {
    sqlx::query_as!(
        ScheduleRow,
        r#"SELECT schedule_id, cron, timezone, agent_id, agent_version, thread_id,
                  input::text AS "input!", on_overlap, enabled, metadata::text AS "metadata!", revision,
                  next_at, last_at, last_run_id, last_skip, created_at, updated_at
             FROM schedule
            WHERE tenant_id = $1
              AND schedule_id = $2"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?
    .map(Schedule::try_from)
    .transpose()
}

/// The place of a schedule in a list: when it was created, and its id.
pub type ScheduleKey = (DateTime<Utc>, ScheduleId);

/// A tenant's schedules, newest first.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    filter: &ListFilter,
    page: &PageRequest<ScheduleKey>,
) -> Result<Page<Schedule, ScheduleKey>, StoreError> {
    let after = page.after.as_ref();
    let (keys, values) = labels(&filter.metadata);
    let rows = sqlx::query_as!(
        ScheduleRow,
        r#"SELECT schedule_id, cron, timezone, agent_id, agent_version, thread_id,
                  input::text AS "input!", on_overlap, enabled, metadata::text AS "metadata!", revision,
                  next_at, last_at, last_run_id, last_skip, created_at, updated_at
             FROM schedule
            WHERE tenant_id = $1
              AND ($2::timestamptz IS NULL OR (created_at, schedule_id) < ($2, $3::uuid))
              AND ($4::timestamptz IS NULL OR created_at > $4)
              AND ($5::timestamptz IS NULL OR created_at < $5)
              AND NOT EXISTS (
                  SELECT 1 FROM unnest($6::text[], $7::text[]) AS wanted(key, value)
                   WHERE (metadata ->> wanted.key) IS DISTINCT FROM wanted.value)
            ORDER BY created_at DESC, schedule_id DESC
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
    let schedules: Result<Vec<Schedule>, _> = rows.into_iter().map(Schedule::try_from).collect();
    Ok(Page::of(schedules?, page.limit, |schedule| (schedule.created_at, schedule.id)))
}

/// A schedule at a due time.
#[derive(Debug, Clone, PartialEq)]
pub struct DueSchedule {
    /// Whose it is.
    pub tenant: TenantId,
    /// The schedule.
    pub id: ScheduleId,
    /// The due time.
    pub due_at: DateTime<Utc>,
    /// Whether its last run, or a run on its thread, is active: then it is one that skips.
    pub is_busy: bool,
    /// The database's time.
    pub now: DateTime<Utc>,
}

/// Schedules that are due, at most 100. One that waits for a run to end is not among them.
///
/// Tenants come by turns, and of each those that have been due for longest: a tenant whose runs are not
/// accepted at present holds up nobody else.
///
/// # Errors
/// When the database does not answer.
pub async fn due(store: &Store) -> Result<Vec<DueSchedule>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT s.tenant_id, s.schedule_id, s.next_at AS "next_at!", b.is_busy AS "is_busy!",
                  now() AS "now!"
             FROM schedule s
            CROSS JOIN LATERAL (
                  SELECT EXISTS (
                         SELECT 1
                           FROM run r
                          WHERE r.tenant_id = s.tenant_id
                            AND (r.run_id = s.last_run_id OR r.thread_id = s.thread_id)
                            AND r.finished_at IS NULL) AS is_busy) b
            WHERE s.enabled
              AND s.next_at <= now()
              AND NOT (b.is_busy AND s.on_overlap = 'enqueue')
            ORDER BY row_number() OVER (PARTITION BY s.tenant_id ORDER BY s.next_at), s.next_at
            LIMIT 100"#
    )
    .fetch_all(store.system().api())
    .await
    .map_err(StoreError::of_read)?;
    rows.into_iter()
        .map(|row| {
            let id = ScheduleId::from(row.schedule_id);
            let tenant = TenantId::parse(&row.tenant_id)
                .map_err(|_| At { table: "schedule", id: &id }.wrong("tenant_id"))?;
            Ok(DueSchedule { tenant, id, due_at: row.next_at, is_busy: row.is_busy, now: row.now })
        })
        .collect()
}

/// Moves a schedule on beside the run that is started for its due time. `false` when somebody else did,
/// or a caller changed it.
pub(super) async fn fire(
    tx: &mut PgConnection,
    tenant: &TenantId,
    firing: &Firing,
    run: RunId,
) -> Result<bool, StoreError> {
    // The compare-and-set: of all replicas that see the due time, one finds it still there.
    let done = sqlx::query!(
        "UPDATE schedule
            SET next_at = $4, last_at = $3, last_run_id = $5, last_skip = NULL
          WHERE tenant_id = $1
            AND schedule_id = $2
            AND enabled
            AND next_at = $3",
        tenant.as_str(),
        firing.schedule.uuid(),
        firing.due_at,
        firing.next_at,
        run.uuid()
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected() == 1)
}

/// Moves a schedule on without a run.
///
/// # Errors
/// When the database does not take it.
pub async fn pass(
    store: &Store,
    tenant: &TenantId,
    firing: &Firing,
    reason: SkipReason,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE schedule
            SET next_at = $4, last_at = $3, last_skip = $5
          WHERE tenant_id = $1
            AND schedule_id = $2
            AND enabled
            AND next_at = $3",
        tenant.as_str(),
        firing.schedule.uuid(),
        firing.due_at,
        firing.next_at,
        reason.label()
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}
