//! Observers of commits: one that counts, one that ends the process, one that panics; and one of clients
//! that go away.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agentling::domain::id::RunId;
use agentling::engine::{CommitObserver, CommitPoint};

/// Counts the commits of each run.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    of: Mutex<BTreeMap<RunId, usize>>,
}

impl Commits {
    /// How many commits a run has cost its workers so far; the claim is not among them.
    pub(crate) fn of(&self, run: RunId) -> usize {
        self.of.lock().unwrap().get(&run).copied().unwrap_or(0)
    }
}

impl CommitObserver for Commits {
    fn on_commit(&self, point: CommitPoint, run: RunId) {
        if point == CommitPoint::After {
            *self.of.lock().unwrap().entry(run).or_default() += 1;
        }
    }
}

/// Ends the process at its n-th commit, as a crash would: no destructor runs.
#[derive(Debug)]
pub(crate) struct DieAt {
    point: CommitPoint,
    n: usize,
    passed: AtomicUsize,
}

impl DieAt {
    /// Before or after which commit, counted from 1.
    pub(crate) const fn new(point: CommitPoint, n: usize) -> Self {
        Self { point, n, passed: AtomicUsize::new(0) }
    }
}

impl CommitObserver for DieAt {
    fn on_commit(&self, point: CommitPoint, _run: RunId) {
        if point == self.point && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.n {
            std::process::abort();
        }
    }
}

/// Tells the parent of this process of every write that was fenced.
#[derive(Debug)]
pub(crate) struct TellFenced;

impl TellFenced {
    /// The line that tells it.
    pub(crate) const LINE: &'static str = "a write was fenced";
}

impl CommitObserver for TellFenced {
    fn on_commit(&self, point: CommitPoint, _run: RunId) {
        if point == CommitPoint::Refused {
            let line = format!("\n{}\n", Self::LINE);
            std::io::stdout().write_all(line.as_bytes()).unwrap();
        }
    }
}

/// Panics at the first commit and never again.
#[derive(Debug, Default)]
pub(crate) struct PanicOnce {
    done: AtomicBool,
}

impl CommitObserver for PanicOnce {
    fn on_commit(&self, _point: CommitPoint, _run: RunId) {
        assert!(self.done.swap(true, Ordering::SeqCst), "the fault that this test plants");
    }
}

/// Sees whose clients went away.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    runs: tokio::sync::watch::Sender<Vec<RunId>>,
}

impl Gone {
    /// The runs whose clients went away, once there are so many.
    pub(crate) async fn first(&self, n: usize) -> Vec<RunId> {
        let mut runs = self.runs.subscribe();
        let known = runs.wait_for(|runs| runs.len() >= n);
        let known = tokio::time::timeout(std::time::Duration::from_mins(1), known).await;
        known.expect("the client is missed").unwrap().clone()
    }
}

impl CommitObserver for Gone {
    fn on_commit(&self, _point: CommitPoint, _run: RunId) {}

    fn on_client_gone(&self, run: RunId) {
        self.runs.send_modify(|runs| runs.push(run));
    }
}
