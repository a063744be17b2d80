//! API keys, and the secrets that all replicas share.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::rows::At;
use super::{Store, StoreError};
use crate::domain::caller::Scope;
use crate::domain::id::{KeyId, TenantId};

/// A key as stored; its secret part is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// Its id.
    pub id: KeyId,
    /// For whom it acts.
    pub tenant: TenantId,
    /// What people call it.
    pub name: String,
    /// HMAC-SHA-256 of the secret part under the server's pepper.
    pub hash: Vec<u8>,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it stops working.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
}

struct KeyRow {
    key_id: Uuid,
    tenant_id: String,
    name: String,
    hash: Vec<u8>,
    scopes: Vec<String>,
    created_at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
    revoked_at: Option<DateTime<Utc>>,
}

impl TryFrom<KeyRow> for StoredKey {
    type Error = StoreError;

    fn try_from(row: KeyRow) -> Result<Self, StoreError> {
        let id = KeyId::from(row.key_id);
        let at = At { table: "api_key", id: &id };
        let scopes: Result<Vec<Scope>, _> =
            row.scopes.iter().map(|scope| at.label("scopes", scope)).collect();
        Ok(Self {
            id,
            tenant: TenantId::parse(&row.tenant_id).map_err(|_| at.wrong("tenant_id"))?,
            name: row.name,
            hash: row.hash,
            scopes: scopes?,
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
        })
    }
}

/// The key with an id, whatever its tenant: the tenant is what the lookup tells.
///
/// # Errors
/// When the database does not answer.
pub async fn find(store: &Store, id: KeyId) -> Result<Option<StoredKey>, StoreError> {
    sqlx::query_as!(
        KeyRow,
        "SELECT key_id, tenant_id, name, hash, scopes, created_at, expires_at, revoked_at
           FROM api_key
          WHERE key_id = $1",
        id.uuid()
    )
    .fetch_optional(store.system().critical())
    .await
    .map_err(StoreError::of_read)?
    .map(StoredKey::try_from)
    .transpose()
}

/// Whether there is or ever was a key, of any tenant: then the server asks for one. Revoking the last
/// key closes a server, it does not open it.
///
/// # Errors
/// When the database does not answer.
pub async fn any(store: &Store) -> Result<bool, StoreError> {
    sqlx::query_scalar!(r#"SELECT EXISTS (SELECT 1 FROM api_key) AS "any!""#)
        .fetch_one(store.system().critical())
        .await
        .map_err(StoreError::of_read)
}

/// Stores a new key.
///
/// # Errors
/// When the database does not take it.
pub async fn insert(store: &Store, key: &StoredKey) -> Result<(), StoreError> {
    let scopes: Vec<String> = key.scopes.iter().map(ToString::to_string).collect();
    sqlx::query!(
        "INSERT INTO api_key (tenant_id, key_id, name, hash, scopes, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        key.tenant.as_str(),
        key.id.uuid(),
        key.name,
        key.hash,
        &scopes,
        key.created_at,
        key.expires_at
    )
    .execute(store.critical())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// A tenant's keys, newest first; at most 1,000.
///
/// # Errors
/// When the database does not answer.
pub async fn list(store: &Store, tenant: &TenantId) -> Result<Vec<StoredKey>, StoreError> {
    sqlx::query_as!(
        KeyRow,
        "SELECT key_id, tenant_id, name, hash, scopes, created_at, expires_at, revoked_at
           FROM api_key
          WHERE tenant_id = $1
          ORDER BY created_at DESC, key_id DESC
          LIMIT 1000",
        tenant.as_str()
    )
    .fetch_all(store.critical())
    .await
    .map_err(StoreError::of_read)?
    .into_iter()
    .map(StoredKey::try_from)
    .collect()
}

/// Revokes a key for good. `false` when the tenant has no such key; revoking twice is no error.
///
/// # Errors
/// When the database does not take it.
pub async fn revoke(
    store: &Store,
    tenant: &TenantId,
    id: KeyId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "UPDATE api_key
            SET revoked_at = coalesce(revoked_at, $3)
          WHERE tenant_id = $1
            AND key_id = $2",
        tenant.as_str(),
        id.uuid(),
        now
    )
    .execute(store.critical())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected() == 1)
}

/// The shared secret of a name; the first replica to ask stores the one it offers.
///
/// # Errors
/// When the database does not answer.
pub async fn shared_secret(
    store: &Store,
    name: &str,
    offered: [u8; 32],
) -> Result<[u8; 32], StoreError> {
    sqlx::query!(
        "INSERT INTO server_secret (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        name,
        &offered[..]
    )
    .execute(store.system().critical())
    .await
    .map_err(StoreError::of_write)?;
    let value = sqlx::query_scalar!("SELECT value FROM server_secret WHERE name = $1", name)
        .fetch_one(store.system().critical())
        .await
        .map_err(StoreError::of_read)?;
    value.try_into().map_err(|_| At { table: "server_secret", id: &name }.wrong("value"))
}
