//! `DELETE /v1/budgets/{scope}/{owner_id}`.

use axum::extract::State;

use super::{OwnerPath, owner};
use crate::domain::budget::BudgetScope;
use crate::engine::budgets_changed;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::budget;

/// Take a budget away
///
/// Runs that wait for room in it go on. What was used of it is forgotten.
#[utoipa::path(delete, path = "/v1/budgets/{scope}/{owner_id}", tag = "budgets",
    operation_id = "budgets_remove",
    params(("scope" = BudgetScope, Path, description = "What it is a budget of"),
        ("owner_id" = String, Path, description = "Whose it is")),
    responses((status = 204, description = "Taken away")))]
pub(super) async fn remove(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    path: OwnerPath,
) -> Result<NoContent, Problem> {
    let owner = owner(&caller, &path)?;
    if !budget::remove(&app.store, &caller.tenant, owner).await? {
        return Err(Problem::not_found());
    }
    budgets_changed(&app.engine).await?;
    Ok(NoContent)
}
