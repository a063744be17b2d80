//! What a run does about a conversation that does not fit its model: at most once a turn, older steps
//! are told in a shorter form from then on.

use std::sync::Arc;
use std::time::Duration;

use super::ask::ask;
use super::perform::{Done, failed, refuse_failed};
use super::predecessor::{Before, Predecessor};
use super::sent::{Errand, Sent};
use super::{Context, sanitise};
use crate::domain::agent::ContextStrategy;
use crate::domain::id::TenantId;
use crate::domain::ledger::Purpose;
use crate::domain::message::Reply;
use crate::domain::model::{FinishReason, ModelError, ModelErrorKind, ModelSpec, Provider, Usage};
use crate::domain::run::{Failure, FailureCause};
use crate::domain::step::{Replaces, StepContent, SummaryStep};
use crate::machine::effect::Effect;
use crate::machine::input::Input;
use crate::machine::state::State;
use crate::provider::{ModelCall, SUMMARY_TURN};
use crate::render::compaction::{self, Cut};
use crate::render::framing::Tags;
use crate::render::profile::Profile;
use crate::render::redact::Redactor;
use crate::render::redacted;
use crate::store::journal::LoadedRun;

/// What is done before a call whose prompt does not fit.
pub(super) enum Shortening {
    /// Leave output out.
    Drop(SummaryStep),
    /// Ask for a summary.
    Summarise(Cut, Arc<ModelCall>),
    /// Nothing.
    Impossible,
}

/// Decides when the conversation of a run is made shorter, and how.
pub(super) struct Compactor {
    redactor: Arc<Redactor>,
    strategy: ContextStrategy,
    tags: Tags,
    first_seq: i64,
    /// The window of the model, should it refuse the prompt that it was last sent.
    window_below: u32,
    /// The last turn whose prompt the provider refused as too long.
    refused: u32,
    /// Whether the model call under way is made to shorten the conversation.
    is_shortening: bool,
}

impl Compactor {
    pub(super) fn of(loaded: &LoadedRun, redactor: &Arc<Redactor>) -> Self {
        Self {
            redactor: Arc::clone(redactor),
            strategy: loaded.agent.context_strategy,
            tags: Tags::stored(&loaded.framing.tags),
            first_seq: loaded.memory_from,
            window_below: 0,
            refused: 0,
            is_shortening: false,
        }
    }

    /// Lets a turn that the provider refused as too long be tried again, with a conversation that is
    /// made shorter first. That is once a turn, for an agent that wants it, and only where it helps.
    pub(super) fn reconsider(&mut self, done: &mut Done, state: &State, history: &[StepContent]) {
        let Input::ModelFailed { turn, retryable, failure, .. } = &mut done.input else { return };
        let is_first = !state.is_compacted() && !self.is_shortening && self.refused != *turn;
        let helps = || self.cut(self.strategy, history, Some(self.window_below)).is_some();
        if is_first && is_too_long(failure) && helps() {
            self.refused = *turn;
            *retryable = true;
            done.pause = None;
        }
    }

    /// What to do before a call whose prompt does not fit, as far as is known.
    pub(super) fn shortening(
        &mut self,
        call: &ModelCall,
        state: &State,
        history: &[StepContent],
    ) -> Option<Shortening> {
        let window = call.profile.context_window;
        self.window_below = compaction::window_below(&call.prompt, window);
        self.is_shortening = self.is_needed(call, state);
        self.is_shortening.then(|| {
            let is_refused = self.refused == call.turn;
            let window = if is_refused { Some(self.window_below) } else { window };
            // What does not fit after one time will not fit after another.
            let strategy =
                if state.is_compacted() { ContextStrategy::Error } else { self.strategy };
            match self.cut(strategy, history, window) {
                None => Shortening::Impossible,
                Some(cut) if cut.replaces == Replaces::ToolOutput => {
                    Shortening::Drop(cut.without_text())
                }
                Some(cut) => {
                    let told = redacted(history, &self.redactor);
                    let steps = (&*told, self.first_seq);
                    let (reader, bounds) = ((&self.tags, window), (call.tries, call.timeout));
                    let asked = summary_call(&call.spec, steps, cut, reader, bounds);
                    Shortening::Summarise(cut, Arc::new(asked))
                }
            }
        })
    }

    fn is_needed(&self, call: &ModelCall, state: &State) -> bool {
        if self.refused == call.turn {
            // Once it is shorter, whoever refused it judges again.
            !state.is_compacted()
        } else {
            !compaction::fits(&call.prompt, call.profile.context_window)
        }
    }

