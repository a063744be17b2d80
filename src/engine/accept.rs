//! Accepting a run: the one commit between a caller's request and its answer.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{Context, steer, sub_runs};
use crate::domain::agent::{Agent, AgentSpec, Metadata};
use crate::domain::budget::Budget;
use crate::domain::format::RunFormat;
use crate::domain::id::{KeyId, RunId, StepId, TenantId, ThreadId, WebhookId};
use crate::domain::limits::QUEUED_PER_TENANT;
use crate::domain::memory::Finding;
use crate::domain::run::{OnBusy, OnDisconnect, Run, RunFacts};
use crate::domain::schedule::Firing;
use crate::domain::skill::Skill;
use crate::domain::step::{InputPart, StepContent, TaskStep};
use crate::domain::thread::{Framing, Thread};
use crate::error::AgentlingError;
use crate::store::agents::{self, AgentRef};
use crate::store::idempotency::IdempotencyKey;
use crate::store::runs::{self, Accepted, NewRun};
use crate::store::{Conflict, StoreError};

/// Which agent a run is of.
#[derive(Debug, Clone, PartialEq)]
pub enum WhichAgent {
    /// A stored one, at its newest version or at the one named.
    Stored(AgentRef, Option<i32>),
    /// One that is defined by the request.
    Inline(Box<AgentSpec>),
}

/// Which thread a run appends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadChoice {
    /// A new one.
    New,
    /// This one; with `reset`, a model sees nothing of its history.
    Existing {
        /// Which one.
        id: ThreadId,
        /// Whether its memory starts afresh.
        reset: bool,
    },
}

/// What a run is started with.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRun {
    /// The id, when the caller chose one.
    pub id: Option<RunId>,
    /// The agent.
    pub agent: WhichAgent,
    /// The thread.
    pub thread: ThreadChoice,
    /// What is asked.
    pub input: Vec<InputPart>,
    /// The run's own step limit.
    pub max_steps: Option<u32>,
    /// The run's own time limit.
    pub run_timeout: Option<Duration>,
    /// What is done when the thread has an active run.
    pub on_busy: OnBusy,
    /// What becomes of it when the client that starts it goes away.
    pub on_disconnect: OnDisconnect,
    /// What it may use up, where that is not what its agent says.
    pub budget: Budget,
    /// The caller's key; `None` for the operator's own.
    pub key: Option<KeyId>,
    /// The caller's own labels.
    pub metadata: Metadata,
    /// The key the request came with.
    pub idempotency: Option<IdempotencyKey>,
    /// The endpoint that is told of it.
    pub webhook: Option<WebhookId>,
    /// The due time of the schedule that starts it.
    pub firing: Option<Firing>,
}

/// A run that was accepted, now or before.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// The run as it was accepted.
    pub run: Run,
    /// Whether the same request was accepted before.
    pub is_replay: bool,
}

pub(super) async fn start(
    context: &Arc<Context>,
    tenant: &TenantId,
    start: StartRun,
) -> Result<Started, AgentlingError> {
    context.admit()?;
    let new = prepare(context, tenant, start).await?;
    match runs::accept(context.store(), tenant, &new).await {
        Ok(Accepted::Created) => {
            context.parts.instruments.metrics.run_accepted();
            context.claimable();
            Ok(Started { run: new.run, is_replay: false })
        }
        Ok(Accepted::Enqueued(displaced)) => {
            if let Some(displaced) = displaced {
                steer::pass_wish_on(context, displaced);
            }
            context.parts.instruments.metrics.run_accepted();
            context.claimable();
            Ok(Started { run: new.run, is_replay: false })
        }
        Ok(Accepted::Replayed(run)) => Ok(Started { run: run.as_accepted(), is_replay: true }),
        Ok(Accepted::NoSuchWebhook) => {
            let place = Finding::new("/webhook", "unknown_webhook", "there is no such endpoint");
            Err(AgentlingError::Invalid(vec![place]))
        }
        Ok(Accepted::NotDue) => Err(AgentlingError::VersionConflict),
        Ok(Accepted::NoSuchThread) => Err(AgentlingError::NotFound { kind: "thread" }),
        Ok(Accepted::QueueFull) => {
            Err(AgentlingError::TenantQueueFull { limit: QUEUED_PER_TENANT.into() })
        }
        Ok(Accepted::BudgetExhausted) => Err(AgentlingError::BudgetExhausted),
        Ok(Accepted::Unpriced) => {
            let message =
                "a budget counts money, and what this model or a fallback costs is not known";
            Err(AgentlingError::invalid("/budget/cost", "unknown_price", message))
        }
        Err(StoreError::Conflict(Conflict::IdTaken)) => {
            Err(AgentlingError::IdConflict("a run with this id exists"))
        }
        Err(error) => Err(error.into()),
    }
}

