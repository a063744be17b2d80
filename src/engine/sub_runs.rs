//! Sub-runs: which calls start one, what it begins with, and what becomes of those that nobody waits for.
//!
//! A call that starts a run waits for its end, as a call of a client tool waits for its caller. The run is
//! accepted by the append that says so; its end is an answer in the parent's inbox, by the append that ends
//! it. A parent that waits holds neither lease nor task, and counts as little against what a tenant may run
//! as a run that waits for its thread.

use std::sync::Arc;

use super::accept::{Chosen, StartRun, ThreadChoice, WhichAgent, assembled, is_priced};
use super::inbox::patiently;
use super::leases::Signals;
use super::{Context, skills, steer};
use crate::domain::agent::{Agent, AgentSpec, Metadata};
use crate::domain::agent_tool::{AgentTool, SUB_RUNS_PER_TURN, task_of};
use crate::domain::id::{CallId, RunId, TenantId};
use crate::domain::memory::Finding;
use crate::domain::run::{OnBusy, OnDisconnect};
use crate::domain::step::{InputPart, InputText};
use crate::domain::sub_run::{Parent, run_of};
use crate::domain::tool::{OutcomeKind, PlannedCall, ToolFailure, ToolOutcome, ToolSpec};
use crate::domain::wait::WaitReason;
use crate::error::AgentlingError;
use crate::machine::input::Input;
use crate::machine::record::Record;
use crate::machine::state::{Call, State};
use crate::store::agents::{self, AgentRef};
use crate::store::journal::LoadedRun;
use crate::store::lease::Claim;
use crate::store::runs::NewRun;
use crate::store::{StoreError, erasure, scope, sub_runs};
use crate::tools::ToolSet;

/// How long a look for an agent waits before it is tried again while the database is away.
const READ_PAUSE: std::time::Duration = std::time::Duration::from_millis(250);

/// Where a run stands among those that start each other.
#[derive(Debug, Clone)]
pub(super) struct Family {
    tenant: TenantId,
    run: RunId,
    /// Who started it.
    pub(super) parent: Option<Parent>,
}

impl Family {
    pub(super) fn of(tenant: &TenantId, loaded: &LoadedRun) -> Self {
        let parent = loaded.run.parent.clone();
        Self { tenant: tenant.clone(), run: loaded.run.id, parent }
    }

    /// Settles for the calls of a reply which agents they start runs of. One that cannot be started is
    /// refused, which the model is told.
    pub(super) async fn settle(&self, context: &Context, tools: &ToolSet, input: &mut Input) {
        let Input::Replied { calls, .. } = input else { return };
        let is_open = |call: &&mut PlannedCall| call.settled.is_none();
        let calls = calls.iter_mut().filter(is_open);
        let started = calls.filter_map(|call| Some((tools.agent_tool(&call.name)?, call)));
        for (place, (tool, call)) in started.enumerate() {
            match self.delegate(context, tool, place).await {
                Ok(agent) => call.waits.by_run = Some(tool.delegate(agent.id, agent.version)),
                Err(error) => {
                    let (id, kind) = (call.call_id.clone(), OutcomeKind::Execution);
                    call.settled = Some(ToolOutcome::not_run(id, &call.name, kind, Some(error)));
                }
            }
        }
    }

