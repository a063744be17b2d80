//! `GET /v1/budgets/{scope}/{owner_id}`.

use axum::extract::State;

use super::view::BudgetView;
use super::{OwnerPath, owner};
use crate::domain::budget::BudgetScope;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::budget;

/// Get a budget
///
/// What it bounds, what is used of it, and what is set aside for calls under way. The id is that of the
/// tenant, the key, the agent, the thread or the run.
#[utoipa::path(get, path = "/v1/budgets/{scope}/{owner_id}", tag = "budgets",
    operation_id = "budgets_get",
    params(("scope" = BudgetScope, Path, description = "What it is a budget of"),
        ("owner_id" = String, Path, description = "Whose it is")),
    responses((status = 200, description = "The budget", body = BudgetView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    path: OwnerPath,
) -> Result<Reply<BudgetView>, Problem> {
    let owner = owner(&caller, &path)?;
    let counters = budget::get(&app.store, &caller.tenant, owner).await?;
    let view = BudgetView::of(&caller.tenant, owner, &counters);
    view.map(Reply::ok).ok_or_else(Problem::not_found)
}
