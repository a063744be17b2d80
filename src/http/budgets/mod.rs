//! Budgets: what runs may use up, by tenant, key, agent, thread and run.

mod get;
mod remove;
mod set;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::budget::{BudgetOwner, BudgetScope};
use crate::domain::caller::Caller;
use crate::http::extract::PathPair;
use crate::http::problem::Problem;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(get::get, set::set, remove::remove))
}

/// The owner of a budget as a path names it.
type OwnerPath = PathPair<BudgetScope, String>;

/// Whose budget a path names; an id of another kind or another tenant's name is not there.
fn owner(caller: &Caller, path: &OwnerPath) -> Result<BudgetOwner, Problem> {
    let named = BudgetOwner::named(path.0, &path.1, &caller.tenant);
    named.ok_or_else(Problem::not_found)
}