async fn prepare(
    context: &Arc<Context>,
    tenant: &TenantId,
    start: StartRun,
) -> Result<NewRun, AgentlingError> {
    let agent = choose_agent(context, tenant, start.agent.clone()).await?;
    Ok(assembled(context, agent, start))
}

/// A run of an agent as it is accepted.
pub(super) fn assembled(context: &Context, agent: Chosen, start: StartRun) -> NewRun {
    let (clock, ids) = (&context.parts.clock, &context.parts.ids);
    let now = clock.now();
    let (new_thread, thread_id, reset) = match start.thread {
        ThreadChoice::Existing { id, reset } => (None, id, reset),
        ThreadChoice::New => {
            let framing = context.framing(agent.spec.framing_policy, agent.spec.announce);
            let thread = empty_thread(ThreadId::from(ids.sortable()), framing, now);
            let id = thread.id;
            (Some(thread), id, false)
        }
    };
    let budget = start.budget.or(agent.spec.budget);
    let is_priced = is_priced(context, &agent.spec);
    let format = RunFormat::of_agent(&agent.spec);
    let timeout = start
        .run_timeout
        .or_else(|| agent.spec.run_timeout_ms.map(Duration::from_millis))
        .into_iter()
        .chain(budget.time_ms.map(Duration::from_millis))
        .min();
    let skills = agent.skills.iter().map(|skill| (skill.id, skill.version)).collect();
    let (agent_id, agent_version) = agent.stored.unzip();
    NewRun {
        run: Run {
            id: start.id.unwrap_or_else(|| RunId::from(ids.sortable())),
            thread_id,
            agent_id: agent_id.map(Into::into),
            agent_version,
            parent: None,
            metadata: start.metadata,
            created_at: now,
            budget,
            facts: RunFacts::accepted(),
        },
        inline_agent: agent_id.is_none().then_some(agent.spec),
        skills,
        new_thread,
        reset,
        max_steps: start.max_steps,
        timeout,
        on_busy: start.on_busy,
        on_disconnect: start.on_disconnect,
        task: (StepId::from(ids.sortable()), StepContent::Task(TaskStep { parts: start.input })),
        op_id: ids.random(),
        idempotency: start.idempotency,
        webhook: start.webhook,
        firing: start.firing,
        key: start.key,
        format,
        is_priced,
    }
}

/// Whether it is known what every model costs that an agent may ask.
pub(super) fn is_priced(context: &Context, spec: &AgentSpec) -> bool {
    let prices = &context.parts.prices;
    let mut models = std::iter::once(&spec.model).chain(&spec.model.fallbacks);
    models.all(|model| prices.of(model).is_some())
}

/// A thread without history or labels.
fn empty_thread(id: ThreadId, framing: Framing, now: chrono::DateTime<chrono::Utc>) -> Thread {
    Thread {
        id,
        framing,
        metadata: Metadata::new(),
        memory_from: 1,
        head_seq: 0,
        forked_from: None,
        revision: 1,
        created_at: now,
        updated_at: now,
    }
}

/// The agent of a run.
pub(super) struct Chosen {
    /// What it is.
    pub(super) spec: AgentSpec,
    /// Its skills as they are now.
    pub(super) skills: Vec<Skill>,
    stored: Option<(Uuid, i32)>,
}

impl Chosen {
    /// A version of a stored one, with its skills as they are now.
    pub(super) fn stored(agent: Agent, skills: Vec<Skill>) -> Self {
        Self { stored: Some((agent.id.uuid(), agent.version)), skills, spec: agent.spec }
    }
}

pub(super) async fn choose_agent(
    context: &Context,
    tenant: &TenantId,
    which: WhichAgent,
) -> Result<Chosen, AgentlingError> {
    match which {
        WhichAgent::Inline(spec) => {
            super::agents::check(&context.parts, &spec, "/agent")?;
            super::secrets::check(context, tenant, &spec, "/agent").await?;
            sub_runs::check(context, tenant, (&spec, "/agent")).await?;
            super::servers::check_named(context, tenant, (&spec, "/agent")).await?;
            let skills = super::skills::check(context, tenant, &spec, "/agent").await?;
            Ok(Chosen { spec: *spec, skills, stored: None })
        }
        WhichAgent::Stored(which, version) => {
            let agent = agents::get(context.store(), tenant, &which, version).await?;
            let agent = agent.ok_or(AgentlingError::UnknownAgent)?;
            if agent.archived_at.is_some() {
                return Err(AgentlingError::Gone { kind: "agent" });
            }
            let skills = super::skills::pinned(context, tenant, &agent.spec).await?;
            Ok(Chosen::stored(agent, skills))
        }
    }
}
