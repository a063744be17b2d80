//! Forgets what has expired, and versions that are old enough, a portion at a time.

use std::time::Duration;

use crate::store::idempotency::interval;
use crate::store::{Store, StoreError};

/// How many rows of each table a portion takes.
const PORTION: i64 = 1_000;

/// Forgets items that have expired with all of their versions, and versions that have expired where another
/// one has followed; how many of both.
///
/// # Errors
/// When the database does not take it.
pub async fn forget_expired(store: &Store) -> Result<u64, StoreError> {
    // An item that is put again at this moment is locked, and is looked at again with the lock.
    let items = sqlx::query!(
        "DELETE FROM memory_item
          WHERE (tenant_id, namespace, key) IN (
                SELECT tenant_id, namespace, key
                  FROM memory_item
                 WHERE expires_at <= now()
                 ORDER BY expires_at
                 LIMIT $1
                   FOR UPDATE SKIP LOCKED)",
        PORTION
    )
    .execute(store.system().worker())
    .await
    .map_err(StoreError::of_write)?;
    let versions = sqlx::query!(
        "DELETE FROM memory_item_version
          WHERE (tenant_id, namespace, key, version) IN (
                SELECT v.tenant_id, v.namespace, v.key, v.version
                  FROM memory_item_version v
                  JOIN memory_item i
                    ON i.tenant_id = v.tenant_id
                   AND i.namespace = v.namespace
                   AND i.key = v.key
                   AND i.version > v.version
                 WHERE v.expires_at <= now()
                 ORDER BY v.expires_at
                 LIMIT $1)",
        PORTION
    )
    .execute(store.system().worker())
    .await
    .map_err(StoreError::of_write)?;
    Ok(items.rows_affected() + versions.rows_affected())
}

/// Forgets deleted items that are as old, and versions that are where another one has followed; how many of
/// both.
///
/// # Errors
/// When the database does not take it.
pub async fn forget_versions(store: &Store, age: Duration) -> Result<u64, StoreError> {
    let items = sqlx::query!(
        "DELETE FROM memory_item
          WHERE (tenant_id, namespace, key) IN (
                SELECT tenant_id, namespace, key
                  FROM memory_item
                 WHERE document IS NULL
                   AND updated_at < now() - $1::interval
                 ORDER BY updated_at
                 LIMIT $2
                   FOR UPDATE SKIP LOCKED)",
        interval(age),
        PORTION
    )
    .execute(store.system().worker())
    .await
    .map_err(StoreError::of_write)?;
    let versions = sqlx::query!(
        "DELETE FROM memory_item_version
          WHERE (tenant_id, namespace, key, version) IN (
                SELECT v.tenant_id, v.namespace, v.key, v.version
                  FROM memory_item_version v
                  JOIN memory_item i
                    ON i.tenant_id = v.tenant_id
                   AND i.namespace = v.namespace
                   AND i.key = v.key
                   AND i.version > v.version
                 WHERE v.created_at < now() - $1::interval
                 ORDER BY v.created_at
                 LIMIT $2)",
        interval(age),
        PORTION
    )
    .execute(store.system().worker())
    .await
    .map_err(StoreError::of_write)?;
    Ok(items.rows_affected() + versions.rows_affected())
}
