//! Durable events, in the order of their run.

use chrono::{DateTime, Utc};

use super::rows::At;
use super::{Store, StoreError};
use crate::domain::event::RunEvent;
use crate::domain::id::{RunId, TenantId};
use crate::domain::page::{Page, PageRequest};

struct EventRow {
    seq: i64,
    name: String,
    data: String,
    created_at: DateTime<Utc>,
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
    let at = At { table: "run_event", id: &run };
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
    .map(|row| {
        Ok(RunEvent {
            seq: row.seq,
            name: at.label("name", &row.name)?,
            data: at.json("data", &row.data)?,
            created_at: row.created_at,
        })
    })
    .collect();
    Ok(Page::of(events?, page.limit, |event| event.seq))
}
