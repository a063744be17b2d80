//! Claims runs and performs what the machine says is due. The only layer that sees the store, the
//! providers and the tools together; it knows nothing of HTTP.
//!
//! The loop never lives in a handler: a caller's request ends with a commit, and a worker, here or in
//! another process, goes on from what was committed. Waiting, streaming and background runs are the
//! same run watched in three ways.
//!
//! # Where a process may die
//!
#![doc = include_str!("kill_points.md")]

mod accept;
mod agents;
mod answers;
mod append;
mod ask;
mod budget;
mod checks;
mod client;
mod compact;
mod compaction;
mod context;
mod diagnosis;
mod diff;
mod done;
mod driver;
mod dry_run;
mod equip;
pub mod feed;
mod hints;
mod inbox;
pub mod items;
mod journal;
mod keeping;
mod leases;
mod load;
mod masks;
mod observer;
mod perform;
mod predecessor;
mod prompt;
pub mod redaction;
mod relay;
mod replay;
mod replies;
mod sanitise;
mod schedules;
pub mod secrets;
pub mod self_test;
mod sent;
pub mod servers;
mod skills;
mod steer;
mod sub_runs;
mod tail;
mod takeover;
mod tally;
pub mod tasks;
mod told;
mod tool_test;
mod traced;
mod watch;
pub mod webhooks;
mod window;
mod worker;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub use accept::{StartRun, Started, ThreadChoice, WhichAgent};
pub use answers::Answers;
pub use budget::budgets_changed;
pub use compact::{CompactThread, Shorter};
pub use diagnosis::diagnose;
pub use diff::{
    Difference, RequestDiff, RequestFacts, RunDiff, Sameness, StepDiff, WireDiff, diff_runs,
};
pub use dry_run::{Comparison, DryRun, GivenHistory, Manner, Rendered};
pub use observer::{CommitObserver, CommitPoint, NoObserver};
pub use replay::{Divergence, Missing, Parted, Parting, Replayed, Segment, replay_run};
pub use schedules::{BadCadence, Cadence};
pub use told::Told;
pub use tool_test::{ToolTest, test_tool};
pub use watch::{RunWatch, Seen};

// What a model would be sent, under this layer's name.
pub use crate::render::prompt::{Block, PromptTurn, Role};

use crate::clock::{SharedClock, SharedIds};
use crate::config;
use crate::domain::budget::Prices;
use crate::domain::event::RunEvent;
use crate::domain::id::{RunId, TenantId};
use crate::domain::redaction::RedactionChannel;
use crate::domain::run::Run;
use crate::domain::run_message::{RunMessage, Voice, WAITING_PER_RUN};
use crate::domain::step::Step;
use crate::domain::thread::{Announce, Framing, FramingPolicy};
use crate::error::AgentlingError;
use crate::instruments::Instruments;
use crate::provider::Models;
use crate::store::Store;
use crate::store::idempotency::IdempotencyKey;
use crate::store::messages::{self, Added};
use crate::tools::Toolbox;

use context::Context;
use redaction::{Place, Redaction, Redactors};
use secrets::Secrets;
use tasks::Tasks;

/// What an engine is built from.
#[derive(Debug)]
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The models.
    pub models: Models,
    /// The tools.
    pub toolbox: Toolbox,
    /// The secrets of tenants.
    pub secrets: Secrets,
    /// The clock.
    pub clock: SharedClock,
    /// Ids and randomness.
    pub ids: SharedIds,
    /// What is redacted for everyone.
    pub redaction: Redaction,
    /// What models cost.
    pub prices: Prices,
    /// Bounds and intervals.
    pub settings: config::Engine,
    /// How new threads are framed.
    pub rendering: config::Rendering,
    /// How endpoints are told of events.
    pub webhooks: config::Webhooks,
    /// What the secrets of endpoints are derived from.
    pub webhook_secret: [u8; 32],
    /// How long what is stored is kept.
    pub retention: config::Retention,
    /// Who sees the commits.
    pub observer: Arc<dyn CommitObserver>,
    /// What operators see.
    pub instruments: Instruments,
}

