//! MCP servers that tenants registered.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::idempotency::{self, IdempotencyKey};
use super::rows::{At, labels, to_json};
use super::{Store, StoreError};
use crate::domain::id::{McpServerId, TenantId};
use crate::domain::mcp::{McpServer, McpServerSpec};
use crate::domain::page::{ListFilter, Page, PageRequest};

struct ServerRow {
    server_id: Uuid,
    spec: String,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<ServerRow> for McpServer {
    type Error = StoreError;

    fn try_from(row: ServerRow) -> Result<Self, StoreError> {
        let id = McpServerId::from(row.server_id);
        let spec = At { table: "mcp_server", id: &id }.json("spec", &row.spec)?;
        Ok(Self { id, spec, created_at: row.created_at, updated_at: row.updated_at })
    }
}

/// Stores a new server.
///
/// # Errors
/// [`super::Conflict::McpServerNameTaken`] when another one has the name, or when the database does not
/// take it.
pub async fn create(
    store: &Store,
    tenant: &TenantId,
    new: &McpServer,
    key: Option<&IdempotencyKey>,
) -> Result<(), StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, key, new.id.uuid().into()).await?;
    sqlx::query!(
        "INSERT INTO mcp_server (tenant_id, server_id, name, spec, created_at, updated_at)
         VALUES ($1, $2, $3, ($4::text)::json, $5, $5)",
        tenant.as_str(),
        new.id.uuid(),
        new.spec.name,
        to_json(&new.spec)?,
        new.created_at
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(())
}

/// Replaces what callers say of a server. `None` when there is no such server.
///
/// # Errors
/// As those of [`create`].
pub async fn replace(
    store: &Store,
    tenant: &TenantId,
    id: McpServerId,
    (spec, now): (&McpServerSpec, DateTime<Utc>),
) -> Result<Option<McpServer>, StoreError> {
    let row = sqlx::query_as!(
        ServerRow,
        r#"UPDATE mcp_server
              SET name = $3, spec = ($4::text)::json, updated_at = $5
            WHERE tenant_id = $1
              AND server_id = $2
        RETURNING server_id, spec::text AS "spec!", created_at, updated_at"#,
        tenant.as_str(),
        id.uuid(),
        spec.name,
        to_json(spec)?,
        now
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_write)?;
    row.map(McpServer::try_from).transpose()
}

/// Removes a server. `false` when there is no such server.
///
/// # Errors
/// When the database does not take it.
pub async fn delete(store: &Store, tenant: &TenantId, id: McpServerId) -> Result<bool, StoreError> {
    let gone = sqlx::query!(
        "DELETE FROM mcp_server
          WHERE tenant_id = $1
            AND server_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(gone.rows_affected() == 1)
}

/// A server.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    id: McpServerId,
) -> Result<Option<McpServer>, StoreError> {
    sqlx::query_as!(
        ServerRow,
        r#"SELECT server_id, spec::text AS "spec!", created_at, updated_at
             FROM mcp_server
            WHERE tenant_id = $1
              AND server_id = $2"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?
    .map(McpServer::try_from)
    .transpose()
}

/// The server of a name, for a worker.
///
/// # Errors
/// When the database does not answer.
pub async fn by_name(
    store: &Store,
    tenant: &TenantId,
    name: &str,
) -> Result<Option<McpServer>, StoreError> {
    sqlx::query_as!(
        ServerRow,
        r#"SELECT server_id, spec::text AS "spec!", created_at, updated_at
             FROM mcp_server
            WHERE tenant_id = $1
              AND name = $2"#,
        tenant.as_str(),
        name
    )
    .fetch_optional(store.worker())
    .await
    .map_err(StoreError::of_read)?
    .map(McpServer::try_from)
    .transpose()
}

/// The place of a server in a list: when it was registered, and its id.
pub type McpServerKey = (DateTime<Utc>, McpServerId);

/// A tenant's servers, newest first.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    filter: &ListFilter,
    page: &PageRequest<McpServerKey>,
) -> Result<Page<McpServer, McpServerKey>, StoreError> {
    let after = page.after.as_ref();
    let (keys, values) = labels(&filter.metadata);
    let rows = sqlx::query_as!(
        ServerRow,
        r#"SELECT server_id, spec::text AS "spec!", created_at, updated_at
             FROM mcp_server
            WHERE tenant_id = $1
              AND ($2::timestamptz IS NULL OR (created_at, server_id) < ($2, $3::uuid))
              AND ($4::timestamptz IS NULL OR created_at > $4)
              AND ($5::timestamptz IS NULL OR created_at < $5)
              AND NOT EXISTS (
                  SELECT 1 FROM unnest($6::text[], $7::text[]) AS wanted(key, value)
                   WHERE (spec -> 'metadata' ->> wanted.key) IS DISTINCT FROM wanted.value)
            ORDER BY created_at DESC, server_id DESC
            LIMIT $8"#,
        tenant.as_str(),
        after.map(|key| key.0),
        after.map(|key| key.1.uuid()),
        filter.created_after,
        filter.created_before,
        &keys,
        &values,
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let servers: Result<Vec<McpServer>, _> = rows.into_iter().map(McpServer::try_from).collect();
    Ok(Page::of(servers?, page.limit, |server| (server.created_at, server.id)))
}
