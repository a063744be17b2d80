//! What calls of models took, added up. The rows are written with the records of the calls.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::idempotency::interval;
use super::rows::At;
use super::{Store, StoreError};
use crate::domain::id::{AgentId, KeyId, TenantId};
use crate::domain::model::Usage;
use crate::domain::money::Money;
use crate::domain::usage::{UsageGroup, UsageQuery};

/// How many rows a portion of the sweep takes.
const PORTION: i64 = 1_000;

/// Calls that are told together, and what they took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// When the hour or the day began, if they are told apart by it.
    pub since: Option<DateTime<Utc>>,
    /// Who was asked, if they are told apart by it.
    pub provider: Option<String>,
    /// The model, if they are told apart by it.
    pub model: Option<String>,
    /// The agent, if they are told apart by it and had a stored one.
    pub agent: Option<AgentId>,
    /// The key, if they are told apart by it and had one.
    pub key: Option<KeyId>,
    /// How many calls.
    pub n_calls: u64,
    /// How many of them had no known price.
    pub n_unpriced: u64,
    /// Their tokens.
    pub usage: Usage,
    /// What they cost, as far as their prices were known.
    pub cost: Money,
}

/// What calls took, in the order of the groups; `None` where there are more groups than `most`.
///
/// # Errors
/// When the database does not answer.
pub async fn find(
    store: &Store,
    tenant: &TenantId,
    query: &UsageQuery,
    most: usize,
) -> Result<Option<Vec<Used>>, StoreError> {
    let by = |group| query.groups.has(group);
    let bucket = [UsageGroup::Hour, UsageGroup::Day].into_iter().find(|group| by(*group));
    let limit = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
    // Sums are kept within what a client can read as a whole number.
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT CASE WHEN $4::text IS NOT NULL THEN date_trunc($4, sent_at, 'UTC') END AS since,
                  CASE WHEN $5 THEN provider END AS provider,
                  CASE WHEN $6 THEN model END AS model,
                  CASE WHEN $7 THEN agent_id END AS agent_id,
                  CASE WHEN $8 THEN key_id END AS key_id,
                  count(*) AS "n_calls!",
                  count(*) FILTER (WHERE cost IS NULL) AS "n_unpriced!",
                  least(sum(input), 9223372036854775807)::bigint AS "input!",
                  least(sum(output), 9223372036854775807)::bigint AS "output!",
                  least(sum(cache_read), 9223372036854775807)::bigint AS "cache_read!",
                  least(sum(cache_write), 9223372036854775807)::bigint AS "cache_write!",
                  least(sum(reasoning), 9223372036854775807)::bigint AS "reasoning!",
                  least(coalesce(sum(cost), 0), 9223372036854775807)::bigint AS "cost!"
             FROM model_usage
            WHERE tenant_id = $1
              AND sent_at >= $2
              AND sent_at < $3
            GROUP BY 1, 2, 3, 4, 5
            ORDER BY 1, 2, 3, 4, 5
            LIMIT $9"#,
        tenant.as_str(),
        // Nothing was before that, and callers may name times that the database does not have.
        query.from.max(DateTime::UNIX_EPOCH),
        query.to.max(DateTime::UNIX_EPOCH),
        bucket.map(UsageGroup::label),
        by(UsageGroup::Provider),
        by(UsageGroup::Model),
        by(UsageGroup::Agent),
        by(UsageGroup::Key),
        limit
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    if rows.len() > most {
        return Ok(None);
    }
    rows.into_iter().map(Used::try_from).collect::<Result<_, _>>().map(Some)
}

/// Forgets calls that were sent long ago, at most 1,000; how many.
///
/// # Errors
/// When the database does not take it.
pub async fn forget(store: &Store, age: Duration) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM model_usage
          WHERE (tenant_id, request_id) IN (
                SELECT tenant_id, request_id
                  FROM model_usage
                 WHERE sent_at < now() - $1::interval
                 ORDER BY sent_at
                 LIMIT $2)",
        interval(age),
        PORTION
    )
    .execute(store.system().worker())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected())
}

struct Row {
    since: Option<DateTime<Utc>>,
    provider: Option<String>,
    model: Option<String>,
    agent_id: Option<uuid::Uuid>,
    key_id: Option<uuid::Uuid>,
    n_calls: i64,
    n_unpriced: i64,
    input: i64,
    output: i64,
    cache_read: i64,
    cache_write: i64,
    reasoning: i64,
    cost: i64,
}

impl TryFrom<Row> for Used {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let at = At { table: "model_usage", id: &"a sum" };
        Ok(Self {
            since: row.since,
            provider: row.provider,
            model: row.model,
            agent: row.agent_id.map(AgentId::from),
            key: row.key_id.map(KeyId::from),
            n_calls: at.count("count", row.n_calls)?,
            n_unpriced: at.count("count", row.n_unpriced)?,
            usage: Usage {
                input: at.count("input", row.input)?,
                output: at.count("output", row.output)?,
                cache_read: at.count("cache_read", row.cache_read)?,
                cache_write: at.count("cache_write", row.cache_write)?,
                reasoning: at.count("reasoning", row.reasoning)?,
            },
            cost: Money::of_micros(at.count("cost", row.cost)?),
        })
    }
}
