//! Idempotency keys: the same key and request lead to the same thing.

use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use super::{Conflict, Store, StoreError};
use crate::domain::id::TenantId;

/// How long a key is remembered.
pub const KEPT: Duration = Duration::from_hours(24);

/// A key that came with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Which endpoint it was sent to.
    pub route: String,
    /// The key.
    pub key: String,
    /// SHA-256 of method, path and canonical body.
    pub request_hash: [u8; 32],
}

impl IdempotencyKey {
    /// What is remembered of a request that came with a key.
    pub fn of(route: &str, key: Option<String>, request_hash: [u8; 32]) -> Option<Self> {
        key.map(|key| Self { route: route.to_owned(), key, request_hash })
    }
}

/// Remembers a key with the id of what it leads to, or finds the id of what it led to before. A request
/// with the same key that is still under way is waited for, because the row it inserts is locked.
pub(super) async fn claim(
    tx: &mut PgConnection,
    tenant: &TenantId,
    key: &IdempotencyKey,
    id: Uuid,
) -> Result<Option<Uuid>, StoreError> {
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
        id
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
        Ok(Some(before.run_id))
    } else {
        Err(StoreError::Conflict(Conflict::IdempotencyKeyReused))
    }
}

/// What a key has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Led {
    /// The id of the run or other thing; of a message that of its run.
    pub id: Uuid,
    /// The number of a message.
    pub number: Option<i32>,
}

/// What an earlier request with a key led to; `None` when there was none, or no key.
///
/// # Errors
/// [`Conflict::IdempotencyKeyReused`] when it was another request.
pub async fn led_to(
    store: &Store,
    tenant: &TenantId,
    key: Option<&IdempotencyKey>,
) -> Result<Option<Led>, StoreError> {
    let Some(key) = key else { return Ok(None) };
    let before = sqlx::query!(
        "SELECT request_hash, run_id, number
           FROM idempotency
          WHERE tenant_id = $1
            AND route = $2
            AND key = $3
            AND created_at >= now() - $4::interval",
        tenant.as_str(),
        key.route,
        key.key,
        interval(KEPT)
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?;
    match before {
        None => Ok(None),
        Some(row) if row.request_hash == key.request_hash => {
            Ok(Some(Led { id: row.run_id, number: row.number }))
        }
        Some(_) => Err(StoreError::Conflict(Conflict::IdempotencyKeyReused)),
    }
}

/// Remembers what a request with a key leads to, in the transaction that makes it.
///
/// # Errors
/// [`Conflict::IdempotencyInProgress`] when another one did so since [`led_to`] has found none: asked again,
/// it finds that.
pub(super) async fn hold(
    tx: &mut PgConnection,
    tenant: &TenantId,
    key: Option<&IdempotencyKey>,
    led: Led,
) -> Result<(), StoreError> {
    let Some(key) = key else { return Ok(()) };
    if claim(&mut *tx, tenant, key, led.id).await?.is_some() {
        return Err(StoreError::Conflict(Conflict::IdempotencyInProgress));
    }
    if led.number.is_some() {
        sqlx::query!(
            "UPDATE idempotency
                SET number = $4
              WHERE tenant_id = $1
                AND route = $2
                AND key = $3",
            tenant.as_str(),
            key.route,
            key.key,
            led.number
        )
        .execute(tx)
        .await
        .map_err(StoreError::of_write)?;
    }
    Ok(())
}

impl From<Uuid> for Led {
    fn from(id: Uuid) -> Self {
        Self { id, number: None }
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
