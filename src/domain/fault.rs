//! Why a worker did not end the run that it held.

use crate::labels;

labels! {
    /// What kept the last worker of a run from ending it.
    Fault {
        /// Its lease ran out: the process is gone, or was away for too long.
        WorkerLost = "worker_lost",
        /// It panicked, which is a bug.
        Panicked = "panicked",
        /// The database refused what it had to write or read.
        StoreFailed = "store_failed",
        /// Its server was shut down in the middle of calls.
        Drained = "drained",
    }
}

impl Fault {
    /// What happened, as the end of a sentence about the run.
    pub const fn told(self) -> &'static str {
        match self {
            Self::WorkerLost => "the worker that held it last was lost",
            Self::Panicked => "the worker that held it last panicked",
            Self::StoreFailed => "the worker that held it last could not read or write it",
            Self::Drained => "the server that held it last was shut down",
        }
    }

    /// Whether it counts towards giving the run up. A shutdown is no fault of the run.
    pub const fn is_held_against(self) -> bool {
        match self {
            Self::WorkerLost | Self::Panicked | Self::StoreFailed => true,
            Self::Drained => false,
        }
    }
}