    fn cut(
        &self,
        strategy: ContextStrategy,
        history: &[StepContent],
        window: Option<u32>,
    ) -> Option<Cut> {
        compaction::cut(history, self.first_seq, strategy, window)
    }
}

fn is_too_long(failure: &Failure) -> bool {
    matches!(failure.cause, FailureCause::Model { kind: ModelErrorKind::ContextWindow, .. })
}

/// The call that asks a model for a summary of what is before a cut in these steps, which are redacted:
/// one of its own, of no turn. It has to fit the window, where one is known.
pub(super) fn summary_call(
    model: &ModelSpec,
    steps: (&[StepContent], i64),
    cut: Cut,
    reader: (&Tags, Option<u32>),
    (tries, timeout): (u32, Duration),
) -> ModelCall {
    let profile = Profile::resolve(model);
    let prompt = compaction::summary_prompt(model, steps, cut.through_seq, reader);
    let (spec, turn, attempt) = (model.clone(), SUMMARY_TURN, tries);
    ModelCall { spec, prompt, profile, turn, attempt, tries, timeout }
}

/// Makes the conversation shorter before a call. A summary is a model call of its own, within the time
/// of the turn that waits for it.
pub(super) async fn shorten(
    context: &Context,
    effect: Effect,
    asked: &ModelCall,
    shortening: Shortening,
    predecessor: &Predecessor,
) -> Done {
    let (turn, attempt, provider) = (asked.turn, asked.attempt, asked.spec.provider);
    let deadline = context.parts.clock.monotonic() + asked.timeout;
    let (summary, sent) = match shortening {
        Shortening::Drop(summary) => (Ok(summary), None),
        Shortening::Summarise(cut, call) => {
            let call = ModelCall { timeout: asked.timeout, ..ModelCall::clone(&call) };
            let before = predecessor.made_for(Purpose::Summary);
            let errand = Errand { turn, attempt, purpose: Purpose::Summary };
            summarise(context, cut, (&call, errand), (predecessor.tenant(), before)).await
        }
        Shortening::Impossible => {
            let what = "it is estimated not to fit, and is not to be or cannot be made shorter";
            (Err(ModelError::new(provider, ModelErrorKind::ContextWindow, what).into()), None)
        }
    };
    let done = match summary {
        Ok(summary) => Done::of(effect, Input::Compacted { turn, attempt, summary }),
        Err(Unsummarised { error, spent }) => {
            Done { spent, ..failed(context, effect, asked, &error, deadline) }
        }
    };
    Done { sent, ..done }
}

/// Why there is no summary.
pub(super) struct Unsummarised {
    /// What failed.
    pub(super) error: ModelError,
    /// What a reply took that holds no summary.
    pub(super) spent: Option<Usage>,
}

impl From<ModelError> for Unsummarised {
    fn from(error: ModelError) -> Self {
        Self { error, spent: None }
    }
}

/// Asks a model for a summary, once. Its deltas are nobody's answer.
pub(super) async fn summarise(
    context: &Context,
    cut: Cut,
    (call, errand): (&ModelCall, Errand),
    (tenant, before): (&TenantId, Before),
) -> (Result<SummaryStep, Unsummarised>, Option<Sent>) {
    let provider = call.spec.provider;
    let mut answer = ask(context, tenant, call, &mut |_| {}).await;
    let spent = refuse_failed(&mut answer, provider);
    let sent = Sent::of(context, call, errand, (&answer, spent), before).await;
    let summary = summary_in(answer.outcome, cut, provider);
    let told = |failed: Unsummarised| Unsummarised { spent: failed.spent.or(spent), ..failed };
    (summary.map_err(told), sent)
}

fn summary_in(
    outcome: Result<Reply, ModelError>,
    cut: Cut,
    provider: Provider,
) -> Result<SummaryStep, Unsummarised> {
    let mut reply = outcome?;
    sanitise::reply(&mut reply);
    let usage = reply.usage;
    match text_of(&reply, provider) {
        Ok(text) => Ok(SummaryStep { text: Some(text), usage, ..cut.without_text() }),
        Err(error) => Err(Unsummarised { error, spent: usage }),
    }
}

/// The summary that a reply holds. One that the size limit cut off still says most of it.
fn text_of(reply: &Reply, provider: Provider) -> Result<String, ModelError> {
    let refuse = |kind, what: &str| Err(ModelError::new(provider, kind, what));
    if reply.finish_reason == Some(FinishReason::ContentFilter) {
        return refuse(ModelErrorKind::ContentFilter, "the provider withheld a summary");
    }
    let none = "the model was asked for a summary and wrote none";
    reply.text().map_or_else(|| refuse(ModelErrorKind::UnusableOutput, none), Ok)
}
