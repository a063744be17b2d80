//! Budgets: set, read and taken back, and the runs that wait for room in one. What a run draws on them
//! is written by the guarded append.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows::{At, to_json};
use super::{Store, StoreError};
use crate::domain::budget::{Budget, BudgetOwner, BudgetPeriod, BudgetScope, Resource};
use crate::domain::event::EventData;
use crate::domain::id::{AgentId, KeyId, RunId, TenantId, ThreadId};

/// What a run does to the budgets that it draws on, for one resource. Those that do not count the
/// resource are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Draw {
    /// What is counted.
    pub resource: Resource,
    /// How much is set aside after it; as much as before where nothing is said.
    pub target: Option<u64>,
    /// How much was used; all that was set aside where nothing is said.
    pub spend: Option<u64>,
    /// Whether it asks for more, which has to fit; otherwise it only puts down what was used.
    pub strict: bool,
}

/// A budget without room for what a run asks of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Shortage {
    /// What it is a budget of.
    pub scope: BudgetScope,
    /// Whose.
    pub owner_id: Uuid,
    /// What is counted.
    pub resource: Resource,
    /// How much there has to be.
    pub needs: u64,
}

/// What an append has to do with budgets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draws {
    /// Whether the writer knows that the run draws on budgets.
    pub is_budgeted: bool,
    /// What it does to them, once a resource.
    pub draws: Vec<Draw>,
    /// What the run waits for from now on.
    pub waits: Vec<Shortage>,
}

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

/// The budgets that have no room for what a run asks of them.
///
/// # Errors
/// When the database does not answer.
pub async fn shortages(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
    draws: &[Draw],
) -> Result<Vec<Shortage>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT b.scope, b.owner_id, b.resource,
                  coalesce(a.target, 0) + CASE WHEN a.resource = 'turns' THEN a.spend ELSE 0 END
                      AS "needs!"
             FROM run r
            CROSS JOIN json_to_recordset(($3::text)::json)
                           AS a(resource text, target bigint, spend bigint, strict boolean)
            CROSS JOIN LATERAL (VALUES ('tenant', '00000000-0000-0000-0000-000000000000'::uuid),
                                       ('key', r.key_id), ('agent', r.agent_id),
                                       ('thread', r.thread_id), ('run', r.run_id))
                           AS o(scope, owner_id)
             JOIN budget b
               ON b.tenant_id = r.tenant_id
              AND b.scope = o.scope
              AND b.owner_id = o.owner_id
              AND b.resource = a.resource
             LEFT JOIN budget_draw h
               ON h.tenant_id = b.tenant_id
              AND h.run_id = r.run_id
              AND h.scope = b.scope
              AND h.owner_id = b.owner_id
              AND h.resource = b.resource
            WHERE r.tenant_id = $1
              AND r.run_id = $2
              AND a.strict
              AND CASE WHEN b.period_ends_at <= now() THEN 0 ELSE b.used + b.overrun END
                      + coalesce(a.spend, h.reserved, 0) + b.reserved - coalesce(h.reserved, 0)
                      + coalesce(a.target, h.reserved, 0) > b.bound"#,
        tenant.as_str(),
        run.uuid(),
        to_json(&draws)?
    )
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    let read = |row: (String, Uuid, String, i64)| {
        let at = At { table: "budget", id: &row.1 };
        Ok(Shortage {
            scope: at.label("scope", &row.0)?,
            owner_id: row.1,
            resource: at.label("resource", &row.2)?,
            needs: at.count("needs", row.3)?,
        })
    };
    rows.into_iter().map(|row| read((row.scope, row.owner_id, row.resource, row.needs))).collect()
}

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
/// [`super::Conflict::BudgetInUse`] when calls under way have more set aside than there would be.
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
    mark(store, tenant, owner).await?;
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
        BudgetOwner::Key(_) => sqlx::query_scalar!(
            r#"SELECT true AS "found!" FROM api_key WHERE tenant_id = $1 AND key_id = $2"#,
            tenant.as_str(),
            owner.uuid()
        )
        .fetch_optional(tx)
        .await,
        BudgetOwner::Agent(_) => sqlx::query_scalar!(
            r#"SELECT true AS "found!" FROM agent WHERE tenant_id = $1 AND agent_id = $2"#,
            tenant.as_str(),
            owner.uuid()
        )
        .fetch_optional(tx)
        .await,
        BudgetOwner::Thread(_) => sqlx::query_scalar!(
            r#"SELECT true AS "found!" FROM thread WHERE tenant_id = $1 AND thread_id = $2
                  FOR KEY SHARE"#,
            tenant.as_str(),
            owner.uuid()
        )
        .fetch_optional(tx)
        .await,
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
pub(super) async fn write(
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
/// append.
async fn mark(store: &Store, tenant: &TenantId, owner: BudgetOwner) -> Result<(), StoreError> {
    sqlx::query!(
        "WITH drawing AS (
             SELECT tenant_id, run_id
               FROM run
              WHERE tenant_id = $1
                AND status IN ('queued', 'running', 'requires_action', 'interrupted')
                AND NOT budgeted
                AND CASE $2 WHEN 'tenant' THEN true
                            WHEN 'key' THEN key_id = $3
                            WHEN 'agent' THEN agent_id = $3
                            WHEN 'thread' THEN thread_id = $3
                            ELSE run_id = $3 END
              ORDER BY run_id
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

/// Queues runs again that wait for room where there is some: the ones that have waited longest, and no
/// more of them than there is room for. Answers how many.
///
/// # Errors
/// When the database does not take it.
pub async fn wake(store: &Store) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "WITH ahead AS (
             SELECT w.tenant_id, w.run_id, w.scope, w.owner_id, w.resource,
                    sum(w.needs) OVER (PARTITION BY w.tenant_id, w.scope, w.owner_id, w.resource
                                           ORDER BY w.since, w.run_id) AS needs
               FROM budget_wait w
         ), fitting AS (
             SELECT a.tenant_id, a.run_id
               FROM ahead a
               LEFT JOIN budget b
                 ON b.tenant_id = a.tenant_id
                AND b.scope = a.scope
                AND b.owner_id = a.owner_id
                AND b.resource = a.resource
              GROUP BY a.tenant_id, a.run_id
             HAVING bool_and(b.bound IS NULL OR a.needs <= b.bound - b.reserved
                 - CASE WHEN b.period_ends_at <= now() THEN 0 ELSE b.used + b.overrun END)
         ), locked AS (
             SELECT r.tenant_id, r.run_id
               FROM run r
               JOIN fitting f
                 ON f.tenant_id = r.tenant_id
                AND f.run_id = r.run_id
              WHERE r.status = 'requires_action'
              ORDER BY r.tenant_id, r.run_id
              LIMIT 100
                FOR UPDATE OF r SKIP LOCKED
         ), woken AS (
             UPDATE run r
                SET status = 'queued', available_at = now(), wake_at = NULL
               FROM locked l
              WHERE r.tenant_id = l.tenant_id
                AND r.run_id = l.run_id
         )
         DELETE FROM budget_wait w
          USING locked l
          WHERE w.tenant_id = l.tenant_id
            AND w.run_id = l.run_id"
    )
    .execute(store.critical())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected())
}

