//! Secrets of tenants, sealed: this layer never has a value.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

use super::rows::At;
use super::{Store, StoreError};
use crate::domain::id::TenantId;
use crate::domain::page::{Page, PageRequest};
use crate::domain::secret::{Origin, SecretFacts, SecretName};

/// A sealed value as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedRow {
    /// The value under its data key.
    pub sealed: Vec<u8>,
    /// The data key under a key-encryption key.
    pub wrapped_key: Vec<u8>,
    /// Which key-encryption key.
    pub kek_id: String,
}

/// A secret as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSecret {
    /// What may be told of it.
    pub facts: SecretFacts,
    /// Its value.
    pub sealed: SealedRow,
}

pub(super) struct SecretRow {
    pub(super) name: String,
    pub(super) version: i32,
    pub(super) sealed: Vec<u8>,
    pub(super) wrapped_key: Vec<u8>,
    pub(super) kek_id: String,
    pub(super) origins: Vec<String>,
    pub(super) fingerprint: String,
    pub(super) created_at: DateTime<Utc>,
    pub(super) updated_at: DateTime<Utc>,
    pub(super) last_used_at: Option<DateTime<Utc>>,
}

impl TryFrom<SecretRow> for StoredSecret {
    type Error = StoreError;

    fn try_from(row: SecretRow) -> Result<Self, StoreError> {
        let name = row.name;
        let at = At { table: "secret", id: &name };
        let origins: Result<Vec<Origin>, _> = row.origins.iter().map(|text| text.parse()).collect();
        let facts = SecretFacts {
            name: name.parse().map_err(|_| at.wrong("name"))?,
            version: row.version,
            origins: origins.map_err(|_| at.wrong("origins"))?,
            fingerprint: row.fingerprint,
            created_at: row.created_at,
            updated_at: row.updated_at,
            last_used_at: row.last_used_at,
        };
        let (sealed, wrapped_key, kek_id) = (row.sealed, row.wrapped_key, row.kek_id);
        Ok(Self { facts, sealed: SealedRow { sealed, wrapped_key, kek_id } })
    }
}

/// Stores a value as the version that its facts name, which must be the one after what is stored: `false`
/// when somebody else was first.
///
/// # Errors
/// When the database does not take it.
pub async fn put(store: &Store, tenant: &TenantId, new: &StoredSecret) -> Result<bool, StoreError> {
    let StoredSecret { facts, sealed } = new;
    let origins: Vec<String> = facts.origins.iter().map(|it| it.as_str().to_owned()).collect();
    let done = sqlx::query!(
        "INSERT INTO secret (tenant_id, name, version, sealed, wrapped_key, kek_id, origins,
                             fingerprint, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (tenant_id, name) DO UPDATE
            SET version = excluded.version, sealed = excluded.sealed,
                wrapped_key = excluded.wrapped_key, kek_id = excluded.kek_id,
                origins = excluded.origins, fingerprint = excluded.fingerprint,
                updated_at = excluded.updated_at
          WHERE secret.version = excluded.version - 1",
        tenant.as_str(),
        facts.name.as_str(),
        facts.version,
        sealed.sealed,
        sealed.wrapped_key,
        sealed.kek_id,
        &origins,
        facts.fingerprint,
        facts.created_at,
        facts.updated_at
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected() == 1)
}

/// A secret.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    name: &SecretName,
) -> Result<Option<StoredSecret>, StoreError> {
    find(store.api(), tenant, name).await
}

async fn find(
    connection: impl PgExecutor<'_>,
    tenant: &TenantId,
    name: &SecretName,
) -> Result<Option<StoredSecret>, StoreError> {
    sqlx::query_as!(
        SecretRow,
        "SELECT name, version, sealed, wrapped_key, kek_id, origins, fingerprint, created_at,
                updated_at, last_used_at
           FROM secret
          WHERE tenant_id = $1
            AND name = $2",
        tenant.as_str(),
        name.as_str()
    )
    .fetch_optional(connection)
    .await
    .map_err(StoreError::of_read)?
    .map(StoredSecret::try_from)
    .transpose()
}

