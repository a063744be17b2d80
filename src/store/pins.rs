//! The tools of MCP servers that runs were given when they began. They are written by the guarded append.

use super::rows::At;
use super::{Store, StoreError};
use crate::domain::id::{RunId, TenantId, ThreadId};
use crate::domain::mcp::Pins;

/// What a run was given; `None` before it was given anything.
///
/// # Errors
/// When the database does not answer or the row does not read.
pub async fn of_run(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
) -> Result<Option<Pins>, StoreError> {
    let pins = sqlx::query_scalar!(
        "SELECT pins FROM run_pin WHERE tenant_id = $1 AND run_id = $2",
        tenant.as_str(),
        run.uuid()
    )
    .fetch_optional(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    pins.map(|pins| At { table: "run_pin", id: &run }.json("pins", &pins)).transpose()
}

/// What the last run on a thread was given that was given anything.
///
/// # Errors
/// When the database does not answer or the row does not read.
pub async fn last_on(
    store: &Store,
    tenant: &TenantId,
    thread: ThreadId,
) -> Result<Option<Pins>, StoreError> {
    let pins = sqlx::query_scalar!(
        "SELECT pins
           FROM run_pin
          WHERE tenant_id = $1
            AND thread_id = $2
          ORDER BY created_at DESC
          LIMIT 1",
        tenant.as_str(),
        thread.uuid()
    )
    .fetch_optional(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    pins.map(|pins| At { table: "run_pin", id: &thread }.json("pins", &pins)).transpose()
}
