//! Takes items away: their value from now on, all that was ever stored of them, or one version's value.

use super::VersionRow;
use crate::domain::id::TenantId;
use crate::domain::memory_item::{ItemFacts, ItemPlace, ItemVersion};
use crate::store::{Store, StoreError};

/// Deletes an item, with a version that says so; those before stay. `false` when it is not there, or is not
/// at the version that was seen.
///
/// # Errors
/// When the database does not take it.
pub async fn delete(
    store: &Store,
    tenant: &TenantId,
    place: &ItemPlace,
    seen: Option<&ItemFacts>,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "WITH gone AS (
             UPDATE memory_item
                SET version = version + 1, document = NULL, embedding = NULL, expires_at = NULL,
                    updated_at = now()
              WHERE tenant_id = $1
                AND namespace = $2
                AND key = $3
                AND document IS NOT NULL
                AND (expires_at IS NULL OR expires_at > now())
                AND ($4::integer IS NULL OR (version = $4 AND created_at = $5))
          RETURNING version, updated_at
         )
         INSERT INTO memory_item_version (tenant_id, namespace, key, version, created_at)
         SELECT $1, $2, $3, version, updated_at FROM gone",
        tenant.as_str(),
        place.namespace.parts(),
        place.key.as_str(),
        seen.map(|seen| seen.version),
        seen.map(|seen| seen.created_at)
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected() == 1)
}

/// Forgets an item with all of its versions, whether it is there or was deleted. `false` when nothing is
/// stored of it, or it is not at the version that was seen.
///
/// # Errors
/// When the database does not take it.
pub async fn purge(
    store: &Store,
    tenant: &TenantId,
    place: &ItemPlace,
    seen: Option<&ItemFacts>,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM memory_item
          WHERE tenant_id = $1
            AND namespace = $2
            AND key = $3
            AND (expires_at IS NULL OR expires_at > now())
            AND ($4::integer IS NULL OR (version = $4 AND created_at = $5))",
        tenant.as_str(),
        place.namespace.parts(),
        place.key.as_str(),
        seen.map(|seen| seen.version),
        seen.map(|seen| seen.created_at)
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected() == 1)
}

/// Which version is to lose its value, and who says so.
#[derive(Debug, Clone, Copy)]
pub struct Redacted<'a> {
    /// The version.
    pub version: i32,
    /// The id of the caller's key.
    pub by: Option<&'a str>,
}

/// Takes the value out of a version, and out of what is searched where it is the newest.
///
/// The item is then not there until it is put again. A version that was redacted before stays as it is. `None`
/// when there is no such version, or it is a deletion.
///
/// # Errors
/// When the database does not take it.
pub async fn redact(
    store: &Store,
    tenant: &TenantId,
    place: &ItemPlace,
    what: Redacted<'_>,
) -> Result<Option<ItemVersion>, StoreError> {
    // A value that is put meanwhile is another version, which the second change leaves alone: it looks at the
    // item again once it has the row.
    let row = sqlx::query_as!(
        VersionRow,
        r#"WITH redacted AS (
               UPDATE memory_item_version v
                  SET value = NULL, redacted_at = coalesce(v.redacted_at, now()),
                      redacted_by = CASE WHEN v.redacted_at IS NULL THEN $5 ELSE v.redacted_by END
                 FROM memory_item i
                WHERE v.tenant_id = $1
                  AND v.namespace = $2
                  AND v.key = $3
                  AND v.version = $4
                  AND (v.value IS NOT NULL OR v.redacted_at IS NOT NULL)
                  AND (v.expires_at IS NULL OR v.expires_at > now())
                  AND i.tenant_id = v.tenant_id
                  AND i.namespace = v.namespace
                  AND i.key = v.key
                  AND (i.expires_at IS NULL OR i.expires_at > now())
            RETURNING v.version, v.value, v.call_id, v.created_at, v.expires_at, v.redacted_at,
                      v.redacted_by
           ), emptied AS (
               UPDATE memory_item
                  SET document = NULL, embedding = NULL
                 FROM redacted
                WHERE memory_item.tenant_id = $1
                  AND memory_item.namespace = $2
                  AND memory_item.key = $3
                  AND memory_item.version = redacted.version
           )
           SELECT version, value, call_id, created_at, expires_at, redacted_at, redacted_by
             FROM redacted"#,
        tenant.as_str(),
        place.namespace.parts(),
        place.key.as_str(),
        what.version,
        what.by
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(row.map(ItemVersion::from))
}
