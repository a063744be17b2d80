//! What becomes of a run whose client has gone away.

use std::sync::Arc;
use std::time::Duration;

use super::{Context, steer};
use crate::domain::id::{RunId, TenantId};
use crate::domain::run::OnDisconnect;
use crate::error::AgentlingError;
use crate::store::runs;

/// How long it waits before it is tried again to cancel a run while the database is away.
const PAUSE: Duration = Duration::from_secs(1);

/// Does with a run what it was started to do when its client goes away.
pub(super) fn gone(context: &Arc<Context>, tenant: &TenantId, run: RunId) {
    // A server that stops hangs up itself.
    if context.tasks.is_stopping() {
        return;
    }
    let (context, tenant) = (Arc::clone(context), tenant.clone());
    context.tasks.clone().spawn(async move {
        while settle(&context, &tenant, run).await.is_err_and(|error| is_worth_a_try(&error)) {
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = context.tasks.stopping() => return,
            }
        }
    });
}

/// Whether the run is still to be cancelled after this.
fn is_worth_a_try(error: &AgentlingError) -> bool {
    let is_passing = matches!(error, AgentlingError::Store(error) if error.is_passing());
    if is_passing {
        tracing::warn!(%error, "the run of a client that is gone waits to be cancelled");
    }
    is_passing
}

/// Cancels a run where that is its policy. One that has ended, or is not there, needs nothing.
async fn settle(context: &Context, tenant: &TenantId, run: RunId) -> Result<(), AgentlingError> {
    match runs::on_disconnect(context.store(), tenant, run).await? {
        None | Some(OnDisconnect::Continue) => return Ok(()),
        Some(OnDisconnect::Cancel) => {}
    }
    match steer::cancel(context, tenant, run).await {
        Ok(_)
        | Err(AgentlingError::RunAlreadyTerminal { .. } | AgentlingError::NotFound { .. }) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}
