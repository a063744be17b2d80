//! Telling a thread in a shorter form between its runs, because a caller asks for it.
//!
//! The model is asked within the caller's request: a caller who goes away takes the call with them, and
//! nothing is written. No connection is held meanwhile, and the write is one that only the thread as it
//! was seen before takes.

use std::sync::Arc;
use std::time::Duration;

use super::compaction::{summarise, summary_call};
use super::perform::{NO_RETRIES_LEFT, NoRetriesLeft, for_good, pause_before};
use super::{Context, WhichAgent, accept};
use crate::domain::id::TenantId;
use crate::domain::model::ModelError;
use crate::domain::redaction::RedactionChannel;
use crate::domain::step::{Replaces, Step, StepContent, SummaryStep};
use crate::domain::thread::Thread;
use crate::error::AgentlingError;
use crate::provider::ModelCall;
use crate::render::compaction::{Cut, gains, retells};
use crate::render::framing::Tags;
use crate::render::profile::Profile;
use crate::render::redact::Redactor;
use crate::render::redacted;
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
            written(context, (&thread, &redactor), (cut, call)).await?
        }
    };
    Ok(operator::append(store, tenant, id, StepContent::Summary(summary), write).await?)
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

/// The summary that a model writes, unless the server stops first: whoever asked asks another one.
async fn written(
    context: &Context,
    (thread, redactor): (&Thread, &Redactor),
    (cut, call): (Cut, ModelCall),
) -> Result<SummaryStep, AgentlingError> {
    tokio::select! {
        summary = patiently(context, (cut, call)) => summary.map_err(|error| {
            let detail = redactor.text(RedactionChannel::Log, &error.operator_detail);
            tracing::warn!(thread = %thread.id, detail = &*detail, "a model was asked for a summary and failed");
            error.into()
        }),
        () = context.tasks.stopping() => Err(AgentlingError::Draining),
    }
}

/// Asks as often as a turn would, within its time.
async fn patiently(
    context: &Context,
    (cut, call): (Cut, ModelCall),
) -> Result<SummaryStep, ModelError> {
    let clock = &context.parts.clock;
    let deadline = clock.monotonic().saturating_add(call.timeout);
    let mut attempt = 1;
    loop {
        let timeout = deadline.saturating_sub(clock.monotonic());
        let call = ModelCall { attempt, tries: attempt, timeout, ..call.clone() };
        let error = match summarise(context, cut, &call).await {
            Ok(summary) => return Ok(summary),
            // No run is there to count what it took.
            Err(failed) => for_good(failed.error),
        };
        let left = deadline.saturating_sub(clock.monotonic());
        let pause = match pause_before(context, &call, &error, left) {
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