/// The handle that the API holds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    context: Arc<Context>,
}

impl Engine {
    /// An engine whose workers do not run yet.
    pub fn new(parts: Parts) -> Self {
        Self { context: Arc::new(Context::new(parts)) }
    }

    /// Starts the workers: claiming, heartbeat, sweeping; what listens and looks beside them, and what the
    /// clock starts and forgets.
    pub fn work(&self) {
        worker::start(&self.context);
        hints::start(&self.context);
        load::start(&self.context);
        schedules::start(&self.context);
        keeping::start(&self.context);
    }

    /// The background tasks, for others who need one.
    pub fn tasks(&self) -> &Tasks {
        &self.context.tasks
    }

    /// What operators see of this server.
    pub fn instruments(&self) -> &Instruments {
        &self.context.parts.instruments
    }

    /// The metrics of this server as they are now.
    pub fn metrics(&self) -> String {
        let Parts { instruments, settings, store, .. } = &self.context.parts;
        let metrics = &instruments.metrics;
        metrics.runs_active(self.context.leases.len(), settings.concurrency);
        for (pool, connections) in store.connections() {
            metrics.connections(pool, connections);
        }
        metrics.text()
    }

    /// How many writes of this process another worker's claim has kept out.
    pub fn fenced_writes(&self) -> u64 {
        self.context.n_fenced.load(Ordering::Relaxed)
    }

    /// Whether a run would be accepted.
    ///
    /// # Errors
    /// With the reason why not.
    pub fn admit(&self) -> Result<(), AgentlingError> {
        self.context.admit()
    }

    /// Stops claiming, waits for what is under way up to the drain deadline, then gives the rest back.
    pub async fn shut_down(&self) {
        let tasks = &self.context.tasks;
        tasks.stop();
        let drain = self.context.parts.settings.drain;
        if tokio::time::timeout(drain, tasks.ended()).await.is_err() {
            tasks.abort();
            // What is left only has to give its lease back.
            let grace = Duration::from_secs(5);
            if tokio::time::timeout(grace, tasks.ended()).await.is_err() {
                tracing::warn!("tasks were still running at the end of the shutdown");
            }
        }
    }

    /// How a thread that is created now frames its history.
    pub fn framing(&self, policy: FramingPolicy, announce: Announce) -> Framing {
        self.context.framing(policy, announce)
    }

    /// What is redacted for everyone.
    pub fn redaction(&self) -> &Redaction {
        &self.context.parts.redaction
    }

