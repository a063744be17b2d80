//! Usage as callers see it.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::model::Usage;
use crate::domain::money::Money;
use crate::domain::usage::UsageQuery;
use crate::http::time::Time;
use crate::store::usage::Used;

/// What calls of models took.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = UsageReport)]
pub(super) struct UsageView {
    /// Calls that were sent at this moment or later count.
    from: Time,
    /// Calls that were sent before this moment count.
    to: Time,
    /// A row for each group that has calls, in order; one of all calls where nothing is told apart.
    #[schema(max_items = 10_000)]
    items: Vec<UsageRowView>,
}

/// Calls that are told together. What they are not told apart by is absent.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = UsageRow)]
struct UsageRowView {
    /// When the hour or the day began.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
    /// Who was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    /// The model, as its agent names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The agent; absent of calls for inline agents, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    /// The key; absent of runs that no key started, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    /// How many calls there were whose usage is known.
    model_calls: u64,
    /// How many of them had no known price.
    unpriced_calls: u64,
    /// Their tokens.
    usage: Usage,
    /// What they cost, as far as their prices were known when they were made.
    cost: Money,
}

impl UsageView {
    pub(super) fn of(query: &UsageQuery, mut used: Vec<Used>) -> Self {
        if query.groups.is_empty() && used.is_empty() {
            used.push(Used::default());
        }
        let items = used.into_iter().map(UsageRowView::from).collect();
        Self { from: query.from.into(), to: query.to.into(), items }
    }
}

impl From<Used> for UsageRowView {
    fn from(used: Used) -> Self {
        Self {
            since: used.since.map(<Time as From<DateTime<Utc>>>::from),
            provider: used.provider,
            model: used.model,
            agent_id: used.agent.map(|id| id.to_string()),
            key_id: used.key.map(|id| id.to_string()),
            model_calls: used.n_calls,
            unpriced_calls: used.n_unpriced,
            usage: used.usage,
            cost: used.cost,
        }
    }
}
