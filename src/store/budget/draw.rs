//! What a run asks of its budgets, and what becomes of it where there is no room.

use serde::Serialize;
use uuid::Uuid;

use crate::domain::budget::{BudgetScope, Resource};
use crate::domain::id::{RunId, TenantId};
use crate::store::rows::{At, to_json};
use crate::store::{Store, StoreError};

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
            CROSS JOIN LATERAL (
                  VALUES ('tenant', '00000000-0000-0000-0000-000000000000'::uuid),
                         ('key', r.key_id), ('agent', r.agent_id),
                         ('thread', r.thread_id), ('run', r.run_id)
                   UNION
                  SELECT 'run', unnest(r.ancestors)
                   UNION
                  SELECT scope, unnest(r.ancestor_owners)
                    FROM unnest(ARRAY['agent', 'thread']) AS above(scope)) AS o(scope, owner_id)
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

/// Queues runs again that wait for room where there is some: the ones that have waited longest, and no
/// more of them than there is room for. Answers how many.
///
/// # Errors
/// When the database does not take it.
pub async fn wake(store: &Store) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "WITH wait AS (
             SELECT w.tenant_id, w.run_id, w.scope, w.owner_id, w.resource, w.needs, w.since,
                    b.bound IS NULL AS is_gone, b.bound - u.used AS most,
                    b.bound - u.used - b.reserved AS room
               FROM budget_wait w
               LEFT JOIN budget b
                 ON b.tenant_id = w.tenant_id
                AND b.scope = w.scope
                AND b.owner_id = w.owner_id
                AND b.resource = w.resource
              CROSS JOIN LATERAL (VALUES (
                  CASE WHEN b.period_ends_at <= now() THEN 0 ELSE b.used + b.overrun END)) AS u(used)
         ), able AS (
             -- Who asks for more than there can be, of this budget or of another one, holds up nobody
             -- behind them; who only has to wait until others are done is not passed by.
             SELECT w.*,
                    bool_and(w.is_gone OR w.needs <= w.most)
                        OVER (PARTITION BY w.tenant_id, w.run_id) AS is_able
               FROM wait w
         ), ahead AS (
             SELECT a.*,
                    sum(a.needs) FILTER (WHERE a.is_able)
                        OVER (PARTITION BY a.tenant_id, a.scope, a.owner_id, a.resource
                                  ORDER BY a.since, a.run_id) AS wanted
               FROM able a
         ), fitting AS (
             SELECT a.tenant_id, a.run_id
               FROM ahead a
              GROUP BY a.tenant_id, a.run_id
             HAVING bool_and(a.is_gone OR (a.needs <= a.room AND a.wanted <= a.room))
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
    .execute(store.system().critical())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected())
}
