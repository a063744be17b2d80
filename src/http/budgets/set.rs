//! `PUT /v1/budgets/{scope}/{owner_id}`.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::BudgetView;
use super::{OwnerPath, owner};
use crate::domain::budget::{Budget, BudgetPeriod, BudgetScope};
use crate::domain::money::Money;
use crate::engine::budgets_changed;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::{Body, Checks};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::budget::{self, NewBudget};

/// The bounds of a budget, at least one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBudget)]
pub(super) struct SetBudget {
    /// Tokens, read and written.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000_000_000_000i64)]
    tokens: Option<u64>,
    /// Money; runs of models without a price are then refused.
    #[serde(default)]
    cost: Option<Money>,
    /// Turns of models.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000_000_000_000i64)]
    turns: Option<u64>,
    /// Calls of tools that were started.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000_000_000_000i64)]
    tool_calls: Option<u64>,
    /// How long what was used counts; of a run it is always `total`.
    #[serde(default = "for_good")]
    #[schema(default = "total")]
    period: BudgetPeriod,
}

const fn for_good() -> BudgetPeriod {
    BudgetPeriod::Total
}

impl SetBudget {
    fn checked(self, scope: BudgetScope) -> Result<NewBudget, AgentlingError> {
        let Self { tokens, cost, turns, tool_calls, period } = self;
        let bounds = Budget { tokens, cost, turns, tool_calls, time_ms: None };
        let mut checks = Checks::new();
        let message = "must bound tokens, cost, turns or tool calls";
        checks.require(!bounds.is_empty(), "", "invalid_value", message);
        let fits = scope != BudgetScope::Run || period == BudgetPeriod::Total;
        checks.require(fits, "/period", "not_applicable", "the budget of a run has no periods");
        checks.finish()?;
        Ok(NewBudget { period, bounds })
    }
}

/// Set a budget
///
/// It replaces the bounds there were: what is used of those that stay stays counted, and a bound that is
/// left out goes with what was used of it. Runs that wait for room in it go on
/// as far as there is some now, and runs under way are held to it from their next turn. A call whose
/// use could not be foreseen may pass a bound: that part is told as `overrun`.
#[utoipa::path(put, path = "/v1/budgets/{scope}/{owner_id}", tag = "budgets",
    operation_id = "budgets_set",
    params(("scope" = BudgetScope, Path, description = "What it is a budget of"),
        ("owner_id" = String, Path, description = "Whose it is")),
    request_body = SetBudget,
    responses((status = 200, description = "The budget", body = BudgetView)),
    extensions(("x-problems" = json!(["in-use"]))))]
pub(super) async fn set(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    path: OwnerPath,
    Body(new): Body<SetBudget>,
) -> Result<Reply<BudgetView>, Problem> {
    let owner = owner(&caller, &path)?;
    let new = new.checked(owner.scope())?;
    if !budget::set(&app.store, &caller.tenant, owner, &new).await? {
        return Err(Problem::not_found());
    }
    budgets_changed(&app.engine).await?;
    let counters = budget::get(&app.store, &caller.tenant, owner).await?;
    let view = BudgetView::of(&caller.tenant, owner, &counters);
    view.map(Reply::ok).ok_or_else(Problem::not_found)
}
