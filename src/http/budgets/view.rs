//! Budgets as callers see them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::budget::{BudgetOwner, BudgetPeriod, BudgetScope, Resource};
use crate::domain::id::TenantId;
use crate::domain::money::Money;
use crate::http::time::Time;
use crate::store::budget::Counter;

/// What runs may use up.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = BudgetState)]
pub(super) struct BudgetView {
    /// What it is a budget of.
    scope: BudgetScope,
    /// Whose.
    id: String,
    /// How long what was used counts.
    period: BudgetPeriod,
    /// When counting begins anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    period_ends_at: Option<Time>,
    /// Tokens, read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<CountView>,
    /// Money.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<CostView>,
    /// Turns of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<CountView>,
    /// Calls of tools that were started.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<CountView>,
}

/// How far a bound is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = BudgetCount)]
struct CountView {
    /// How much there is.
    limit: u64,
    /// How much of it is used.
    used: u64,
    /// How much of it is set aside for calls under way.
    reserved: u64,
    /// How much was used beyond it, because a call took more than could be foreseen.
    overrun: u64,
}

/// How far a bound is used, in money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = BudgetCost)]
struct CostView {
    /// How much there is.
    limit: Money,
    /// How much of it is used.
    used: Money,
    /// How much of it is set aside for calls under way.
    reserved: Money,
    /// How much was used beyond it, because a call took more than could be foreseen.
    overrun: Money,
}

impl From<&Counter> for CountView {
    fn from(counter: &Counter) -> Self {
        let &Counter { bound: limit, used, reserved, overrun, .. } = counter;
        Self { limit, used, reserved, overrun }
    }
}

impl From<&Counter> for CostView {
    fn from(counter: &Counter) -> Self {
        let CountView { limit, used, reserved, overrun } = counter.into();
        let [limit, used, reserved, overrun] =
            [limit, used, reserved, overrun].map(Money::of_micros);
        Self { limit, used, reserved, overrun }
    }
}

impl BudgetView {
    /// The view of a budget's counters; `None` where there are none.
    pub(super) fn of(tenant: &TenantId, owner: BudgetOwner, counters: &[Counter]) -> Option<Self> {
        let first = counters.first()?;
        let find = |resource| counters.iter().find(|counter| counter.resource == resource);
        Some(Self {
            scope: owner.scope(),
            id: owner.id(tenant),
            period: first.period,
            period_ends_at: first.period_ends_at.map(Time::from),
            tokens: find(Resource::Tokens).map(CountView::from),
            cost: find(Resource::Cost).map(CostView::from),
            turns: find(Resource::Turns).map(CountView::from),
            tool_calls: find(Resource::ToolCalls).map(CountView::from),
        })
    }
}
