//! The outbox: events on their way to endpoints. What puts them there are the writes of the events.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;
use uuid::Uuid;

use super::idempotency::{self, IdempotencyKey, interval};
use super::rows::At;
use super::{Store, StoreError};
use crate::domain::id::{DeliveryId, RunId, TenantId, WebhookId};
use crate::domain::page::{Page, PageRequest};
use crate::domain::webhook::{Attempted, Delivery, DeliveryError, DeliveryState};

/// The most deliveries that an endpoint has under way at once.
const UNDER_WAY_PER_WEBHOOK: i64 = 4;

/// A delivery to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDelivery {
    /// Whose it is.
    pub tenant: TenantId,
    /// The delivery.
    pub id: DeliveryId,
    /// The endpoint.
    pub webhook: WebhookId,
    /// The run.
    pub run: RunId,
    /// The event's place in the run.
    pub event_seq: i64,
    /// Where it goes.
    pub url: String,
    /// The versions of the endpoint's secret that sign it, the current one first.
    pub secret_versions: Vec<i32>,
    /// How often it was tried, this time included.
    pub n_attempts: i32,
    /// What the claimer must show when it settles.
    pub token: Uuid,
}

/// Claims deliveries that are due, one for each token.
///
/// # Errors
/// When the database does not take it.
pub async fn claim(
    store: &Store,
    tokens: &[Uuid],
    at_most: Duration,
) -> Result<Vec<DueDelivery>, StoreError> {
    let rows =
        sqlx::query_file!("src/store/outbox.sql", tokens, interval(at_most), UNDER_WAY_PER_WEBHOOK)
            .fetch_all(store.system().api())
            .await
            .map_err(StoreError::of_write)?;
    rows.into_iter()
        .map(|row| {
            let id = DeliveryId::from(row.delivery_id);
            let tenant = TenantId::parse(&row.tenant_id)
                .map_err(|_| At { table: "webhook_delivery", id: &id }.wrong("tenant_id"))?;
            let before = (row.is_rotated == Some(true)).then_some(row.secret_version - 1);
            Ok(DueDelivery {
                tenant,
                id,
                webhook: WebhookId::from(row.webhook_id),
                run: RunId::from(row.run_id),
                event_seq: row.event_seq,
                url: row.url,
                secret_versions: std::iter::once(row.secret_version).chain(before).collect(),
                n_attempts: row.n_attempts,
                token: row.lease_token,
            })
        })
        .collect()
}

