//! The only place that spawns: every task is tracked, so that shutdown can wait for all of them.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::store::scope;

/// The background tasks of a server.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    abort: CancellationToken,
}

impl Tasks {
    /// Starts a task, which is for the same tenant as what starts it. It should end soon after
    /// [`Self::stopping`] resolves.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.tracker.spawn(scope::carried(task)));
    }

    /// Computes something that takes long enough to hold others up, on a thread of its own. `None` when
    /// it panicked.
    pub async fn compute<T, F>(&self, work: F) -> Option<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.tracker.spawn_blocking(work).await.ok()
    }

    /// Whether the server is shutting down.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Resolves when the server shuts down.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// Tells every task to end.
    pub fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
    }

    /// Tells every task that waiting is over: what is still under way is dropped.
    pub fn abort(&self) {
        self.abort.cancel();
    }

    /// Resolves when waiting is over.
    pub async fn aborting(&self) {
        self.abort.cancelled().await;
    }

    /// Waits until every task has ended. Only useful after [`Self::stop`].
    pub async fn ended(&self) {
        self.tracker.wait().await;
    }
}

/// Sleeps, where there is an end to it.
pub(super) async fn sleep_or_forever(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}
