//! The client that a run was started for: whether it is still there.
//!
//! When a client goes away its connection is dropped, and with it whatever answers it, before the first
//! byte as in the middle of a stream. So what is dropped before it was served has lost its client.

use tokio::sync::oneshot;

use crate::domain::id::{RunId, TenantId};
use crate::engine::{Engine, StartRun, Started};
use crate::error::AgentlingError;

/// A client that waits for a run. Dropped before it was served, it is gone, and the engine is told.
#[derive(Debug)]
pub(super) struct Client {
    engine: Engine,
    tenant: TenantId,
    run: RunId,
    is_served: bool,
}

impl Client {
    /// The client has had what it waited for, or it is the server that ends the waiting.
    pub(super) const fn served(&mut self) {
        self.is_served = true;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.is_served {
            self.engine.client_gone(&self.tenant, self.run);
        }
    }
}

/// Starts a run for a client that waits for it. A client that goes away while the run is being accepted
/// is not missed: that goes on without it.
///
/// # Errors
/// When the run cannot be accepted.
pub(super) async fn start(
    engine: &Engine,
    tenant: &TenantId,
    start: StartRun,
) -> Result<(Started, Client), AgentlingError> {
    let (engine, tenant) = (engine.clone(), tenant.clone());
    let (sender, receiver) = oneshot::channel();
    engine.tasks().clone().spawn(async move {
        let started = engine.start(&tenant, start).await;
        let started = started.map(|started| {
            let client = Client { engine, tenant, run: started.run.id, is_served: false };
            (started, client)
        });
        // Nobody may be there to receive it: then the client is dropped here.
        drop(sender.send(started));
    });
    let ended = |_| AgentlingError::internal("accepting a run did not come to an end");
    receiver.await.map_err(ended)?
}
