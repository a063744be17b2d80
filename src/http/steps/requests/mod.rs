//! `/v1/steps/{step_id}/requests`: what was sent to a model for a step.

pub(super) mod body;
pub(super) mod list;
pub(super) mod response;
pub(super) mod spans;

use crate::domain::id::{StepId, TenantId};
use crate::domain::ledger::LedgerEntry;
use crate::http::AppState;
use crate::http::problem::Problem;
use crate::store::{ledger, steps};

/// The requests that were sent for a step, in order.
async fn of_step(
    app: &AppState,
    tenant: &TenantId,
    id: StepId,
) -> Result<Vec<LedgerEntry>, Problem> {
    let step = steps::get(&app.store, tenant, id).await?.ok_or_else(Problem::not_found)?;
    Ok(ledger::of_step(&app.store, tenant, &step).await?)
}

/// The n-th of them, from 1.
async fn nth(
    app: &AppState,
    tenant: &TenantId,
    id: StepId,
    n: usize,
) -> Result<LedgerEntry, Problem> {
    let mut requests = of_step(app, tenant, id).await?.into_iter();
    n.checked_sub(1).and_then(|n| requests.nth(n)).ok_or_else(Problem::not_found)
}
