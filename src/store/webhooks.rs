//! Endpoints that events of runs are told to.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::idempotency::{self, IdempotencyKey};
use super::rows::{At, labels, to_json};
use super::{Store, StoreError};
use crate::domain::event::EventName;
use crate::domain::id::{TenantId, WebhookId};
use crate::domain::page::{ListFilter, Page, PageRequest};
use crate::domain::webhook::Webhook;

struct WebhookRow {
    webhook_id: Uuid,
    url: String,
    events: Vec<String>,
    all_runs: bool,
    metadata: String,
    secret_version: i32,
    rotated_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    disabled_at: Option<DateTime<Utc>>,
}

impl TryFrom<WebhookRow> for Webhook {
    type Error = StoreError;

    fn try_from(row: WebhookRow) -> Result<Self, StoreError> {
        let id = WebhookId::from(row.webhook_id);
        let at = At { table: "webhook", id: &id };
        let events = row.events.iter().map(|event| at.label("events", event));
        Ok(Self {
            id,
            events: events.collect::<Result<_, _>>()?,
            metadata: at.json("metadata", &row.metadata)?,
            url: row.url,
            all_runs: row.all_runs,
            secret_version: row.secret_version,
            rotated_at: row.rotated_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
            disabled_at: row.disabled_at,
        })
    }
}

fn event_labels(webhook: &Webhook) -> Vec<String> {
    webhook.events.iter().map(EventName::to_string).collect()
}

/// Stores a new endpoint.
///
/// # Errors
/// When the database does not take it.
pub async fn create(
    store: &Store,
    tenant: &TenantId,
    new: &Webhook,
    key: Option<&IdempotencyKey>,
) -> Result<(), StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, key, new.id.uuid().into()).await?;
    sqlx::query!(
        "INSERT INTO webhook (tenant_id, webhook_id, url, events, all_runs, metadata, secret_version,
                              created_at, updated_at, disabled_at)
         VALUES ($1, $2, $3, $4, $5, ($6::text)::json, $7, $8, $8, $9)",
        tenant.as_str(),
        new.id.uuid(),
        new.url,
        &event_labels(new),
        new.all_runs,
        to_json(&new.metadata)?,
        new.secret_version,
        new.created_at,
        new.disabled_at
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(())
}

/// Replaces what callers say of an endpoint. `None` when there is no such endpoint.
///
/// # Errors
/// When the database does not take it.
pub async fn replace(
    store: &Store,
    tenant: &TenantId,
    new: &Webhook,
) -> Result<Option<Webhook>, StoreError> {
    let row = sqlx::query_as!(
        WebhookRow,
        r#"UPDATE webhook
              SET url = $3, events = $4, all_runs = $5, metadata = ($6::text)::json, updated_at = $7,
                  disabled_at = CASE WHEN $8::timestamptz IS NOT NULL
                                     THEN coalesce(disabled_at, $8) END
            WHERE tenant_id = $1
              AND webhook_id = $2
        RETURNING webhook_id, url, events, all_runs, metadata::text AS "metadata!", secret_version,
                  rotated_at, created_at, updated_at, disabled_at"#,
        tenant.as_str(),
        new.id.uuid(),
        new.url,
        &event_labels(new),
        new.all_runs,
        to_json(&new.metadata)?,
        new.updated_at,
        new.disabled_at
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_write)?;
    row.map(Webhook::try_from).transpose()
}

/// Gives an endpoint its next secret. `None` when there is no such endpoint.
///
/// # Errors
/// When the database does not take it.
pub async fn rotate(
    store: &Store,
    tenant: &TenantId,
    (id, key): (WebhookId, Option<&IdempotencyKey>),
    now: DateTime<Utc>,
) -> Result<Option<Webhook>, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, key, id.uuid().into()).await?;
    let row = sqlx::query_as!(
        WebhookRow,
        r#"UPDATE webhook
              SET secret_version = secret_version + 1, rotated_at = $3, updated_at = $3
            WHERE tenant_id = $1
              AND webhook_id = $2
        RETURNING webhook_id, url, events, all_runs, metadata::text AS "metadata!", secret_version,
                  rotated_at, created_at, updated_at, disabled_at"#,
        tenant.as_str(),
        id.uuid(),
        now
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    if row.is_some() {
        tx.commit().await.map_err(StoreError::of_write)?;
    }
    row.map(Webhook::try_from).transpose()
}

/// Tells an endpoint nothing any more.
///
/// # Errors
/// When the database does not take it.
pub async fn disable(store: &Store, tenant: &TenantId, id: WebhookId) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE webhook
            SET disabled_at = coalesce(disabled_at, now())
          WHERE tenant_id = $1
            AND webhook_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Removes an endpoint and what it was to be told. `false` when there is no such endpoint.
///
/// # Errors
/// When the database does not take it.
pub async fn delete(store: &Store, tenant: &TenantId, id: WebhookId) -> Result<bool, StoreError> {
    let gone = sqlx::query_scalar!(
        r#"WITH gone AS (
               DELETE FROM webhook
                WHERE tenant_id = $1
                  AND webhook_id = $2
            RETURNING 1
           ), untold AS (
               DELETE FROM webhook_delivery
                WHERE tenant_id = $1
                  AND webhook_id = $2
           )
           SELECT count(*) AS "n!" FROM gone"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_one(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(gone == 1)
}

/// An endpoint.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    id: WebhookId,
) -> Result<Option<Webhook>, StoreError> {
    sqlx::query_as!(
        WebhookRow,
        r#"SELECT webhook_id, url, events, all_runs, metadata::text AS "metadata!", secret_version,
                  rotated_at, created_at, updated_at, disabled_at
             FROM webhook
            WHERE tenant_id = $1
              AND webhook_id = $2"#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?
    .map(Webhook::try_from)
    .transpose()
}

/// Whether there is such an endpoint.
pub(super) async fn exists(
    tx: &mut PgConnection,
    tenant: &TenantId,
    id: WebhookId,
) -> Result<bool, StoreError> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM webhook WHERE tenant_id = $1 AND webhook_id = $2) AS "is!""#,
        tenant.as_str(),
        id.uuid()
    )
    .fetch_one(tx)
    .await
    .map_err(StoreError::of_read)
}

/// The place of an endpoint in a list: when it was created, and its id.
pub type WebhookKey = (DateTime<Utc>, WebhookId);

/// A tenant's endpoints, newest first.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    filter: &ListFilter,
    page: &PageRequest<WebhookKey>,
) -> Result<Page<Webhook, WebhookKey>, StoreError> {
    let after = page.after.as_ref();
    let (keys, values) = labels(&filter.metadata);
    let rows = sqlx::query_as!(
        WebhookRow,
        r#"SELECT webhook_id, url, events, all_runs, metadata::text AS "metadata!", secret_version,
                  rotated_at, created_at, updated_at, disabled_at
             FROM webhook
            WHERE tenant_id = $1
              AND ($2::timestamptz IS NULL OR (created_at, webhook_id) < ($2, $3::uuid))
              AND ($4::timestamptz IS NULL OR created_at > $4)
              AND ($5::timestamptz IS NULL OR created_at < $5)
              AND NOT EXISTS (
                  SELECT 1 FROM unnest($6::text[], $7::text[]) AS wanted(key, value)
                   WHERE (metadata ->> wanted.key) IS DISTINCT FROM wanted.value)
            ORDER BY created_at DESC, webhook_id DESC
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
    let webhooks: Result<Vec<Webhook>, _> = rows.into_iter().map(Webhook::try_from).collect();
    Ok(Page::of(webhooks?, page.limit, |webhook| (webhook.created_at, webhook.id)))
}