    /// Redactors for a channel of what stands in some places. The rules are read at once, however many
    /// places there are.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn redactors(
        &self,
        tenant: &TenantId,
        channel: RedactionChannel,
        places: BTreeSet<Place>,
    ) -> Result<Redactors, AgentlingError> {
        redaction::redactors(&self.context, tenant, channel, places).await
    }

    /// Accepts a run.
    ///
    /// # Errors
    /// When it cannot be: unknown agent or thread, busy thread, reused idempotency key, no database.
    pub async fn start(&self, tenant: &TenantId, run: StartRun) -> Result<Started, AgentlingError> {
        accept::start(&self.context, tenant, run).await
    }

    /// Renders what a model would be sent, and what it would be sent otherwise. Nothing is written.
    ///
    /// # Errors
    /// When there is no such agent, thread or profile, or the database does not answer.
    pub async fn render(
        &self,
        tenant: &TenantId,
        dry_run: DryRun,
    ) -> Result<(Rendered, Option<Comparison>), AgentlingError> {
        dry_run::render(&self.context, tenant, dry_run).await
    }

    /// Watches a run from now on.
    pub fn watch(&self, tenant: &TenantId, run: RunId) -> RunWatch {
        RunWatch::new(Arc::clone(&self.context), tenant, run)
    }

    /// Some events of a run with what they are about.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn tell(
        &self,
        (tenant, channel): (&TenantId, RedactionChannel),
        run: &Run,
        events: Vec<RunEvent>,
    ) -> Result<Told, AgentlingError> {
        told::tell(&self.context, (tenant, channel), run, events).await
    }

    /// The client that a run was started for went away before it had what it waited for. The run does
    /// what it was started to do then.
    pub fn client_gone(&self, tenant: &TenantId, run: RunId) {
        tracing::debug!(%tenant, %run, "the client of a run is gone");
        self.context.parts.observer.on_client_gone(run);
        client::gone(&self.context, tenant, run);
    }

    /// Waits until a run has ended or needs a caller, at most so long. Answers the run as it stands then; `None` when
    /// there is no such run.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn wait(
        &self,
        tenant: &TenantId,
        run: RunId,
        at_most: Duration,
    ) -> Result<Option<Run>, AgentlingError> {
        watch::wait(&self.context, tenant, run, at_most).await
    }

    /// Asks for the end of a run.
    ///
    /// # Errors
    /// When there is no such run, or it has ended.
    pub async fn cancel(&self, tenant: &TenantId, run: RunId) -> Result<Run, AgentlingError> {
        steer::cancel(&self.context, tenant, run).await
    }

    /// Asks a run to stop at the next boundary.
    ///
    /// # Errors
    /// When there is no such run, or it is not active.
    pub async fn interrupt(&self, tenant: &TenantId, run: RunId) -> Result<Run, AgentlingError> {
        steer::interrupt(&self.context, tenant, run).await
    }

    /// Lets an interrupted run go on.
    ///
    /// # Errors
    /// When there is no such run, it is not interrupted, or its thread went on without it.
    pub async fn resume(&self, tenant: &TenantId, run: RunId) -> Result<Run, AgentlingError> {
        steer::resume(&self.context, tenant, run).await
    }

    /// Adds a message to a run, which it hears when its next turn begins. Nobody has to be woken for
    /// that: no turn begins, and no run is completed, past a message that waits.
    ///
    /// # Errors
    /// When there is no such run, it hears no more messages, or too many wait.
    pub async fn say(
        &self,
        tenant: &TenantId,
        run: RunId,
        (voice, text, key): (Voice, String, Option<IdempotencyKey>),
    ) -> Result<RunMessage, AgentlingError> {
        let context = &self.context;
        let said = (voice, text, key.as_ref());
        let said = messages::add(context.store(), tenant, run, said, context.now()).await?;
        match said {
            Added::Waits(message) => Ok(message),
            Added::NoSuchRun => Err(AgentlingError::NotFound { kind: "run" }),
            Added::Ended(status) => Err(AgentlingError::RunNotActive { status }),
            Added::Closing(status) => Err(AgentlingError::RunClosing { status }),
            Added::Full => Err(AgentlingError::TooManyMessages { limit: WAITING_PER_RUN.into() }),
        }
    }

    /// Answers calls of a run that wait for a caller.
    ///
    /// # Errors
    /// When there is no such run or call, or the call does not wait for that, or has its answer.
    pub async fn answer(
        &self,
        tenant: &TenantId,
        run: RunId,
        given: Answers,
    ) -> Result<Run, AgentlingError> {
        answers::give(&self.context, tenant, run, given).await
    }

    /// Tells a thread in a shorter form from now on; answers the step that says so. `None` when there
    /// is no such thread.
    ///
    /// # Errors
    /// When a run is active on the thread, it changed meanwhile, nothing is gained, the agent cannot be
    /// used, or its model fails.
    pub async fn compact(
        &self,
        tenant: &TenantId,
        asked: CompactThread,
    ) -> Result<Option<Step>, AgentlingError> {
        compact::compact(&self.context, tenant, asked).await
    }
}
