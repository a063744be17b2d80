//! Budgets: set, read and taken back, and the runs that wait for room in one. What a run draws on them
//! is written by the guarded append.

mod draw;
mod set;
mod share;

pub use draw::{Draw, Draws, Shortage, shortages, wake};
pub use set::{NewBudget, remove, set};

pub(super) use set::write;
pub(super) use share::{Sharing, holds, shared};

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::rows::At;
use super::{Store, StoreError};
use crate::domain::budget::{BudgetOwner, BudgetPeriod, BudgetScope, Resource};
use crate::domain::event::EventData;
use crate::domain::id::{RunId, TenantId};

/// How far a budget is used, for one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Whose budget it is.
    pub owner: BudgetOwner,
    /// What is counted.
    pub resource: Resource,
    /// How long what was used counts.
    pub period: BudgetPeriod,
    /// When counting begins anew.
    pub period_ends_at: Option<DateTime<Utc>>,
    /// How much there is.
    pub bound: u64,
    /// How much was used, as far as the bound.
    pub used: u64,
    /// How much is set aside for calls under way.
    pub reserved: u64,
    /// How much was used beyond the bound.
    pub overrun: u64,
}

struct CounterRow {
    scope: String,
    owner_id: Uuid,
    resource: String,
    period: String,
    period_ends_at: Option<DateTime<Utc>>,
    bound: i64,
    used: i64,
    reserved: i64,
    overrun: i64,
}

impl TryFrom<CounterRow> for Counter {
    type Error = StoreError;

    fn try_from(row: CounterRow) -> Result<Self, StoreError> {
        let at = At { table: "budget", id: &row.owner_id };
        Ok(Self {
            owner: BudgetOwner::stored(at.label("scope", &row.scope)?, row.owner_id),
            resource: at.label("resource", &row.resource)?,
            period: at.label("period", &row.period)?,
            period_ends_at: row.period_ends_at,
            bound: at.count("bound", row.bound)?,
            used: at.count("used", row.used)?,
            reserved: at.count("reserved", row.reserved)?,
            overrun: at.count("overrun", row.overrun)?,
        })
    }
}

/// Reads a budget: one counter a resource, none when there is no such budget. What a period that is over
/// has left is not counted any more.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    owner: BudgetOwner,
) -> Result<Vec<Counter>, StoreError> {
    let rows = sqlx::query_as!(
        CounterRow,
        r#"SELECT scope, owner_id, resource, period, period_ends_at, bound, reserved,
                  CASE WHEN period_ends_at <= now() THEN 0 ELSE used END AS "used!",
                  CASE WHEN period_ends_at <= now() THEN 0 ELSE overrun END AS "overrun!"
             FROM budget
            WHERE tenant_id = $1
              AND scope = $2
              AND owner_id = $3
            ORDER BY resource"#,
        tenant.as_str(),
        owner.scope().label(),
        owner.uuid()
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    rows.into_iter().map(Counter::try_from).collect()
}

/// The counters that a run draws on of which four fifths are used.
///
/// # Errors
/// When the database does not answer.
pub async fn nearly_used(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
) -> Result<Vec<Counter>, StoreError> {
    let rows = sqlx::query_as!(
        CounterRow,
        "SELECT b.scope, b.owner_id, b.resource, b.period, b.period_ends_at, b.bound, b.used,
                b.reserved, b.overrun
           FROM budget_draw d
           JOIN budget b
             ON b.tenant_id = d.tenant_id
            AND b.scope = d.scope
            AND b.owner_id = d.owner_id
            AND b.resource = d.resource
          WHERE d.tenant_id = $1
            AND d.run_id = $2
            AND b.bound > 0
            AND (b.used + b.overrun)::numeric * 5 >= b.bound::numeric * 4
          ORDER BY b.scope, b.owner_id, b.resource",
        tenant.as_str(),
        run.uuid()
    )
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    rows.into_iter().map(Counter::try_from).collect()
}

/// The counters of which a run has told that they are nearly used.
///
/// # Errors
/// When the database does not answer.
pub async fn warned(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
) -> Result<BTreeSet<(BudgetScope, Resource)>, StoreError> {
    let rows = sqlx::query_scalar!(
        r#"SELECT data::text AS "data!"
             FROM run_event
            WHERE tenant_id = $1
              AND run_id = $2
              AND name = 'budget.warning'"#,
        tenant.as_str(),
        run.uuid()
    )
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "run_event", id: &run };
    let mut told = BTreeSet::new();
    for row in rows {
        if let EventData::Budget(warning) = at.json("data", &row)? {
            told.insert((warning.scope, warning.what));
        }
    }
    Ok(told)
}