    /// The agent that a call starts a run of.
    async fn delegate(
        &self,
        context: &Context,
        tool: &AgentTool,
        place: usize,
    ) -> Result<Agent, ToolFailure> {
        self.bounded(context.parts.settings.max_depth, place)?;
        loop {
            match self.affordable(context, tool).await {
                Ok(found) => return found,
                Err(error) if error.is_passing() => tokio::time::sleep(READ_PAUSE).await,
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
    }

    fn unreadable(&self, error: &StoreError) -> ToolFailure {
        tracing::error!(run = %self.run, %error, "an agent does not read");
        gone()
    }

    /// Whether a run may be started so deep, by so many calls of a turn.
    fn bounded(&self, most: usize, place: usize) -> Result<(), ToolFailure> {
        if self.parent.as_ref().map_or(0, Parent::depth) >= most {
            let text = format!("agents start each other at most {most} deep");
            return Err(refusal("TooDeep", text));
        }
        if place >= SUB_RUNS_PER_TURN {
            let text = format!("a turn starts at most {SUB_RUNS_PER_TURN} runs of agents");
            return Err(refusal("TooManyRuns", text));
        }
        Ok(())
    }

    /// The agent of a tool, unless it was archived or nobody can say whether there is money for it.
    async fn affordable(
        &self,
        context: &Context,
        tool: &AgentTool,
    ) -> Result<Result<Agent, ToolFailure>, StoreError> {
        let Some(agent) = find(context, &self.tenant, tool).await? else { return Ok(Err(gone())) };
        if is_priced(context, &agent.spec) {
            return Ok(Ok(agent));
        }
        let own = tool.budget.or(agent.spec.budget).cost.is_some();
        let store = context.store();
        if own || sub_runs::counts_cost(store, &self.tenant, self.run, agent.id).await? {
            let text = "a budget counts money, and what the agent's model costs is not known";
            return Ok(Err(refusal("UnknownPrice", text.to_owned())));
        }
        Ok(Ok(agent))
    }

    /// The runs that a decision starts.
    pub(super) async fn started(
        &self,
        (context, tools): (&Arc<Context>, &ToolSet),
        (claim, signals): (&Claim, &tokio::sync::watch::Receiver<Signals>),
        (records, state): (&[Record], &State),
    ) -> Result<Vec<NewRun>, StoreError> {
        let mut started = Vec::new();
        for record in records {
            let Record::CallWaits { call_id, reason: WaitReason::SubRuns } = record else {
                continue;
            };
            let planned = state.call(call_id).map(|call| &call.planned);
            let Some((planned, delegate)) =
                planned.and_then(|call| Some((call, call.waits.by_run?)))
            else {
                continue;
            };
            let which = AgentRef::Id(delegate.agent);
            let read =
                || agents::get(context.store(), &claim.tenant, &which, Some(delegate.version));
            let agent = patiently(claim, signals, read).await?;
            let agent = agent.ok_or_else(|| StoreError::Inconsistent {
                table: "tool_call",
                column: "wait_rules",
                id: call_id.to_string(),
            })?;
            let read = || skills::pinned(context, &claim.tenant, &agent.spec);
            let skills = patiently(claim, signals, read).await?;
            let which = WhichAgent::Stored(which, Some(delegate.version));
            let agent = (which, Chosen::stored(agent, skills));
            started.push(self.new_run(context, (planned, tools.agent_tool(&planned.name)), agent));
        }
        Ok(started)
    }

    fn new_run(
        &self,
        context: &Arc<Context>,
        (call, tool): (&PlannedCall, Option<&AgentTool>),
        (which, agent): (WhichAgent, Chosen),
    ) -> NewRun {
        let start = StartRun {
            id: run_of(&call.call_id),
            agent: which,
            thread: ThreadChoice::New,
            input: vec![InputPart::Text(InputText { text: task_of(&call.arguments) })],
            max_steps: None,
            run_timeout: None,
            on_busy: OnBusy::default(),
            on_disconnect: OnDisconnect::default(),
            budget: tool.map(|tool| tool.budget).unwrap_or_default(),
            key: None,
            metadata: Metadata::new(),
            idempotency: None,
            webhook: None,
            firing: None,
        };
        let above = self.parent.as_ref().map(Parent::ancestors).unwrap_or_default();
        let parent = Parent { run: self.run, call: call.call_id.clone(), above };
        let mut new = assembled(context, agent, start);
        new.run.parent = Some(parent);
        new
    }
}

fn gone() -> ToolFailure {
    refusal("UnknownAgent", "the agent of this tool is not there".to_owned())
}

fn refusal(r#type: &str, message: String) -> ToolFailure {
    ToolFailure { r#type: r#type.to_owned(), message, redacted: false }
}

/// The agent of a tool, unless it was archived.
async fn find(
    context: &Context,
    tenant: &TenantId,
    tool: &AgentTool,
) -> Result<Option<Agent>, StoreError> {
    let which = AgentRef::of(&tool.agent);
    let agent = agents::get(context.store(), tenant, &which, tool.version).await?;
    Ok(agent.filter(|agent| agent.archived_at.is_none()))
}

/// Whether every agent is there that a new one has as a tool. It may be one itself, by its name.
pub(super) async fn check(
    context: &Context,
    tenant: &TenantId,
    (spec, at): (&AgentSpec, &str),
) -> Result<(), AgentlingError> {
    for (index, tool) in spec.tools.iter().enumerate() {
        let ToolSpec::Agent(tool) = tool else { continue };
        let is_itself = tool.agent == spec.name && tool.version.is_none();
        if !is_itself && find(context, tenant, tool).await?.is_none() {
            let place = format!("{at}/tools/{index}/agent");
            let message = "there is no such agent, or not in this version";
            return Err(AgentlingError::UnknownSubAgent(Finding::new(
                place,
                "unknown_agent",
                message,
            )));
        }
    }
    Ok(())
}

/// The calls that a decision gives up while the runs that they started go on: whose time is over, and those
/// of a run that ends.
pub(super) fn given_up(records: &[Record], state: &State) -> Vec<CallId> {
    let given_up = records.iter().filter_map(|record| {
        let Record::CallEnded { outcome } = record else { return None };
        let waits = state.call(&outcome.tool_call_id)?.waits;
        // What ended by itself has an answer, which is one of these.
        let is_answered = matches!(outcome.kind, OutcomeKind::Success | OutcomeKind::Execution);
        let is_given_up = waits == Some(WaitReason::SubRuns) && !is_answered;
        is_given_up.then(|| outcome.tool_call_id.clone())
    });
    given_up.collect()
}

/// Lets the runs that calls started hear at once that they are to end, as far as they are at work here.
pub(super) fn pass_end_on(context: &Context, calls: &[CallId]) {
    calls.iter().filter_map(run_of).for_each(|run| steer::pass_wish_on(context, run));
}

/// Cancels the sub-runs of a run that has ended. What fails here, the sweep does.
pub(super) async fn let_go(context: &Context, (tenant, run): (&TenantId, RunId), state: &State) {
    let delegates = |call: &Call| call.planned.waits.by_run.is_some();
    if state.calls().iter().any(delegates)
        && let Err(error) = cancel_abandoned(context, Some((tenant, run))).await
    {
        tracing::warn!(%run, %error, "sub-runs have to wait for the sweep");
    }
}

async fn cancel_abandoned(
    context: &Context,
    of: Option<(&TenantId, RunId)>,
) -> Result<(), StoreError> {
    for (tenant, run) in sub_runs::abandoned(context.store(), of).await? {
        match scope::within(&tenant, steer::cancel(context, &tenant, run)).await {
            Ok(_) | Err(AgentlingError::RunAlreadyTerminal { .. }) => {}
            // The others are not to wait for that.
            Err(error) => tracing::warn!(%run, %error, "a sub-run was not cancelled"),
        }
    }
    Ok(())
}

/// Cancels the sub-runs that nobody waits for any more.
pub(super) async fn sweep(context: &Context) -> Result<(), StoreError> {
    cancel_abandoned(context, None).await
}

/// Tells calls that their sub-runs have ended, where a server that ended them did not know how to. Answers
/// how many.
pub(super) async fn tell(context: &Context) -> Result<u64, StoreError> {
    let mut n_told = 0;
    for (tenant, run) in sub_runs::untold(context.store()).await? {
        let telling = sub_runs::tell(context.store(), &tenant, run, context.now());
        match scope::within(&tenant, telling).await {
            Ok(()) => n_told += 1,
            Err(error) => tracing::warn!(%run, %error, "the end of a sub-run was not told"),
        }
    }
    Ok(n_told)
}

/// Erases what is left of sub-runs with their parents. Each by itself: none keeps another.
pub(super) async fn erase_orphans(context: &Context) -> Result<(), StoreError> {
    for (tenant, thread) in sub_runs::orphans(context.store()).await? {
        let erasing = erasure::thread(context.store(), &tenant, thread, context.now());
        match scope::within(&tenant, erasing).await {
            // Somebody may have been faster, and have gone on with it.
            Ok(_) | Err(StoreError::Conflict(_)) => {}
            Err(error) => tracing::warn!(%thread, %error, "what a sub-run has left was not erased"),
        }
    }
    Ok(())
}
