//! Runs that the clock starts.

use chrono::{DateTime, Utc};

use super::agent::Metadata;
use super::id::{AgentId, RunId, ScheduleId, ThreadId};
use super::step::InputPart;
use crate::labels;

labels! {
    /// What happens at a due time at which the last run, or the thread, is still busy.
    OnOverlap {
        /// The due time passes without a run.
        Skip = "skip",
        /// The run starts as soon as nothing is in its way; due times that pass meanwhile count once.
        Enqueue = "enqueue",
    }
}

labels! {
    /// Why a due time passed without a run.
    SkipReason {
        /// The last run, or the thread, was still busy.
        Overlap = "overlap",
        /// The run was refused: its agent or its thread is gone, say.
        Refused = "refused",
    }
}

/// A run that the clock starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// When, as five fields.
    pub cron: String,
    /// On whose clock: a name of the IANA database.
    pub timezone: String,
    /// Which agent.
    pub agent_id: AgentId,
    /// Which version; `None` for the newest there is when it is due.
    pub agent_version: Option<i32>,
    /// Which thread; `None` for a new one each time.
    pub thread_id: Option<ThreadId>,
    /// What is asked.
    pub input: Vec<InputPart>,
    /// What happens when the run before is still active.
    pub on_overlap: OnOverlap,
    /// Whether it starts runs.
    pub enabled: bool,
    /// The caller's own labels; its runs have them too.
    pub metadata: Metadata,
    /// Grows with every change by a caller.
    pub revision: i64,
    /// When it is due; `None` when no time will come.
    pub next_at: Option<DateTime<Utc>>,
    /// The due time that was seen to last.
    pub last_at: Option<DateTime<Utc>>,
    /// The last run.
    pub last_run_id: Option<RunId>,
    /// Why there was no run at the last due time.
    pub last_skip: Option<SkipReason>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When a caller changed it last.
    pub updated_at: DateTime<Utc>,
}

/// A due time that a run is started for. It counts once, however many replicas see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firing {
    /// Which schedule.
    pub schedule: ScheduleId,
    /// The due time.
    pub due_at: DateTime<Utc>,
    /// The one after it.
    pub next_at: Option<DateTime<Utc>>,
}
