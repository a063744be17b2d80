//! Puts values: each is a version behind the one before.

use super::FactsRow;
use crate::domain::id::{CallId, TenantId};
use crate::domain::memory_item::{ItemFacts, ItemPut};
use crate::store::gated::GatedPool;
use crate::store::idempotency::interval;
use crate::store::rows::to_json;
use crate::store::{Conflict, Store, StoreError};

/// Puts a value behind whatever is there.
///
/// # Errors
/// When the database does not take it.
pub async fn put(store: &Store, tenant: &TenantId, put: &ItemPut) -> Result<ItemFacts, StoreError> {
    write(store.api(), tenant, put, None).await
}

/// Puts a value for a call of a tool, once: a call that is made again finds the version that it has put.
///
/// # Errors
/// When the database does not take it.
pub async fn put_by_call(
    store: &Store,
    tenant: &TenantId,
    put: &ItemPut,
    call: &CallId,
) -> Result<ItemFacts, StoreError> {
    match write(store.worker(), tenant, put, Some(call)).await {
        // The same call was under way in another process, which was first.
        Err(StoreError::Conflict(Conflict::Stale)) => {
            write(store.worker(), tenant, put, Some(call)).await
        }
        written => written,
    }
}

async fn write(
    pool: &GatedPool,
    tenant: &TenantId,
    put: &ItemPut,
    call: Option<&CallId>,
) -> Result<ItemFacts, StoreError> {
    // The lock on the item's row makes concurrent puts follow each other. What has expired or was deleted
    // begins anew, but for the number of its version.
    let row = sqlx::query_as!(
        FactsRow,
        r#"WITH written AS (
               INSERT INTO memory_item AS i (tenant_id, namespace, key, version, document, embedding,
                                             created_at, updated_at, expires_at)
               SELECT $1, $2, $3, 1, ($4::text)::jsonb, $5::real[], now(), now(),
                      now() + $6::interval
                WHERE $8::text IS NULL
                   OR NOT EXISTS (
                      SELECT 1
                        FROM memory_item_version
                       WHERE tenant_id = $1
                         AND call_id = $8)
               ON CONFLICT (tenant_id, namespace, key) DO UPDATE
                  SET version = i.version + 1, document = excluded.document,
                      embedding = excluded.embedding, updated_at = excluded.updated_at,
                      expires_at = excluded.expires_at,
                      created_at = CASE WHEN i.document IS NULL OR i.expires_at <= now()
                                        THEN excluded.created_at
                                        ELSE i.created_at END
            RETURNING version, created_at, updated_at, expires_at
           ), added AS (
               INSERT INTO memory_item_version (tenant_id, namespace, key, version, value, call_id,
                                                created_at, expires_at)
               SELECT $1, $2, $3, version, $7, $8, updated_at, expires_at FROM written
           )
           SELECT version AS "version!", created_at AS "created_at!", updated_at AS "updated_at!",
                  expires_at
             FROM written
            UNION ALL
           SELECT v.version, i.created_at, v.created_at, v.expires_at
             FROM memory_item_version v
             JOIN memory_item i
               ON i.tenant_id = v.tenant_id
              AND i.namespace = v.namespace
              AND i.key = v.key
            WHERE v.tenant_id = $1
              AND v.call_id = $8"#,
        tenant.as_str(),
        put.place.namespace.parts(),
        put.place.key.as_str(),
        to_json(&put.value.json)?,
        put.embedding.as_deref(),
        put.ttl.map(interval),
        put.value.text.as_str(),
        call.map(CallId::as_str)
    )
    .fetch_one(pool)
    .await
    .map_err(StoreError::of_write)?;
    Ok(row.into())
}

/// Puts a value behind the version that was seen and no other.
///
/// # Errors
/// [`Conflict::Stale`] when that is not the newest any more.
pub async fn replace(
    store: &Store,
    tenant: &TenantId,
    put: &ItemPut,
    seen: &ItemFacts,
) -> Result<ItemFacts, StoreError> {
    let row = sqlx::query_as!(
        FactsRow,
        r#"WITH written AS (
               UPDATE memory_item
                  SET version = version + 1, document = ($4::text)::jsonb, embedding = $5::real[],
                      updated_at = now(), expires_at = now() + $6::interval
                WHERE tenant_id = $1
                  AND namespace = $2
                  AND key = $3
                  AND version = $8
                  AND created_at = $9
                  AND (expires_at IS NULL OR expires_at > now())
            RETURNING version, created_at, updated_at, expires_at
           ), added AS (
               INSERT INTO memory_item_version (tenant_id, namespace, key, version, value,
                                                created_at, expires_at)
               SELECT $1, $2, $3, version, $7, updated_at, expires_at FROM written
           )
           SELECT version, created_at, updated_at, expires_at FROM written"#,
        tenant.as_str(),
        put.place.namespace.parts(),
        put.place.key.as_str(),
        to_json(&put.value.json)?,
        put.embedding.as_deref(),
        put.ttl.map(interval),
        put.value.text.as_str(),
        seen.version,
        seen.created_at
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_write)?;
    row.map(ItemFacts::from).ok_or(StoreError::Conflict(Conflict::Stale))
}
