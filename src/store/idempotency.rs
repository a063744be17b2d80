//! Idempotency keys: the same key and request lead to the same run.

use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use super::{Conflict, Store, StoreError};
use crate::domain::id::{RunId, TenantId};

/// How long a key is remembered.
pub const KEPT: Duration = Duration::from_hours(24);

/// A key that came with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Which endpoint it was sent to.
    pub route: &'static str,
    /// The key.
    pub key: String,
    /// SHA-256 of method, path and canonical body.
    pub request_hash: [u8; 32],
}

/// Remembers a key with the run it leads to, or finds the run it led to before. A request with the
/// same key that is still under way is waited for, because the row it inserts is locked.
pub(super) async fn claim(
    tx: &mut PgConnection,
    tenant: &TenantId,
    key: &IdempotencyKey,
    run_id: Uuid,
) -> Result<Option<RunId>, StoreError> {
    sqlx::query!(
        "DELETE FROM idempotency
          WHERE tenant_id = $1
            AND route = $2
            AND key = $3
            AND created_at < now() - $4::interval",
        tenant.as_str(),
        key.route,
        key.key,
        interval(KEPT)
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    let inserted = sqlx::query!(
        "INSERT INTO idempotency (tenant_id, route, key, request_hash, run_id, created_at)
         VALUES ($1, $2, $3, $4, $5, now())
         ON CONFLICT (tenant_id, route, key) DO NOTHING",
        tenant.as_str(),
        key.route,
        key.key,
        &key.request_hash[..],
        run_id
    )
    .execute(&mut *tx)
    .await
    .map_err(|error| match StoreError::of_write(error) {
        // The row is locked by the request that came first, for longer than a lock is waited for.
        StoreError::Busy(_) => StoreError::Conflict(Conflict::IdempotencyInProgress),
        error => error,
    })?;
    if inserted.rows_affected() == 1 {
        return Ok(None);
    }
    let before = sqlx::query!(
        "SELECT request_hash, run_id
           FROM idempotency
          WHERE tenant_id = $1
            AND route = $2
            AND key = $3",
        tenant.as_str(),
        key.route,
        key.key
    )
    .fetch_one(tx)
    .await
    .map_err(StoreError::of_read)?;
    if before.request_hash == key.request_hash {
        Ok(Some(RunId::from(before.run_id)))
    } else {
        Err(StoreError::Conflict(Conflict::IdempotencyKeyReused))
    }
}

/// Forgets keys that are old enough; at most 1,000 a call.
///
/// # Errors
/// When the database does not take it.
pub async fn forget_old(store: &Store) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM idempotency
          WHERE (tenant_id, route, key) IN (
                SELECT tenant_id, route, key
                  FROM idempotency
                 WHERE created_at < now() - $1::interval
                 ORDER BY created_at
                 LIMIT 1000)",
        interval(KEPT)
    )
    .execute(store.system().critical())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected())
}

/// A duration as Postgres takes it; longer than 292,000 years is cut to that.
pub(super) fn interval(duration: Duration) -> PgInterval {
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds }
}
