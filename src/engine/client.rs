//! The client that a run was started by, for as long as it waits for what comes of the run.

use std::sync::Arc;
use std::time::Duration;

use super::{Context, steer};
use crate::domain::id::{RunId, TenantId};
use crate::domain::run::OnDisconnect;
use crate::error::AgentlingError;
use crate::store::runs;

/// How long it waits before it is tried again to cancel a run while the database is away.
const PAUSE: Duration = Duration::from_secs(1);

/// Stands for the connection of a client. Dropped, it says that the client has gone away, unless it was
/// told before that the client got all that it waited for.
#[derive(Debug)]
pub struct ClientHold {
    context: Arc<Context>,
    tenant: TenantId,
    run: RunId,
    is_armed: bool,
}

impl ClientHold {
    pub(super) fn new(
        context: &Arc<Context>,
        tenant: &TenantId,
        run: RunId,
        policy: OnDisconnect,
    ) -> Self {
        let is_armed = policy == OnDisconnect::Cancel;
        Self { context: Arc::clone(context), tenant: tenant.clone(), run, is_armed }
    }

    /// The client was served: that it goes now means nothing.
    pub fn served(mut self) {
        self.is_armed = false;
    }
}

impl Drop for ClientHold {
    fn drop(&mut self) {
        // A server that stops hangs up itself.
        if !self.is_armed || self.context.tasks.is_stopping() {
            return;
        }
        let (context, tenant, run) = (Arc::clone(&self.context), self.tenant.clone(), self.run);
        self.context.tasks.spawn(async move {
            while gone(&context, &tenant, run).await.is_err_and(|error| is_worth_a_try(&error)) {
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    () = context.tasks.stopping() => return,
                }
            }
        });
    }
}

/// Whether the run is still to be cancelled after this.
fn is_worth_a_try(error: &AgentlingError) -> bool {
    let is_passing = matches!(error, AgentlingError::Store(error) if error.is_passing());
    if is_passing {
        tracing::warn!(%error, "the run of a client that is gone waits to be cancelled");
    }
    is_passing
}

/// Does with a run what its policy says for a client that has gone away. One that has ended, or is not
/// there, needs nothing.
pub(super) async fn gone(
    context: &Context,
    tenant: &TenantId,
    run: RunId,
) -> Result<(), AgentlingError> {
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