/// A secret that is about to be sent. That it was used is noted once a minute.
///
/// # Errors
/// When the database does not answer.
pub async fn take(
    store: &Store,
    tenant: &TenantId,
    name: &SecretName,
    now: DateTime<Utc>,
) -> Result<Option<StoredSecret>, StoreError> {
    let found = find(store.worker(), tenant, name).await?;
    let minute = chrono::TimeDelta::minutes(1);
    let is_noted = |secret: &StoredSecret| {
        secret.facts.last_used_at.is_some_and(|used| now.signed_duration_since(used) < minute)
    };
    if found.as_ref().is_some_and(|secret| !is_noted(secret)) {
        sqlx::query!(
            "UPDATE secret
                SET last_used_at = greatest(last_used_at, $3)
              WHERE tenant_id = $1
                AND name = $2",
            tenant.as_str(),
            name.as_str(),
            now
        )
        .execute(store.worker())
        .await
        .map_err(StoreError::of_write)?;
    }
    Ok(found)
}

/// The place of a secret in a list: when it was created, and its name.
pub type SecretKey = (DateTime<Utc>, SecretName);

/// A tenant's secrets, newest first.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    page: &PageRequest<SecretKey>,
) -> Result<Page<SecretFacts, SecretKey>, StoreError> {
    let after = page.after.as_ref();
    let rows = sqlx::query_as!(
        SecretRow,
        "SELECT name, version, sealed, wrapped_key, kek_id, origins, fingerprint, created_at,
                updated_at, last_used_at
           FROM secret
          WHERE tenant_id = $1
            AND ($2::timestamptz IS NULL OR (created_at, name) < ($2, $3::text))
          ORDER BY created_at DESC, name DESC
          LIMIT $4",
        tenant.as_str(),
        after.map(|key| key.0),
        after.map(|key| key.1.as_str()),
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let facts: Result<Vec<SecretFacts>, _> = rows
        .into_iter()
        .map(|row| StoredSecret::try_from(row).map(|secret| secret.facts))
        .collect();
    Ok(Page::of(facts?, page.limit, |facts| (facts.created_at, facts.name.clone())))
}

/// Forgets a secret. `false` when there is none of the name.
///
/// # Errors
/// When the database does not take it.
pub async fn delete(
    store: &Store,
    tenant: &TenantId,
    name: &SecretName,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM secret
          WHERE tenant_id = $1
            AND name = $2",
        tenant.as_str(),
        name.as_str()
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected() == 1)
}

/// A data key that is not under the key-encryption key it should be under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleKey {
    /// Whose.
    pub tenant: TenantId,
    /// Of which secret.
    pub name: SecretName,
    /// Of which version.
    pub version: i32,
    /// The data key.
    pub wrapped_key: Vec<u8>,
    /// Which key-encryption key it is under.
    pub kek_id: String,
}

/// The first data keys behind a place that are not under a key-encryption key, of all tenants: keys are
/// the operator's, and so is their replacement.
///
/// # Errors
/// When the database does not answer.
pub async fn stale_keys(
    store: &Store,
    kek_id: &str,
    (tenant, name): (&str, &str),
) -> Result<Vec<StaleKey>, StoreError> {
    let rows = sqlx::query!(
        "SELECT tenant_id, name, version, wrapped_key, kek_id
           FROM secret
          WHERE (tenant_id, name) > ($1, $2)
            AND kek_id <> $3
          ORDER BY tenant_id, name
          LIMIT 100",
        tenant,
        name,
        kek_id
    )
    .fetch_all(store.system().api())
    .await
    .map_err(StoreError::of_read)?;
    let read = rows.into_iter().map(|row| {
        let at = At { table: "secret", id: &row.name };
        Ok(StaleKey {
            tenant: TenantId::parse(&row.tenant_id).map_err(|_| at.wrong("tenant_id"))?,
            name: row.name.parse().map_err(|_| at.wrong("name"))?,
            version: row.version,
            wrapped_key: row.wrapped_key,
            kek_id: row.kek_id,
        })
    });
    read.collect()
}

/// Puts a data key under another key-encryption key. `false` when it was changed meanwhile.
///
/// # Errors
/// When the database does not take it.
pub async fn rewrap(
    store: &Store,
    stale: &StaleKey,
    (kek_id, wrapped_key): (&str, &[u8]),
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "UPDATE secret
            SET wrapped_key = $5, kek_id = $6
          WHERE tenant_id = $1
            AND name = $2
            AND version = $3
            AND wrapped_key = $4",
        stale.tenant.as_str(),
        stale.name.as_str(),
        stale.version,
        stale.wrapped_key,
        wrapped_key,
        kek_id
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected() == 1)
}
