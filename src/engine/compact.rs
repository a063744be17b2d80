//! Telling a thread in a shorter form between its runs, because a caller asks for it.
//!
//! The model is asked for as long as the caller waits: one who goes away takes the call with them, and
//! nothing is written but what was sent. No connection is held meanwhile, and the write is one that only
//! the thread as it was seen before takes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::compaction::{summarise, summary_call};
use super::perform::{NO_RETRIES_LEFT, NoRetriesLeft, pause_before};
use super::predecessor::{Before, Kept, Known};
use super::sent::{Errand, InFlight};
use super::{Context, WhichAgent, accept};
use crate::domain::id::{TenantId, ThreadId};
use crate::domain::ledger::Purpose;
use crate::domain::model::ModelError;
use crate::domain::redaction::RedactionChannel;
use crate::domain::step::{Replaces, Step, StepContent, SummaryStep};
use crate::domain::thread::Thread;
use crate::error::AgentlingError;
use crate::provider::{ModelCall, SUMMARY_TURN};
use crate::render::compaction::{Cut, gains, retells};
use crate::render::framing::Tags;
use crate::render::profile::Profile;
use crate::render::redact::Redactor;
use crate::render::redacted;
use crate::store::ledger::{self, NewRequest, Recorded};
use crate::store::operator::{self, OperatorWrite};
use crate::store::steps;

/// How a thread is told in a shorter form.
#[derive(Debug, Clone, PartialEq)]
pub enum Shorter {
    /// Without what its tools gave back.
    WithoutToolOutput,
    /// By a summary that the caller wrote.
    Told(String),
    /// By a summary that the model of an agent writes.
    Summarised(WhichAgent),
}

/// What a caller asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactThread {
    /// The thread as the caller's request found it.
    pub thread: Thread,
    /// How it is told from then on.
    pub how: Shorter,
    /// `seq` of the last step that is told so; by default the thread's last one.
    pub through_seq: Option<i64>,
    /// The write of the step.
    pub write: OperatorWrite,
}

pub(super) async fn compact(
    context: &Arc<Context>,
    tenant: &TenantId,
    asked: CompactThread,
) -> Result<Option<Step>, AgentlingError> {
    if context.tasks.is_stopping() {
        return Err(AgentlingError::Draining);
    }
    let CompactThread { thread, how, through_seq, write } = asked;
    let seen = Some((thread.revision, thread.head_seq));
    let write = OperatorWrite { seen, ..write };
    let (store, id) = (context.store(), thread.id);
    if !operator::may_append(store, tenant, id, seen).await? {
        return Ok(None);
    }
    let steps = steps::memory(store, tenant, id, thread.memory_from).await?;
    let steps: Vec<StepContent> = steps.into_iter().map(|step| step.content).collect();
    let history = (steps.as_slice(), thread.memory_from);
    let cut = cut(history, &how, through_seq.unwrap_or(thread.head_seq))?;
    let summary = match how {
        Shorter::WithoutToolOutput => cut.without_text(),
        Shorter::Told(text) => SummaryStep { text: Some(text), ..cut.without_text() },
        Shorter::Summarised(agent) => {
            let agent = accept::choose_agent(context, tenant, agent).await?.spec;
            let redactor = context.parts.redaction.of_thread(id, &agent.redaction);
            let told = redacted(&steps, &redactor);
            let bounds = (1, Duration::from_millis(agent.model_timeout_ms));
            let tags = Tags::stored(&thread.framing.tags);
            let reader = (&tags, Profile::resolve(&agent.model).context_window);
            let told = (&*told, thread.memory_from);
            let call = summary_call(&agent.model, told, cut, reader, bounds);
            let asking = Asking::of(context, (tenant, id), redactor);
            return asking.in_task((cut, call), write).await;
        }
    };
    let content = (StepContent::Summary(summary), Vec::new());
    Ok(operator::append(store, tenant, id, content, write).await?)
}

/// The cut, where it gains something.
fn cut(
    (steps, first_seq): (&[StepContent], i64),
    how: &Shorter,
    through_seq: i64,
) -> Result<Cut, AgentlingError> {
    let end = first_seq.saturating_add(i64::try_from(steps.len()).unwrap_or(i64::MAX));
    if steps.is_empty() {
        return Err(AgentlingError::NothingToCompact);
    }
    if !(first_seq..end).contains(&through_seq) {
        let message =
            format!("must be the `seq` of a step that a model sees, {first_seq}–{}", end - 1);
        return Err(AgentlingError::invalid("/through_seq", "out_of_range", &message));
    }
    let replaces = match how {
        Shorter::WithoutToolOutput => Replaces::ToolOutput,
        Shorter::Told(_) | Shorter::Summarised(_) => Replaces::Steps,
    };
    let cut = Cut { replaces, through_seq };
    let retells = match how {
        Shorter::Told(text) => retells(steps, first_seq, (cut, text)),
        Shorter::WithoutToolOutput | Shorter::Summarised(_) => false,
    };
    if retells || gains(steps, first_seq, cut) {
        Ok(cut)
    } else {
        Err(AgentlingError::NothingToCompact)
    }
}

