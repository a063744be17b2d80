//! Durable events, in the order of their run.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::deltas::{Piece, PieceRow, stored};
use super::rows::{At, to_json};
use super::{Store, StoreError};
use crate::domain::event::{AskedFallback, EventData, EventName, RunEvent};
use crate::domain::id::{RunId, TenantId, ThreadId};
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

/// The events of a run from the one on that began its last attempt at a turn: what tells how far it has
/// come. None when there is no such run.
///
/// # Errors
/// When the database does not answer.
pub async fn since_turn(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
) -> Result<Vec<RunEvent>, StoreError> {
    sqlx::query_as!(
        EventRow,
        r#"SELECT seq, name, data::text AS "data!", created_at
             FROM run_event
            WHERE tenant_id = $1
              AND run_id = $2
              AND seq >= coalesce((
                  SELECT max(seq)
                    FROM run_event
                   WHERE tenant_id = $1
                     AND run_id = $2
                     AND name IN ('turn.started', 'turn.restarted')), 1)
            ORDER BY seq"#,
        tenant.as_str(),
        run.uuid()
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?
    .into_iter()
    .map(|row| row.read(run))
    .collect()
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

/// What is new of a run.
#[derive(Debug, Default)]
pub struct News {
    /// Its events, in order.
    pub events: Vec<RunEvent>,
    /// Pieces of replies on their way, in order.
    pub pieces: Vec<Piece>,
}

/// From where on a run is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The last event that is known.
    pub event: i64,
    /// The first piece that is not known: turn, attempt and place; `None` to look for none.
    pub piece: Option<(u32, u32, u32)>,
}

/// What is new of a run, as of one moment: an event that ends a reply comes with every piece of it. At
/// most so many events; when there are more, the pieces are not all to be shown yet.
///
/// # Errors
/// When the database does not answer.
pub async fn news(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
    known: Known,
    limit: u32,
) -> Result<News, StoreError> {
    let (turn, attempt, place) = known.piece.unwrap_or_default();
    let rows = sqlx::query!(
        r#"SELECT e.seq AS "seq?", e.name AS "name?", e.data::text AS "data?",
                  e.created_at AS "created_at?", NULL::integer AS turn, NULL::integer AS attempt,
                  NULL::integer AS place, NULL::text AS kind, NULL::text AS piece
             FROM (SELECT seq, name, data, created_at
                     FROM run_event
                    WHERE tenant_id = $1
                      AND run_id = $2
                      AND seq > $3
                    ORDER BY seq
                    LIMIT $4) e
            UNION ALL
           SELECT NULL, NULL, NULL, NULL, d.turn, d.attempt, d.place, d.kind, d.piece
             FROM run_delta d
            WHERE d.tenant_id = $1
              AND d.run_id = $2
              AND (d.turn, d.attempt, d.place) >= ($5, $6, $7)
              AND $8
            ORDER BY 1, 5, 6, 7"#,
        tenant.as_str(),
        run.uuid(),
        known.event,
        i64::from(limit),
        stored(turn),
        stored(attempt),
        stored(place),
        known.piece.is_some()
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let mut news = News::default();
    for row in rows {
        if let (Some(seq), Some(name), Some(data), Some(created_at)) =
            (row.seq, row.name, row.data, row.created_at)
        {
            news.events.push(EventRow { seq, name, data, created_at }.read(run)?);
        } else if let (Some(turn), Some(attempt), Some(place), Some(kind), Some(piece)) =
            (row.turn, row.attempt, row.place, row.kind, row.piece)
        {
            news.pieces.push(PieceRow { turn, attempt, place, kind, piece }.read(run)?);
        }
    }
    Ok(news)
}

/// The last of some steps of a run up to which they are told in so many bytes, and the bytes that takes;
/// at least the first of them.
///
/// # Errors
/// When the database does not answer.
pub async fn fitting(
    store: &Store,
    tenant: &TenantId,
    (thread, run): (ThreadId, RunId),
    (first, last): (i64, i64),
    bytes: i64,
) -> Result<Option<(i64, i64)>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT t.seq AS "seq!", t.total AS "total!"
             FROM (SELECT s.seq, s.bytes, sum(s.bytes) OVER (ORDER BY s.seq)::bigint AS total
                     FROM (SELECT seq,
                                  octet_length(content::text) + coalesce((
                                      SELECT sum(octet_length(c.outcome::text)
                                               + octet_length(c.arguments))
                                        FROM tool_call c
                                       WHERE c.tenant_id = step.tenant_id
                                         AND c.thread_id = step.thread_id
                                         AND c.step_seq = step.seq), 0) AS bytes
                             FROM step
                            WHERE tenant_id = $1
                              AND thread_id = $2
                              AND run_id = $3
                              AND seq BETWEEN $4 AND $5) s) t
            WHERE t.total - t.bytes < $6
            ORDER BY t.seq DESC
            LIMIT 1"#,
        tenant.as_str(),
        thread.uuid(),
        run.uuid(),
        first,
        last,
        bytes
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?;
    Ok(row.map(|row| (row.seq, row.total)))
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
