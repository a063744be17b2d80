//! Telling a thread in a shorter form between its runs, because a caller asks for it.
//!
//! The model is asked within the caller's request: a caller who goes away takes the call with them, and
//! nothing is written. No connection is held meanwhile, and the write is one that only the thread as it
//! was seen before takes.

use std::sync::Arc;
use std::time::Duration;

use super::compaction::{summarise, summary_call};
use super::perform::{NO_RETRIES_LEFT, NoRetriesLeft, pause_before};
use super::predecessor::{Before, Known};
use super::sent::Errand;
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
    let (summary, sent) = match how {
        Shorter::WithoutToolOutput => (cut.without_text(), Vec::new()),
        Shorter::Told(text) => (SummaryStep { text: Some(text), ..cut.without_text() }, Vec::new()),
        Shorter::Summarised(agent) => {
            let agent = accept::choose_agent(context, tenant, agent).await?.spec;
            let redactor = context.parts.redaction.of_thread(id, &agent.redaction);
            let told = redacted(&steps, &redactor);
            let bounds = (1, Duration::from_millis(agent.model_timeout_ms));
            let tags = Tags::stored(&thread.framing.tags);
            let reader = (&tags, Profile::resolve(&agent.model).context_window);
            let told = (&*told, thread.memory_from);
            let call = summary_call(&agent.model, told, cut, reader, bounds);
            let (summary, sent) = written(context, (&thread, &redactor), (cut, call)).await?;
            match summary {
                Ok(summary) => (summary, sent),
                Err(error) => {
                    recorded(context, tenant, id, sent).await;
                    return Err(error.into());
                }
            }
        }
    };
    let content = (StepContent::Summary(summary), sent.clone());
    let appended = operator::append(store, tenant, id, content, write).await;
    if appended.is_err() {
        recorded(context, tenant, id, sent).await;
    }
    Ok(appended?)
}

/// Records requests of which no step came.
async fn recorded(
    context: &Context,
    tenant: &TenantId,
    thread: ThreadId,
    sent: Vec<Arc<NewRequest>>,
) {
    let sent: Vec<Recorded> =
        sent.into_iter().map(|request| Recorded { request, step_seq: None }).collect();
    if let Err(error) = ledger::record(context.store(), tenant, thread, &sent).await {
        tracing::warn!(%thread, error = %error, "requests were not recorded");
    }
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

/// What comes of asking for a summary, and the requests that were made for it.
type Asked = (Result<SummaryStep, ModelError>, Vec<Arc<NewRequest>>);

/// The summary that a model writes, unless the server stops first: whoever asked asks another one.
async fn written(
    context: &Context,
    (thread, redactor): (&Thread, &Redactor),
    (cut, call): (Cut, ModelCall),
) -> Result<Asked, AgentlingError> {
    let asked = tokio::select! {
        asked = patiently(context, (cut, call)) => asked,
        () = context.tasks.stopping() => return Err(AgentlingError::Draining),
    };
    if let Err(error) = &asked.0 {
        let detail = redactor.text(RedactionChannel::Log, &error.operator_detail);
        tracing::warn!(thread = %thread.id, detail = &*detail, "a model was asked for a summary and failed");
    }
    Ok(asked)
}

/// Asks as often as a turn would, within its time.
async fn patiently(context: &Context, (cut, call): (Cut, ModelCall)) -> Asked {
    let clock = &context.parts.clock;
    let deadline = clock.monotonic().saturating_add(call.timeout);
    let (mut entries, mut bases) = (Vec::new(), Vec::new());
    let mut attempt = 1;
    loop {
        let timeout = deadline.saturating_sub(clock.monotonic());
        let before = Before { known: Known::None, bases };
        let call = ModelCall { attempt, tries: attempt, timeout, ..call.clone() };
        let errand = Errand { turn: SUMMARY_TURN, attempt, purpose: Purpose::Summary };
        let (summary, sent) = summarise(context, cut, (&call, errand), before).await;
        bases = sent.iter().map(|sent| sent.kept.clone()).collect();
        entries.extend(sent.map(|sent| sent.entry));
        let error = match summary {
            Ok(summary) => return (Ok(summary), entries),
            // No run is there to count what it took.
            Err(failed) => failed.error,
        };
        let left = deadline.saturating_sub(clock.monotonic());
        let pause = match pause_before(context, &call, &error, left) {
            Ok(Some(pause)) => pause,
            Ok(None) => return (Err(error), entries),
            Err(NoRetriesLeft) => {
                let operator_detail = format!("{}; {NO_RETRIES_LEFT}", error.operator_detail);
                return (Err(ModelError { operator_detail, ..error }), entries);
            }
        };
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}