/// A summary that a model is asked for, and what was sent for it.
struct Asking {
    context: Arc<Context>,
    tenant: TenantId,
    thread: ThreadId,
    redactor: Redactor,
    entries: Vec<Arc<NewRequest>>,
    bases: Vec<Kept>,
    in_flight: Option<InFlight>,
}

/// What the caller is told.
type Told = Result<Option<Step>, AgentlingError>;

impl Asking {
    fn of(
        context: &Arc<Context>,
        (tenant, thread): (&TenantId, ThreadId),
        redactor: Redactor,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            tenant: tenant.clone(),
            thread,
            redactor,
            entries: Vec::new(),
            bases: Vec::new(),
            in_flight: None,
        }
    }

    /// Asks in a task of its own, which outlives the caller for as long as it takes to record what was
    /// sent.
    async fn in_task(self, asked: (Cut, ModelCall), write: OperatorWrite) -> Told {
        let (caller, told) = oneshot::channel();
        let context = Arc::clone(&self.context);
        context.tasks.spawn(self.answer(asked, write, caller));
        let broke = |_| Err(AgentlingError::internal("the task that asks for a summary broke off"));
        told.await.unwrap_or_else(broke)
    }

    /// Asks for as long as the caller waits and the server is not stopping: whoever asked asks another
    /// one then.
    async fn answer(
        mut self,
        asked: (Cut, ModelCall),
        write: OperatorWrite,
        mut caller: oneshot::Sender<Told>,
    ) {
        let context = Arc::clone(&self.context);
        let summary = tokio::select! {
            summary = self.patiently(asked) => Some(summary),
            () = context.tasks.stopping() => None,
            () = caller.closed() => None,
        };
        let told = match summary {
            Some(Ok(summary)) => self.append(summary, write).await,
            Some(Err(error)) => {
                self.log(&error);
                self.record().await;
                Err(error.into())
            }
            None => {
                self.abandon().await;
                Err(AgentlingError::Draining)
            }
        };
        // A caller who is gone needs no answer.
        drop(caller.send(told));
    }

    /// Asks as often as a turn would, within its time.
    async fn patiently(
        &mut self,
        (cut, call): (Cut, ModelCall),
    ) -> Result<SummaryStep, ModelError> {
        let context = Arc::clone(&self.context);
        let clock = &context.parts.clock;
        let deadline = clock.monotonic().saturating_add(call.timeout);
        let mut attempt = 1;
        loop {
            let timeout = deadline.saturating_sub(clock.monotonic());
            let call = Arc::new(ModelCall { attempt, tries: attempt, timeout, ..call.clone() });
            let error = match self.once(cut, &call).await {
                Ok(summary) => return Ok(summary),
                Err(error) => error,
            };
            let left = deadline.saturating_sub(clock.monotonic());
            let pause = match pause_before(&context, &call, &error, left) {
                Ok(Some(pause)) => pause,
                Ok(None) => return Err(error),
                Err(NoRetriesLeft) => {
                    let operator_detail = format!("{}; {NO_RETRIES_LEFT}", error.operator_detail);
                    return Err(ModelError { operator_detail, ..error });
                }
            };
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn once(&mut self, cut: Cut, call: &Arc<ModelCall>) -> Result<SummaryStep, ModelError> {
        let errand =
            Errand { turn: SUMMARY_TURN, attempt: call.attempt, purpose: Purpose::Summary };
        self.in_flight = Some(InFlight::of_summary(&self.context, call));
        let before = self.before();
        let (summary, sent) =
            summarise(&self.context, cut, (call, errand), (&self.tenant, before)).await;
        self.in_flight = None;
        if let Some(sent) = sent {
            self.bases = vec![sent.kept];
            self.entries.push(sent.entry);
        }
        // No run is there to count what a failure took.
        summary.map_err(|failed| failed.error)
    }

    fn before(&self) -> Before {
        Before { known: Known::None, bases: self.bases.clone() }
    }

    async fn append(&mut self, summary: SummaryStep, write: OperatorWrite) -> Told {
        let content = (StepContent::Summary(summary), self.entries.clone());
        let store = self.context.store();
        let appended = operator::append(store, &self.tenant, self.thread, content, write).await;
        if !matches!(appended, Ok(Some(_))) {
            self.record().await;
        }
        Ok(appended?)
    }

    /// Records what was sent for nothing, the call that is hung up on included.
    async fn abandon(&mut self) {
        if let Some(in_flight) = self.in_flight.take() {
            let sent = in_flight.abandoned(&self.context, self.before()).await;
            self.entries.extend(sent.map(|sent| sent.entry));
        }
        self.record().await;
    }

    /// Records requests of which no step came.
    async fn record(&mut self) {
        let sent = std::mem::take(&mut self.entries).into_iter();
        let sent: Vec<Recorded> =
            sent.map(|request| Recorded { request, step_seq: None }).collect();
        let store = self.context.store();
        if let Err(error) = ledger::record(store, &self.tenant, self.thread, &sent).await {
            tracing::warn!(thread = %self.thread, error = %error, "requests were not recorded");
        }
    }

    fn log(&self, error: &ModelError) {
        let detail = self.redactor.text(RedactionChannel::Log, &error.operator_detail);
        tracing::warn!(thread = %self.thread, detail = &*detail, "a model was asked for a summary and failed");
    }
}
