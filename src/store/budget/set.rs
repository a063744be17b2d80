//! Budgets are set and taken away.

use sqlx::PgConnection;

use crate::domain::budget::{Budget, BudgetOwner, BudgetPeriod};
use crate::domain::id::{RunId, TenantId};
use crate::store::rows::{At, to_json};
use crate::store::{Store, StoreError, patience};

/// The bounds that a budget is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBudget {
    /// How long what was used counts.
    pub period: BudgetPeriod,
    /// How much there is; what is absent is not bounded.
    pub bounds: Budget,
}

/// Sets a budget: what was used and is set aside stays counted. Answers whether its owner exists.
///
/// # Errors
/// [`crate::store::Conflict::BudgetInUse`] when calls under way have more set aside than there would be.
pub async fn set(
    store: &Store,
    tenant: &TenantId,
    owner: BudgetOwner,
    new: &NewBudget,
) -> Result<bool, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    if !exists(&mut tx, tenant, owner).await? {
        return Ok(false);
    }
    if let BudgetOwner::Run(run) = owner {
        let budget = Some(&new.bounds).filter(|bounds| !bounds.is_empty());
        note(&mut tx, tenant, run, budget).await?;
    }
    lock(&mut tx, tenant, owner).await?;
    write(&mut tx, tenant, owner, new).await?;
    tx.commit().await.map_err(StoreError::of_write)?;
    patience::again(|| mark(store, tenant, owner)).await?;
    Ok(true)
}

/// Whether there is such an owner. The row of a run or a thread is locked before its budget is.
async fn exists(
    tx: &mut PgConnection,
    tenant: &TenantId,
    owner: BudgetOwner,
) -> Result<bool, StoreError> {
    let found = match owner {
        BudgetOwner::Tenant => return Ok(true),
        BudgetOwner::Key(_) => {
            sqlx::query_scalar!(
                r#"SELECT true AS "found!" FROM api_key WHERE tenant_id = $1 AND key_id = $2"#,
                tenant.as_str(),
                owner.uuid()
            )
            .fetch_optional(tx)
            .await
        }
        BudgetOwner::Agent(_) => {
            sqlx::query_scalar!(
                r#"SELECT true AS "found!" FROM agent WHERE tenant_id = $1 AND agent_id = $2"#,
                tenant.as_str(),
                owner.uuid()
            )
            .fetch_optional(tx)
            .await
        }
        BudgetOwner::Thread(_) => {
            sqlx::query_scalar!(
                r#"SELECT true AS "found!" FROM thread WHERE tenant_id = $1 AND thread_id = $2
                  FOR KEY SHARE"#,
                tenant.as_str(),
                owner.uuid()
            )
            .fetch_optional(tx)
            .await
        }
        BudgetOwner::Run(_) => sqlx::query_scalar!(
            r#"SELECT true AS "found!" FROM run WHERE tenant_id = $1 AND run_id = $2 FOR UPDATE"#,
            tenant.as_str(),
            owner.uuid()
        )
        .fetch_optional(tx)
        .await,
    };
    Ok(found.map_err(StoreError::of_read)?.is_some())
}

/// Locks the counters of a budget in the order in which appends do.
async fn lock(
    tx: &mut PgConnection,
    tenant: &TenantId,
    owner: BudgetOwner,
) -> Result<(), StoreError> {
    sqlx::query!(
        "SELECT FROM budget
          WHERE tenant_id = $1
            AND scope = $2
            AND owner_id = $3
          ORDER BY resource
            FOR UPDATE",
        tenant.as_str(),
        owner.scope().label(),
        owner.uuid()
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_read)?;
    Ok(())
}

