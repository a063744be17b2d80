//! Runs and their events as callers see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::agent::Metadata;
use crate::domain::budget::Budget;
use crate::domain::event::{BudgetWarning, EventData, EventName, ModelName, RunEvent};
use crate::domain::id::{AgentId, CallId, RunId, ThreadId};
use crate::domain::mcp::UnavailableServer;
use crate::domain::model::Usage;
use crate::domain::money::Money;
use crate::domain::run::{Run, RunStatus, StopReason, Stopped};
use crate::domain::step::{InputPart, Step, StepContent};
use crate::domain::sub_run::SubRun;
use crate::domain::tool::ToolOutcome;
use crate::domain::wait::RequiresAction;
use crate::engine::Told;
use crate::http::problem::ProblemView;
use crate::http::steps::view::StepView;
use crate::http::time::Time;

/// A durable execution of an agent on a thread.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunView {
    /// Its id.
    pub(crate) id: RunId,
    /// The thread it appends to.
    pub(crate) thread_id: ThreadId,
    /// The agent; absent for an agent that was defined by the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<AgentId>,
    /// The agent's version; absent for an agent that was defined by the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_version: Option<i32>,
    /// The run that started it; only of a sub-run.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<RunId>,
    /// The call that it is the answer to; only of a sub-run.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_tool_call_id: Option<CallId>,
    /// Where it stands.
    status: RunStatus,
    /// Why it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<StopReason>,
    /// What was asked; absent in lists and events.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Vec<InputPart>>,
    /// The answer as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// The answer as a value, when the agent has an output schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemView>,
    /// What it waits for; only while its status is `requires_action`.
    #[serde(skip_serializing_if = "Option::is_none")]
    requires_action: Option<RequiresAction>,
    /// The sub-runs that it waits for. Nobody has to do anything for it, unless one of them says so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sub_runs: Vec<SubRun>,
    /// The MCP servers that could not be asked for their tools when it began: it goes on without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unavailable_servers: Vec<UnavailableServer>,
    /// What was stopped; only of a run that was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<Stopped>,
    /// Tokens of all recorded replies.
    usage: Usage,
    /// What they cost, as far as their prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Money>,
    /// What it may use up by its own bounds.
    #[serde(skip_serializing_if = "Budget::is_empty")]
    budget: Budget,
    /// Steps it has, its task included.
    steps: u32,
    /// The current or last turn; 0 before the first.
    turn: u32,
    /// The current or last attempt of that turn.
    attempt: u32,
    /// What was kept from the model of its steps: replacements by redaction rule.
    redactions: BTreeMap<String, u64>,
    /// The caller's own labels.
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    /// When it was accepted.
    created_at: Time,
    /// When a worker first claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Time>,
}

impl From<Run> for RunView {
    fn from(run: Run) -> Self {
        let facts = run.facts;
        let waits = facts.status == RunStatus::RequiresAction;
        let mut waiting = facts.requires_action;
        let sub_runs = waiting
            .as_mut()
            .map(|waiting| std::mem::take(&mut waiting.sub_runs))
            .unwrap_or_default();
        let (parent_run_id, parent_tool_call_id) =
            run.parent.map(|parent| (parent.run, parent.call)).unzip();
        Self {
            id: run.id,
            thread_id: run.thread_id,
            agent_id: run.agent_id,
            agent_version: run.agent_version,
            parent_run_id,
            parent_tool_call_id,
            status: facts.status,
            stop_reason: facts.stop_reason,
            input: None,
            answer: facts.answer,
            output: facts.output,
            error: facts.failure.as_ref().map(ProblemView::from),
            requires_action: waiting.filter(|_| waits),
            sub_runs,
            unavailable_servers: facts.unavailable_servers,
            stopped: facts.stopped,
            usage: facts.usage,
            cost: facts.cost,
            budget: run.budget,
            steps: facts.steps,
            turn: facts.turn,
            attempt: facts.attempt,
            redactions: facts.redactions,
            metadata: run.metadata,
            created_at: run.created_at.into(),
            started_at: facts.started_at.map(Time::from),
            finished_at: facts.finished_at.map(Time::from),
        }
    }
}

impl RunView {
    /// The same with what was asked.
    #[must_use]
    pub(crate) fn with_input(mut self, input: Option<Vec<InputPart>>) -> Self {
        self.input = input;
        self
    }
}