/// Whose shared budgets a run draws on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sharing {
    pub(super) key: Option<KeyId>,
    pub(super) agent: Option<AgentId>,
    pub(super) thread: ThreadId,
}

/// What a new run finds of the budgets that it shares.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shared {
    /// Whether there are any.
    pub(super) any: bool,
    /// Whether one of them counts money.
    pub(super) counts_cost: bool,
    /// Whether one of them has nothing left for a call of a model.
    pub(super) is_used_up: bool,
}

/// Looks at the budgets that a new run shares.
pub(super) async fn shared(
    tx: &mut PgConnection,
    tenant: &TenantId,
    with: Sharing,
) -> Result<Shared, StoreError> {
    let row = sqlx::query!(
        r#"SELECT count(*) > 0 AS "any!",
                  coalesce(bool_or(resource = 'cost'), false) AS "counts_cost!",
                  coalesce(bool_or(resource <> 'tool_calls'
                      AND CASE WHEN period_ends_at <= now() THEN 0 ELSE used + overrun END >= bound),
                      false) AS "is_used_up!"
             FROM budget
            WHERE tenant_id = $1
              AND (scope = 'tenant'
                   OR (scope = 'key' AND owner_id = $2)
                   OR (scope = 'agent' AND owner_id = $3)
                   OR (scope = 'thread' AND owner_id = $4))"#,
        tenant.as_str(),
        with.key.map(KeyId::uuid),
        with.agent.map(AgentId::uuid),
        with.thread.uuid()
    )
    .fetch_one(tx)
    .await
    .map_err(StoreError::of_read)?;
    Ok(Shared { any: row.any, counts_cost: row.counts_cost, is_used_up: row.is_used_up })
}

/// Whether a run has anything set aside: only a worker knows what became of that.
pub(super) async fn holds(
    tx: &mut PgConnection,
    tenant: &TenantId,
    run: RunId,
) -> Result<bool, StoreError> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
                  SELECT 1
                    FROM budget_draw
                   WHERE tenant_id = $1
                     AND run_id = $2
                     AND reserved > 0) AS "holds!""#,
        tenant.as_str(),
        run.uuid()
    )
    .fetch_one(tx)
    .await
    .map_err(StoreError::of_read)
}
