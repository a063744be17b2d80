//! Why a run is not accepted, apart from its thread.

use sqlx::PgConnection;

use super::erasure::{self, Erased};
use super::runs::{Accepted, NewRun};
use super::{Conflict, StoreError, schedules, webhooks};
use crate::domain::id::TenantId;

/// Why a run is not accepted, if it is not. Beside one that is accepted, its schedule moves on.
pub(super) async fn of(
    tx: &mut PgConnection,
    tenant: &TenantId,
    new: &NewRun,
) -> Result<Option<Accepted>, StoreError> {
    if erasure::is_erased(&mut *tx, tenant, Erased::Run(new.run.id)).await? {
        return Err(StoreError::Conflict(Conflict::IdTaken));
    }
    if let Some(webhook) = new.webhook
        && !webhooks::exists(tx, tenant, webhook).await?
    {
        return Ok(Some(Accepted::NoSuchWebhook));
    }
    match &new.firing {
        Some(firing) if !schedules::fire(tx, tenant, firing, new.run.id).await? => {
            Ok(Some(Accepted::NotDue))
        }
        _ => Ok(None),
    }
}