/// Writes down how an attempt ended, and after which pause there is another one. Nothing is written
/// when somebody else has taken the delivery over.
///
/// # Errors
/// When the database does not take it.
pub async fn settle(
    store: &Store,
    delivery: &DueDelivery,
    attempted: Attempted,
    pause: Option<Duration>,
) -> Result<(), StoreError> {
    let state = match (attempted.error, pause) {
        (None, _) => DeliveryState::Delivered,
        (Some(_), Some(_)) => DeliveryState::Pending,
        (Some(_), None) => DeliveryState::Failed,
    };
    sqlx::query!(
        "UPDATE webhook_delivery
            SET state = $4, lease_token = NULL, due_at = now() + $5::interval, last_status = $6,
                last_error = $7
          WHERE tenant_id = $1
            AND delivery_id = $2
            AND lease_token = $3",
        delivery.tenant.as_str(),
        delivery.id.uuid(),
        delivery.token,
        state.label(),
        interval(pause.unwrap_or_default()),
        attempted.status.map(i32::from),
        attempted.error.map(DeliveryError::label)
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

struct DeliveryRow {
    delivery_id: Uuid,
    webhook_id: Uuid,
    run_id: Uuid,
    event_seq: i64,
    event: String,
    state: String,
    n_attempts: i32,
    due_at: DateTime<Utc>,
    last_status: Option<i32>,
    last_error: Option<String>,
    created_at: DateTime<Utc>,
    attempted_at: Option<DateTime<Utc>>,
}

impl TryFrom<DeliveryRow> for Delivery {
    type Error = StoreError;

    fn try_from(row: DeliveryRow) -> Result<Self, StoreError> {
        let id = DeliveryId::from(row.delivery_id);
        let at = At { table: "webhook_delivery", id: &id };
        Ok(Self {
            id,
            webhook_id: WebhookId::from(row.webhook_id),
            run_id: RunId::from(row.run_id),
            event_seq: row.event_seq,
            event: at.label("event", &row.event)?,
            state: at.label("state", &row.state)?,
            n_attempts: row.n_attempts,
            due_at: row.due_at,
            last_status: row.last_status.map(|n| at.count("last_status", n)).transpose()?,
            last_error: at.label_opt("last_error", row.last_error.as_deref())?,
            created_at: row.created_at,
            attempted_at: row.attempted_at,
        })
    }
}

/// The place of a delivery in a list: when its event was recorded, and its id.
pub type DeliveryKey = (DateTime<Utc>, DeliveryId);

/// An endpoint's deliveries, newest first; only those in some state, if one is given.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    (webhook, state): (WebhookId, Option<DeliveryState>),
    page: &PageRequest<DeliveryKey>,
) -> Result<Page<Delivery, DeliveryKey>, StoreError> {
    let after = page.after.as_ref();
    let rows = sqlx::query_as!(
        DeliveryRow,
        "SELECT delivery_id, webhook_id, run_id, event_seq, event, state, n_attempts, due_at,
                last_status, last_error, created_at, attempted_at
           FROM webhook_delivery
          WHERE tenant_id = $1
            AND webhook_id = $2
            AND ($3::timestamptz IS NULL OR (created_at, delivery_id) < ($3, $4::uuid))
            AND ($5::text IS NULL OR state = $5)
          ORDER BY created_at DESC, delivery_id DESC
          LIMIT $6",
        tenant.as_str(),
        webhook.uuid(),
        after.map(|key| key.0),
        after.map(|key| key.1.uuid()),
        state.map(DeliveryState::label),
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let deliveries: Result<Vec<Delivery>, _> = rows.into_iter().map(Delivery::try_from).collect();
    Ok(Page::of(deliveries?, page.limit, |delivery| (delivery.created_at, delivery.id)))
}

/// Makes a delivery due at once, as if it had never been tried. One that is just being tried is left
/// alone. `None` when the endpoint has no such delivery.
///
/// # Errors
/// When the database does not take it.
pub async fn redeliver(
    store: &Store,
    tenant: &TenantId,
    (webhook, id): (WebhookId, DeliveryId),
    key: Option<&IdempotencyKey>,
) -> Result<Option<Delivery>, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, key, id.uuid().into()).await?;
    sqlx::query!(
        "UPDATE webhook_delivery
            SET state = 'pending', n_attempts = 0, due_at = now()
          WHERE tenant_id = $1
            AND webhook_id = $2
            AND delivery_id = $3
            AND lease_token IS NULL",
        tenant.as_str(),
        webhook.uuid(),
        id.uuid()
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    let delivery = read(&mut *tx, tenant, (webhook, id)).await?;
    if delivery.is_some() {
        tx.commit().await.map_err(StoreError::of_write)?;
    }
    Ok(delivery)
}

/// A delivery; `None` when there is none of the id.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    (webhook, id): (WebhookId, DeliveryId),
) -> Result<Option<Delivery>, StoreError> {
    read(store.api(), tenant, (webhook, id)).await
}

async fn read(
    executor: impl PgExecutor<'_>,
    tenant: &TenantId,
    (webhook, id): (WebhookId, DeliveryId),
) -> Result<Option<Delivery>, StoreError> {
    sqlx::query_as!(
        DeliveryRow,
        "SELECT delivery_id, webhook_id, run_id, event_seq, event, state, n_attempts, due_at,
                last_status, last_error, created_at, attempted_at
           FROM webhook_delivery
          WHERE tenant_id = $1
            AND webhook_id = $2
            AND delivery_id = $3",
        tenant.as_str(),
        webhook.uuid(),
        id.uuid()
    )
    .fetch_optional(executor)
    .await
    .map_err(StoreError::of_read)?
    .map(Delivery::try_from)
    .transpose()
}
