//! Loading a run as it was when it began, to drive it again.

use super::{LoadedRun, load};
use crate::domain::id::{RunId, TenantId};
use crate::store::steps::{self, Range};
use crate::store::{Store, StoreError};

/// Loads a run with what its model was told, wherever the memory of its thread begins by now, and
/// without what was appended to its thread after it. `None` when there is no such run.
///
/// # Errors
/// When the database does not answer or a row does not read.
pub async fn load_as_begun(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<LoadedRun>, StoreError> {
    let Some(mut loaded) = load(store, tenant, id).await? else { return Ok(None) };
    let began = memory_from(store, tenant, id).await?.unwrap_or(loaded.memory_from);
    if began != loaded.memory_from {
        let thread = loaded.run.thread_id;
        let range = Range { thread, after: began - 1, run: None, limit: i64::MAX };
        (loaded.steps, loaded.calls) = steps::read(store.worker(), tenant, range).await?;
        steps::leave_out(store.worker(), tenant, (thread, Some(id)), &mut loaded.steps).await?;
        loaded.memory_from = began;
    }
    let end = loaded.head.next_seq;
    loaded.steps.retain(|step| step.seq < end);
    loaded.calls.retain(|call| call.step_seq < end);
    Ok(Some(loaded))
}

/// Where the memory of a run began; `None` where that is not on record.
async fn memory_from(
    store: &Store,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<i64>, StoreError> {
    let began = sqlx::query_scalar!(
        "SELECT memory_from FROM run WHERE tenant_id = $1 AND run_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    Ok(began.flatten())
}
