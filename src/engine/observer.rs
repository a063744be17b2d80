//! Who sees what an engine does: for metrics, and for tests.

use crate::domain::id::RunId;

/// A moment around a commit of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitPoint {
    /// The batch is about to be sent.
    Before,
    /// The batch is stored; nobody was told yet.
    After,
    /// The batch is not stored, and never will be: the run is another worker's.
    Refused,
}

/// Sees every commit of this process's workers: for metrics, and for tests that make it fail there.
pub trait CommitObserver: Send + Sync + std::fmt::Debug {
    /// A commit is about to happen or has happened.
    fn on_commit(&self, point: CommitPoint, run: RunId);

    /// The client of a run went away before it had what it waited for.
    fn on_client_gone(&self, _run: RunId) {}
}

/// Sees nothing.
#[derive(Debug)]
pub struct NoObserver;

impl CommitObserver for NoObserver {
    fn on_commit(&self, _point: CommitPoint, _run: RunId) {}
}
