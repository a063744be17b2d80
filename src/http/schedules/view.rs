//! Schedules as callers see them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::agent::Metadata;
use crate::domain::id::{AgentId, RunId, ScheduleId, ThreadId};
use crate::domain::schedule::{OnOverlap, Schedule, SkipReason};
use crate::domain::step::InputPart;
use crate::http::time::Time;

/// A run that the clock starts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(super) struct ScheduleView {
    /// Its id.
    id: ScheduleId,
    /// When, as five fields.
    cron: String,
    /// On whose clock.
    timezone: String,
    /// The agent.
    agent_id: AgentId,
    /// The version of that agent; absent for the newest when the run starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_version: Option<i32>,
    /// What is asked.
    input: Vec<InputPart>,
    /// The thread that all runs go on with; absent when each has a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<ThreadId>,
    /// What happens while the run before is still active.
    on_overlap: OnOverlap,
    /// Whether it starts runs.
    enabled: bool,
    /// The caller's own labels.
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    /// When it is due; absent when no time will come. A time that has passed is one whose run waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<Time>,
    /// The due time that came last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_at: Option<Time>,
    /// The run that it started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run_id: Option<RunId>,
    /// Why there was no run at the due time that came last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_skip: Option<SkipReason>,
    /// When it was created.
    created_at: Time,
    /// When a caller changed it last.
    updated_at: Time,
}

impl From<Schedule> for ScheduleView {
    fn from(schedule: Schedule) -> Self {
        Self {
            id: schedule.id,
            cron: schedule.cron,
            timezone: schedule.timezone,
            agent_id: schedule.agent_id,
            agent_version: schedule.agent_version,
            input: schedule.input,
            thread_id: schedule.thread_id,
            on_overlap: schedule.on_overlap,
            enabled: schedule.enabled,
            metadata: schedule.metadata,
            next_at: schedule.next_at.filter(|_| schedule.enabled).map(Time::from),
            last_at: schedule.last_at.map(Time::from),
            last_run_id: schedule.last_run_id,
            last_skip: schedule.last_skip,
            created_at: schedule.created_at.into(),
            updated_at: schedule.updated_at.into(),
        }
    }
}

/// The `ETag` of a schedule: what callers say of it, not what its runs do to it.
pub(super) fn etag(schedule: &Schedule) -> String {
    format!("\"{}\"", schedule.revision)
}