/// A turn and its attempt.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct TurnView {
    /// The turn, from 1.
    turn: u32,
    /// The attempt, from 1.
    attempt: u32,
    /// The fallback that is asked; absent while it is the agent's own model.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<ModelName>,
}

/// A tool call as the model made it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ToolCallView {
    /// The turn.
    turn: u32,
    /// The call.
    tool_call_id: CallId,
    /// The tool's name as the model wrote it.
    name: String,
    /// The arguments as the exact text the model sent.
    arguments: String,
}

/// A tool call's outcome.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ToolResultView {
    /// The turn.
    turn: u32,
    /// How the call ended.
    outcome: ToolOutcome,
}

macro_rules! event_views {
    ($($(#[$meta:meta])* $variant:ident($view:ident { $data:ty }) = $label:tt,)+) => {
        /// A durable event of a run.
        #[derive(Debug, Clone, Serialize, ToSchema)]
        #[serde(tag = "event")]
        #[schema(as = RunEvent)]
        pub(crate) enum EventView {
            $($(#[$meta])* #[serde(rename = $label)] $variant($view),)+
        }

        $($(#[$meta])*
        #[derive(Debug, Clone, Serialize, ToSchema)]
        pub(crate) struct $view {
            /// Its place in the run: 1, 2, 3 … without gaps; the `id:` of the stream.
            id: i64,
            /// The facts.
            data: $data,
        })+

        impl EventView {
            /// Its place in the run.
            pub(crate) const fn id(&self) -> i64 {
                match self { $(Self::$variant(event) => event.id,)+ }
            }

            /// Its name.
            pub(crate) const fn label(&self) -> &'static str {
                match self { $(Self::$variant(_) => $label,)+ }
            }

            /// Its facts as JSON.
            pub(crate) fn data_value(&self) -> Value {
                match self { $(Self::$variant(event) => serde_json::to_value(&event.data),)+ }
                    .unwrap_or_default()
            }

            /// Its facts as JSON text.
            pub(crate) fn data_json(&self) -> String {
                match self { $(Self::$variant(event) => serde_json::to_string(&event.data),)+ }
                    .unwrap_or_default()
            }
        }
    };
}

event_views! {
    /// The run was accepted.
    RunCreated(RunCreatedEvent { RunView }) = "run.created",
    /// A worker claimed the run for the first time.
    RunStarted(RunStartedEvent { RunView }) = "run.started",
    /// The run waits for a caller.
    RunRequiresAction(RunRequiresActionEvent { RunView }) = "run.requires_action",
    /// The run goes on after an interruption or a wait.
    RunResumed(RunResumedEvent { RunView }) = "run.resumed",
    /// A model turn begins.
    TurnStarted(TurnStartedEvent { TurnView }) = "turn.started",
    /// The turn is tried again: drop the deltas of the attempt before.
    TurnRestarted(TurnRestartedEvent { TurnView }) = "turn.restarted",
    /// A call of the turn, before any of them runs.
    ToolCall(ToolCallEvent { ToolCallView }) = "tool.call",
    /// A call's outcome, in call order.
    ToolResult(ToolResultEvent { ToolResultView }) = "tool.result",
    /// A step is complete.
    StepRecorded(StepRecordedEvent { StepView }) = "step.recorded",
    /// Four fifths of a budget are used.
    BudgetWarned(BudgetWarningEvent { BudgetWarning }) = "budget.warning",
    /// The run ended with an answer.
    RunCompleted(RunCompletedEvent { RunView }) = "run.completed",
    /// The run ended with an error.
    RunFailed(RunFailedEvent { RunView }) = "run.failed",
    /// The run was cancelled.
    RunCancelled(RunCancelledEvent { RunView }) = "run.cancelled",
    /// The run was interrupted.
    RunInterrupted(RunInterruptedEvent { RunView }) = "run.interrupted",
}

/// What turns stored events into views.
#[derive(Debug)]
pub(crate) struct EventBook {
    told: Arc<Told>,
    /// The steps that the events are about, as callers may read them.
    steps: BTreeMap<i64, Step>,
    /// What was asked, where no step says it.
    asked: Option<Vec<InputPart>>,
}

impl EventBook {
    /// A book of some events.
    pub(crate) fn new(told: Arc<Told>) -> Self {
        let steps = told.steps.iter().cloned();
        let steps = steps.map(|step| (step.seq, told.redactors.step(step))).collect();
        let asked = told.asked.clone().map(|parts| told.redactors.input(&told.run, parts));
        Self { told, steps, asked }
    }

    /// Whether it is of these events.
    pub(crate) fn is_of(&self, told: &Arc<Told>) -> bool {
        Arc::ptr_eq(&self.told, told)
    }

    /// The events as callers see them.
    pub(crate) fn views(&self) -> impl Iterator<Item = EventView> {
        self.told.events.iter().filter_map(|event| self.view(event))
    }

    /// One of the events as callers see it; `None` when the book lacks what it is about.
    pub(crate) fn nth(&self, index: usize) -> Option<EventView> {
        self.view(self.told.events.get(index)?)
    }

    fn view(&self, event: &RunEvent) -> Option<EventView> {
        let id = event.seq;
        match &event.data {
            EventData::Run(facts) => {
                let run = Run { facts: facts.clone(), ..self.told.run.clone() };
                self.run_event(event.name, id, self.told.redactors.run(run).into())
            }
            EventData::Turn { turn, attempt, fallback } => {
                let fallback = fallback.as_ref().map(|fallback| fallback.model.clone());
                let data = TurnView { turn: *turn, attempt: *attempt, fallback };
                Some(if event.name == EventName::TurnStarted {
                    EventView::TurnStarted(TurnStartedEvent { id, data })
                } else {
                    EventView::TurnRestarted(TurnRestartedEvent { id, data })
                })
            }
            EventData::Budget(data) => {
                Some(EventView::BudgetWarned(BudgetWarningEvent { id, data: *data }))
            }
            EventData::Step { step_seq, .. } => {
                let data = self.steps.get(step_seq)?.clone().into();
                Some(EventView::StepRecorded(StepRecordedEvent { id, data }))
            }
            EventData::Call { step_seq, call_idx, turn } => {
                self.call_event(event, (*step_seq, *call_idx), *turn)
            }
        }
    }

    fn run_event(&self, name: EventName, id: i64, data: RunView) -> Option<EventView> {
        Some(match name {
            EventName::RunCreated => {
                EventView::RunCreated(RunCreatedEvent { id, data: data.with_input(self.input()) })
            }
            EventName::RunStarted => EventView::RunStarted(RunStartedEvent { id, data }),
            EventName::RunRequiresAction => {
                EventView::RunRequiresAction(RunRequiresActionEvent { id, data })
            }
            EventName::RunResumed => EventView::RunResumed(RunResumedEvent { id, data }),
            EventName::RunCompleted => EventView::RunCompleted(RunCompletedEvent { id, data }),
            EventName::RunFailed => EventView::RunFailed(RunFailedEvent { id, data }),
            EventName::RunCancelled => EventView::RunCancelled(RunCancelledEvent { id, data }),
            EventName::RunInterrupted => {
                EventView::RunInterrupted(RunInterruptedEvent { id, data })
            }
            EventName::TurnStarted
            | EventName::TurnRestarted
            | EventName::ToolCall
            | EventName::ToolResult
            | EventName::StepRecorded
            | EventName::BudgetWarning => return None,
        })
    }

    fn input(&self) -> Option<Vec<InputPart>> {
        let given = self.steps.values().find_map(|step| match &step.content {
            StepContent::Task(task) => Some(task.parts.clone()),
            _ => None,
        });
        given.or_else(|| self.asked.clone())
    }

    fn call_event(&self, event: &RunEvent, at: (i64, u32), turn: u32) -> Option<EventView> {
        let (id, (step_seq, call_idx)) = (event.seq, at);
        let StepContent::Action(action) = &self.steps.get(&step_seq)?.content else { return None };
        let call = action.reply.tool_calls().nth(usize::try_from(call_idx).ok()?)?;
        if event.name == EventName::ToolCall {
            let data = ToolCallView {
                turn,
                tool_call_id: call.tool_call_id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            };
            return Some(EventView::ToolCall(ToolCallEvent { id, data }));
        }
        let answers = |outcome: &&ToolOutcome| outcome.tool_call_id == call.tool_call_id;
        let outcome = action.outcomes.iter().find(answers)?.clone();
        let data = ToolResultView { turn, outcome };
        Some(EventView::ToolResult(ToolResultEvent { id, data }))
    }
}