/// Notes a run's own bounds with the run.
async fn note(
    tx: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
    budget: Option<&Budget>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE run SET budget = ($3::text)::json WHERE tenant_id = $1 AND run_id = $2",
        tenant.as_str(),
        run.uuid(),
        budget.map(to_json).transpose()?
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Writes the counters of a budget. What was used beyond a bound that is raised counts again as used.
pub(in crate::store) async fn write(
    tx: &mut PgConnection,
    tenant: &TenantId,
    owner: BudgetOwner,
    new: &NewBudget,
) -> Result<(), StoreError> {
    let (resources, bounds): (Vec<_>, Vec<_>) = new.bounds.bounds().into_iter().unzip();
    let resources: Vec<String> = resources.iter().map(ToString::to_string).collect();
    let at = At { table: "budget", id: &owner.uuid() };
    let bounds: Result<Vec<i64>, _> =
        bounds.into_iter().map(|bound| at.count("bound", bound)).collect();
    sqlx::query!(
        "WITH gone AS (
             DELETE FROM budget
              WHERE tenant_id = $1
                AND scope = $2
                AND owner_id = $3
                AND resource <> ALL($5)
         )
         INSERT INTO budget AS b (tenant_id, scope, owner_id, period, period_ends_at, resource, bound)
         SELECT $1, $2, $3, $4,
                CASE WHEN $4 <> 'total' THEN
                    (date_trunc($4, now() AT TIME ZONE 'UTC') + ('1 ' || $4)::interval)
                    AT TIME ZONE 'UTC' END,
                n.resource, n.bound
           FROM unnest($5::text[], $6::bigint[]) AS n(resource, bound)
          ORDER BY n.resource
             ON CONFLICT (tenant_id, scope, owner_id, resource) DO UPDATE
            SET bound = excluded.bound,
                period = excluded.period,
                period_ends_at = excluded.period_ends_at,
                used = least(
                    CASE WHEN b.period_ends_at <= now() THEN 0 ELSE b.used + b.overrun END,
                    excluded.bound - b.reserved),
                overrun = greatest(0,
                    CASE WHEN b.period_ends_at <= now() THEN 0 ELSE b.used + b.overrun END
                        - excluded.bound + b.reserved)",
        tenant.as_str(),
        owner.scope().label(),
        owner.uuid(),
        new.period.label(),
        &resources,
        &bounds?
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Lets the runs under way know that they draw on a budget. Their workers learn it with their next
/// append. Runs that are claimed later find out then, so that none escapes that was being accepted; those
/// that wait for a worker are named only because one may be claiming them at this moment.
async fn mark(store: &Store, tenant: &TenantId, owner: BudgetOwner) -> Result<(), StoreError> {
    sqlx::query!(
        "WITH drawing AS (
             SELECT tenant_id, run_id
               FROM run
              WHERE tenant_id = $1
                AND status IN ('queued', 'running', 'requires_action')
                AND NOT budgeted
                AND CASE $2 WHEN 'tenant' THEN true
                            WHEN 'key' THEN key_id = $3
                            WHEN 'agent' THEN agent_id = $3 OR $3 = ANY (ancestor_owners)
                            WHEN 'thread' THEN thread_id = $3 OR $3 = ANY (ancestor_owners)
                            ELSE run_id = $3 OR $3 = ANY (ancestors) END
              -- Parents before their sub-runs, as everywhere.
              ORDER BY cardinality(ancestors), run_id
                FOR UPDATE
         )
         UPDATE run r
            SET budgeted = true
           FROM drawing d
          WHERE r.tenant_id = d.tenant_id
            AND r.run_id = d.run_id",
        tenant.as_str(),
        owner.scope().label(),
        owner.uuid()
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Takes a budget away. Answers whether there was one.
///
/// # Errors
/// When the database does not take it.
pub async fn remove(
    store: &Store,
    tenant: &TenantId,
    owner: BudgetOwner,
) -> Result<bool, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    if !exists(&mut tx, tenant, owner).await? {
        return Ok(false);
    }
    if let BudgetOwner::Run(run) = owner {
        note(&mut tx, tenant, run, None).await?;
    }
    lock(&mut tx, tenant, owner).await?;
    let done = sqlx::query!(
        "DELETE FROM budget WHERE tenant_id = $1 AND scope = $2 AND owner_id = $3",
        tenant.as_str(),
        owner.scope().label(),
        owner.uuid()
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(done.rows_affected() > 0)
}
