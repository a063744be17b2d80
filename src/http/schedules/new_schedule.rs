//! What callers say of a schedule.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::agent::Metadata;
use crate::domain::caller::Caller;
use crate::domain::id::{AgentId, ScheduleId, ThreadId};
use crate::domain::schedule::{OnOverlap, Schedule};
use crate::engine::{BadCadence, Cadence};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::extract::Checks;
use crate::http::runs::new_run::{RunInput, check_addresses, check_input};
use crate::store::agents::{self, AgentRef};
use crate::store::threads;

/// A run that the clock starts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSchedule {
    /// When: minute, hour, day of the month, month, day of the week. Each is `*`, a number, a range
    /// `a-b`, a step `/n` behind `*` or a range, or a list of these; months and days of the week also go
    /// by the first three letters of their names. When both days are restricted, either will do.
    #[schema(examples("0 9 * * mon-fri"))]
    cron: String,
    /// On whose clock: a name of the IANA time zone database. Where that clock is put forward, a time
    /// that it leaves out is due when it goes on; where it is put back, a time that it shows twice is due
    /// the first time. An expression whose hour begins with `*` goes on without regard to that.
    #[serde(default = "utc")]
    #[schema(default = "UTC", examples("Europe/Paris"))]
    timezone: String,
    /// An agent's id or unique name.
    #[schema(examples("weather"))]
    agent_id: String,
    /// The version of that agent; by default the newest when the run starts.
    #[serde(default)]
    #[schema(minimum = 1)]
    agent_version: Option<i32>,
    /// What is asked: a text, or texts and files.
    input: RunInput,
    /// The thread that all runs go on with; by default each has a new one.
    #[serde(default)]
    thread_id: Option<ThreadId>,
    /// What happens at a due time while the run before, or another one on the thread, is still active.
    #[serde(default = "skip")]
    #[schema(default = "skip")]
    on_overlap: OnOverlap,
    /// Whether it starts runs.
    #[serde(default = "yes")]
    #[schema(default = true)]
    enabled: bool,
    /// The caller's own labels. The runs have them too.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
}

fn utc() -> String {
    "UTC".to_owned()
}

const fn skip() -> OnOverlap {
    OnOverlap::Skip
}

const fn yes() -> bool {
    true
}

impl NewSchedule {
    /// The schedule as it is to be, unless it cannot be.
    pub(super) async fn schedule(
        self,
        app: &AppState,
        caller: &Caller,
        (id, created_at): (ScheduleId, Option<DateTime<Utc>>),
    ) -> Result<Schedule, AgentlingError> {
        check_addresses(&app.engine, "/input", &self.input.shown())?;
        let cadence = self.check()?;
        let agent_id = self.agent(app, caller).await?;
        if let Some(thread) = self.thread_id
            && threads::get(&app.store, &caller.tenant, thread).await?.is_none()
        {
            let message = "there is no such thread";
            return Err(AgentlingError::invalid("/thread_id", "unknown_thread", message));
        }
        let now = app.clock.now();
        Ok(Schedule {
            id,
            cron: self.cron,
            timezone: self.timezone,
            agent_id,
            agent_version: self.agent_version,
            thread_id: self.thread_id,
            input: self.input.parts(),
            on_overlap: self.on_overlap,
            enabled: self.enabled,
            metadata: self.metadata,
            revision: 1,
            next_at: cadence.next_after(now),
            last_at: None,
            last_run_id: None,
            last_skip: None,
            created_at: created_at.unwrap_or(now),
            updated_at: now,
        })
    }

    fn check(&self) -> Result<Cadence, AgentlingError> {
        let mut checks = Checks::new();
        let cadence = Cadence::parse(&self.cron, &self.timezone);
        if let Err(error) = cadence {
            let pointer = match error {
                BadCadence::Cron => "/cron",
                BadCadence::TimeZone => "/timezone",
            };
            checks.require(false, pointer, "invalid_value", &error.to_string());
        }
        let versioned = self.agent_version.is_none_or(|version| version >= 1);
        checks.require(versioned, "/agent_version", "invalid_value", "must be at least 1");
        check_input(&mut checks, "/input", &self.input.shown());
        checks.metadata("/metadata", &self.metadata);
        checks.finish()?;
        cadence
            .map_err(|error| AgentlingError::invalid("/cron", "invalid_value", &error.to_string()))
    }

    /// The agent that is named, if it takes runs.
    async fn agent(&self, app: &AppState, caller: &Caller) -> Result<AgentId, AgentlingError> {
        let named = &self.agent_id;
        let which = named.parse().map_or_else(|_| AgentRef::Name(named.clone()), AgentRef::Id);
        let agent = agents::get(&app.store, &caller.tenant, &which, self.agent_version).await?;
        let agent = agent.ok_or(AgentlingError::UnknownAgent)?;
        match agent.archived_at {
            None => Ok(agent.id),
            Some(_) => Err(AgentlingError::Gone { kind: "agent" }),
        }
    }
}
