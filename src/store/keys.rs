//! API keys, and the secrets that all replicas share.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::idempotency::{self, IdempotencyKey};
use super::rows::At;
use super::{Store, StoreError};
use crate::domain::caller::Scope;
use crate::domain::id::{KeyId, TenantId};
use crate::domain::page::{Page, PageRequest};

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
    /// The key that it was made from when that was rotated.
    pub replaces: Option<KeyId>,
}

impl StoredKey {
    /// Whether it works at a moment.
    pub fn is_live(&self, now: DateTime<Utc>) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
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
    replaces: Option<Uuid>,
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
            replaces: row.replaces.map(KeyId::from),
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
        "SELECT key_id, tenant_id, name, hash, scopes, created_at, expires_at, revoked_at,
                replaces
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
    let mut tx = store.critical().begin().await.map_err(StoreError::of_read)?;
    add(&mut tx, key).await?;
    tx.commit().await.map_err(StoreError::of_write)
}

async fn add(tx: &mut PgConnection, key: &StoredKey) -> Result<(), StoreError> {
    let scopes: Vec<String> = key.scopes.iter().map(ToString::to_string).collect();
    sqlx::query!(
        "INSERT INTO api_key (tenant_id, key_id, name, hash, scopes, created_at, expires_at, replaces)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        key.tenant.as_str(),
        key.id.uuid(),
        key.name,
        key.hash,
        &scopes,
        key.created_at,
        key.expires_at,
        key.replaces.map(KeyId::uuid)
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// What became of a request for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// It is made.
    New(StoredKey),
    /// A request with the same idempotency key made it before.
    Before(StoredKey),
}

/// Stores a new key, once for each idempotency key.
///
/// # Errors
/// When the database does not take it, or the idempotency key belongs to another request.
pub async fn create(
    store: &Store,
    key: StoredKey,
    once: Option<&IdempotencyKey>,
) -> Result<Made, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    if let Some(before) = made_before(&mut tx, &key.tenant, (once, key.id)).await? {
        return Ok(Made::Before(before));
    }
    add(&mut tx, &key).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Made::New(key))
}

/// Replaces a key that works: what is to take its place is made from it, and it works no longer than
/// until `until`. `None` when the tenant has no such key, and the key itself when it does not work.
///
/// # Errors
/// When the database does not take it, or the idempotency key belongs to another request.
pub async fn rotate(
    store: &Store,
    (tenant, id): (&TenantId, KeyId),
    (now, until): (DateTime<Utc>, DateTime<Utc>),
    (successor, once): (impl FnOnce(&StoredKey) -> StoredKey + Send, Option<&IdempotencyKey>),
) -> Result<Option<Result<Made, StoredKey>>, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    let Some(old) = locked(&mut tx, tenant, id).await? else { return Ok(None) };
    let new = successor(&old);
    if let Some(before) = made_before(&mut tx, tenant, (once, new.id)).await? {
        return Ok(Some(Ok(Made::Before(before))));
    }
    if !old.is_live(now) {
        return Ok(Some(Err(old)));
    }
    end_by(&mut tx, tenant, (id, until)).await?;
    add(&mut tx, &new).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Some(Ok(Made::New(new))))
}

/// The key that an earlier request with the same idempotency key made.
async fn made_before(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (once, id): (Option<&IdempotencyKey>, KeyId),
) -> Result<Option<StoredKey>, StoreError> {
    let Some(once) = once else { return Ok(None) };
    match idempotency::claim(tx, tenant, once, id.uuid()).await? {
        Some(before) => locked(tx, tenant, KeyId::from(before)).await,
        None => Ok(None),
    }
}

/// A key of a tenant that nobody else changes meanwhile.
async fn locked(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: KeyId,
) -> Result<Option<StoredKey>, StoreError> {
    sqlx::query_as!(
        KeyRow,
        "SELECT key_id, tenant_id, name, hash, scopes, created_at, expires_at, revoked_at,
                replaces
           FROM api_key
          WHERE tenant_id = $1
            AND key_id = $2
            FOR UPDATE",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(tx)
    .await
    .map_err(StoreError::of_read)?
    .map(StoredKey::try_from)
    .transpose()
}

async fn end_by(
    tx: &mut PgConnection,
    tenant: &TenantId,
    (id, until): (KeyId, DateTime<Utc>),
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE api_key
            SET expires_at = least(expires_at, $3)
          WHERE tenant_id = $1
            AND key_id = $2",
        tenant.as_str(),
        id.uuid(),
        until
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// A key of a tenant.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    id: KeyId,
) -> Result<Option<StoredKey>, StoreError> {
    sqlx::query_as!(
        KeyRow,
        "SELECT key_id, tenant_id, name, hash, scopes, created_at, expires_at, revoked_at,
                replaces
           FROM api_key
          WHERE tenant_id = $1
            AND key_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?
    .map(StoredKey::try_from)
    .transpose()
}

/// Where a page of keys ends.
pub type KeyPlace = (DateTime<Utc>, KeyId);

/// A page of a tenant's keys, newest first.
///
/// # Errors
/// When the database does not answer.
pub async fn page(
    store: &Store,
    tenant: &TenantId,
    page: &PageRequest<KeyPlace>,
) -> Result<Page<StoredKey, KeyPlace>, StoreError> {
    let keys: Result<Vec<StoredKey>, _> = sqlx::query_as!(
        KeyRow,
        "SELECT key_id, tenant_id, name, hash, scopes, created_at, expires_at, revoked_at,
                replaces
           FROM api_key
          WHERE tenant_id = $1
            AND ($2::timestamptz IS NULL OR (created_at, key_id) < ($2, $3::uuid))
          ORDER BY created_at DESC, key_id DESC
          LIMIT $4",
        tenant.as_str(),
        page.after.map(|(at, _)| at),
        page.after.map(|(_, id)| id.uuid()),
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?
    .into_iter()
    .map(StoredKey::try_from)
    .collect();
    Ok(Page::of(keys?, page.limit, |key| (key.created_at, key.id)))
}

/// A tenant's keys, newest first; at most 1,000.
///
/// # Errors
/// When the database does not answer.
pub async fn list(store: &Store, tenant: &TenantId) -> Result<Vec<StoredKey>, StoreError> {
    sqlx::query_as!(
        KeyRow,
        "SELECT key_id, tenant_id, name, hash, scopes, created_at, expires_at, revoked_at,
                replaces
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
