//! Reads items, their versions, and what namespaces there are.

use super::{HitRow, VersionRow, range};
use crate::domain::id::TenantId;
use crate::domain::memory_item::{
    Hit, ItemPlace, ItemVersion, MemoryItem, Namespace, NamespaceCount, Prefix,
};
use crate::domain::page::{Page, PageRequest};
use crate::store::gated::GatedPool;
use crate::store::rows::At;
use crate::store::{Store, StoreError};

/// An item; `None` when it is not there, was deleted, has expired or has been redacted.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    place: &ItemPlace,
) -> Result<Option<MemoryItem>, StoreError> {
    find(store.api(), tenant, place).await
}

/// The same for a tool of a run.
///
/// # Errors
/// When the database does not answer.
pub async fn get_for_run(
    store: &Store,
    tenant: &TenantId,
    place: &ItemPlace,
) -> Result<Option<MemoryItem>, StoreError> {
    find(store.worker(), tenant, place).await
}

async fn find(
    pool: &GatedPool,
    tenant: &TenantId,
    place: &ItemPlace,
) -> Result<Option<MemoryItem>, StoreError> {
    let row = sqlx::query_as!(
        HitRow,
        r#"SELECT i.namespace, i.key, i.version, v.value AS "value!", i.created_at, i.updated_at,
                  i.expires_at, NULL::real AS score
             FROM memory_item i
             JOIN memory_item_version v
               ON v.tenant_id = i.tenant_id
              AND v.namespace = i.namespace
              AND v.key = i.key
              AND v.version = i.version
            WHERE i.tenant_id = $1
              AND i.namespace = $2
              AND i.key = $3
              AND i.document IS NOT NULL
              AND (i.expires_at IS NULL OR i.expires_at > now())"#,
        tenant.as_str(),
        place.namespace.parts(),
        place.key.as_str()
    )
    .fetch_optional(pool)
    .await
    .map_err(StoreError::of_read)?;
    row.map(|row| Hit::try_from(row).map(|hit| hit.item)).transpose()
}

/// The versions of an item, newest first, below a version; `None` when there is no such item. A deleted one
/// has its versions, and one that has expired has none.
///
/// # Errors
/// When the database does not answer.
pub async fn versions(
    store: &Store,
    tenant: &TenantId,
    place: &ItemPlace,
    page: &PageRequest<i32>,
) -> Result<Option<Page<ItemVersion, i32>>, StoreError> {
    let rows = sqlx::query_as!(
        VersionRow,
        "SELECT v.version, v.value, v.call_id, v.created_at, v.expires_at, v.redacted_at,
                v.redacted_by
           FROM memory_item_version v
           JOIN memory_item i
             ON i.tenant_id = v.tenant_id
            AND i.namespace = v.namespace
            AND i.key = v.key
          WHERE v.tenant_id = $1
            AND v.namespace = $2
            AND v.key = $3
            AND ($4::integer IS NULL OR v.version < $4)
            AND (v.expires_at IS NULL OR v.expires_at > now())
            AND (i.expires_at IS NULL OR i.expires_at > now())
          ORDER BY v.version DESC
          LIMIT $5",
        tenant.as_str(),
        place.namespace.parts(),
        place.key.as_str(),
        page.after,
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    // The newest version is never behind a cursor, so a first page is empty only where there is nothing.
    if rows.is_empty() && page.after.is_none() {
        return Ok(None);
    }
    let versions = rows.into_iter().map(ItemVersion::from).collect();
    Ok(Some(Page::of(versions, page.limit, |version: &ItemVersion| version.version)))
}

/// The namespaces that begin so, each cut to so many parts, in order, with the items under each.
///
/// # Errors
/// When the database does not answer.
pub async fn namespaces(
    store: &Store,
    tenant: &TenantId,
    (prefix, depth): (&Prefix, u32),
    page: &PageRequest<Namespace>,
) -> Result<Page<NamespaceCount, Namespace>, StoreError> {
    let (start, to) = range(prefix, false);
    let from = page.after.as_ref().map_or(start, |after| after.parts().to_vec());
    let after = page.after.as_ref().map_or(&[][..], |after| after.parts());
    let rows = sqlx::query!(
        r#"SELECT n.namespace AS "namespace!", count(*) AS "n!"
             FROM (SELECT i.namespace[1:$4::integer] AS namespace
                     FROM memory_item i
                    WHERE i.tenant_id = $1
                      AND i.namespace >= $2::text[]
                      AND i.namespace < $3::text[]
                      AND i.document IS NOT NULL
                      AND (i.expires_at IS NULL OR i.expires_at > now())) n
            WHERE n.namespace > $5::text[]
            GROUP BY n.namespace
            ORDER BY n.namespace
            LIMIT $6"#,
        tenant.as_str(),
        &from,
        &to as &[Option<String>],
        i32::try_from(depth).unwrap_or(i32::MAX),
        after,
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let counted = rows.into_iter().map(|row| {
        let at = At { table: "memory_item", id: &row.namespace.join("/") };
        let n_items = at.count("namespace", row.n)?;
        let namespace = row.namespace.try_into().map_err(|_| at.wrong("namespace"))?;
        Ok(NamespaceCount { namespace, n_items })
    });
    let counted: Vec<NamespaceCount> = counted.collect::<Result<_, StoreError>>()?;
    Ok(Page::of(counted, page.limit, |count| count.namespace.clone()))
}
