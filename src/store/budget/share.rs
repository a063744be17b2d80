//! What a run finds of the budgets that it shares.

use sqlx::PgConnection;

use crate::domain::id::{AgentId, KeyId, RunId, TenantId, ThreadId};
use crate::store::StoreError;

/// Whose shared budgets a run draws on.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Sharing {
    pub(in crate::store) key: Option<KeyId>,
    pub(in crate::store) agent: Option<AgentId>,
    pub(in crate::store) thread: ThreadId,
}

/// What a new run finds of the budgets that it shares.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::store) struct Shared {
    /// Whether there are any.
    pub(in crate::store) any: bool,
    /// Whether one of them counts money.
    pub(in crate::store) counts_cost: bool,
    /// Whether one of them has nothing left for a call of a model.
    pub(in crate::store) is_used_up: bool,
}

/// Looks at the budgets that a new run shares.
pub(in crate::store) async fn shared(
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
pub(in crate::store) async fn holds(
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
