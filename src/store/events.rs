//! Durable events, in the order of their run.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::rows::{At, to_json};
use super::{Store, StoreError};
use crate::domain::event::{AskedFallback, EventData, EventName, RunEvent};
use crate::domain::id::{RunId, TenantId};
use crate::domain::page::{Page, PageRequest};

struct EventRow {
    seq: i64,
    name: String,
    data: String,
    created_at: DateTime<Utc>,
}

impl EventRow {
    fn read(self, run: RunId) -> Result<RunEvent, StoreError> {
        let at = At { table: "run_event", id: &run };
        Ok(RunEvent {
            seq: self.seq,
            name: at.label("name", &self.name)?,
            data: at.json("data", &self.data)?,
            created_at: self.created_at,
        })
    }
}

/// The last event of a run; `None` when there is no such run.
///
/// # Errors
/// When the database does not answer.
pub async fn last(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
) -> Result<Option<RunEvent>, StoreError> {
    sqlx::query_as!(
        EventRow,
        r#"SELECT seq, name, data::text AS "data!", created_at
             FROM run_event
            WHERE tenant_id = $1
              AND run_id = $2
            ORDER BY seq DESC
            LIMIT 1"#,
        tenant.as_str(),
        run.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?
    .map(|row| row.read(run))
    .transpose()
}

/// The model that was asked last in place of the agent's first one, where that was the last one asked.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn asked_fallback(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
) -> Result<Option<AskedFallback>, StoreError> {
    let row = sqlx::query_as!(
        EventRow,
        r#"SELECT seq, name, data::text AS "data!", created_at
             FROM run_event
            WHERE tenant_id = $1
              AND run_id = $2
              AND name IN ('turn.started', 'turn.restarted')
            ORDER BY seq DESC
            LIMIT 1"#,
        tenant.as_str(),
        run.uuid()
    )
    .fetch_optional(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    match row.map(|row| row.read(run)).transpose()?.map(|event| event.data) {
        Some(EventData::Turn { fallback, .. }) => Ok(fallback),
        _ => Ok(None),
    }
}

/// A page of a run's events, in order.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
    page: &PageRequest<i64>,
) -> Result<Page<RunEvent, i64>, StoreError> {
    let events: Result<Vec<RunEvent>, StoreError> = sqlx::query_as!(
        EventRow,
        r#"SELECT seq, name, data::text AS "data!", created_at
             FROM run_event
            WHERE tenant_id = $1
              AND run_id = $2
              AND seq > $3
            ORDER BY seq
            LIMIT $4"#,
        tenant.as_str(),
        run.uuid(),
        page.after.unwrap_or(0),
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?
    .into_iter()
    .map(|row| row.read(run))
    .collect();
    Ok(Page::of(events?, page.limit, |event| event.seq))
}

/// Writes an event beside other writes, and what endpoints are to be told of it.
pub(super) async fn insert(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (run, seq): (RunId, i64),
    (name, data): &(EventName, EventData),
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "WITH told AS (
             INSERT INTO run_event (tenant_id, run_id, seq, name, data, created_at)
             VALUES ($1, $2, $3, $4, ($5::text)::json, $6)
          RETURNING tenant_id, run_id, seq, name, created_at
         )
         -- The outbox, as in the append of a worker.
         INSERT INTO webhook_delivery (tenant_id, webhook_id, run_id, event_seq, delivery_id, event,
                                       state, due_at, created_at)
         SELECT t.tenant_id, w.webhook_id, t.run_id, t.seq,
                substr(encode(sha256(convert_to(
                    concat_ws(' ', w.webhook_id, t.run_id, t.seq), 'UTF8')), 'hex'), 1, 32)::uuid,
                t.name, 'pending', now(), t.created_at
           FROM told t
           JOIN run r
             ON r.tenant_id = t.tenant_id
            AND r.run_id = t.run_id
           JOIN webhook w
             ON w.tenant_id = t.tenant_id
            AND w.disabled_at IS NULL
            AND (w.all_runs OR w.webhook_id = r.webhook_id)
            AND t.name = ANY (w.events)",
        tenant.as_str(),
        run.uuid(),
        seq,
        name.label(),
        to_json(data)?,
        now
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}
