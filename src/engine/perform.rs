//! Effects to inputs: asks the model, runs the tools, and says what came of it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::feed::Publisher;
use super::redaction::logged;
use super::{Context, sanitise};
use crate::domain::agent::{AgentSpec, ContextStrategy};
use crate::domain::event::Delta;
use crate::domain::id::CallId;
use crate::domain::message::{Reply, ReplyPart, ReplyState, TextPart, ThinkingPart};
use crate::domain::model::{ModelError, ModelErrorKind};
use crate::domain::run::{Failure, FailureCause};
use crate::domain::step::{Replaces, StepContent, SummaryStep};
use crate::machine::effect::Effect;
use crate::machine::input::Input;
use crate::machine::state::State;
use crate::provider::{ModelAnswer, ModelCall, SUMMARY_TURN, retry};
use crate::render::compaction::{self, Cut};
use crate::render::observation::OutputLimits;
use crate::render::profile::Profile;
use crate::render::redact::Redactor;
use crate::render::{FramingRules, RenderInput, redacted, render};
use crate::store::journal::LoadedRun;
use crate::tools::{CallRequest, ToolSet};
use crate::wire::DeltaPiece;

/// An effect that is over.
pub(super) struct Done {
    /// Which one.
    pub(super) effect: Effect,
    /// What came of it.
    pub(super) input: Input,
    /// What the provider answered, byte for byte.
    pub(super) raw_reply: Option<Vec<u8>>,
    /// What the operator should know of a failure.
    pub(super) operator_detail: Option<String>,
    /// How long to wait before the model is asked again.
    pub(super) pause: Option<Duration>,
}

/// What can be done with a conversation that does not fit.
enum Shortening {
    /// Leave output out.
    Drop(SummaryStep),
    /// Ask for a summary.
    Summarise(Cut, Box<ModelCall>),
    /// Nothing.
    Impossible,
}

/// Performs the effects of one run.
pub(super) struct Performer {
    context: Arc<Context>,
    agent: Arc<AgentSpec>,
    tools: Arc<ToolSet>,
    profile: Profile,
    framing: FramingRules,
    first_seq: i64,
    limits: OutputLimits,
    redactor: Arc<Redactor>,
    epoch: i64,
    pause: Duration,
    /// The turn that is under way and when its first attempt here began: `model_timeout_ms` bounds the
    /// turn, retries and pauses included.
    began: (u32, Duration),
    /// The last turn whose prompt the provider found too long.
    too_long: u32,
}

impl Performer {
    pub(super) fn new(
        context: &Arc<Context>,
        loaded: &LoadedRun,
        redactor: &Arc<Redactor>,
        epoch: i64,
    ) -> Self {
        let agent = &loaded.agent;
        Self {
            context: Arc::clone(context),
            tools: Arc::new(context.parts.toolbox.toolset(agent).logging(logged(redactor))),
            profile: Profile::resolve(&agent.model),
            framing: FramingRules::from(&loaded.framing),
            first_seq: loaded.memory_from,
            limits: OutputLimits::from(agent),
            redactor: Arc::clone(redactor),
            agent: Arc::new(agent.clone()),
            epoch,
            pause: Duration::ZERO,
            began: (0, Duration::ZERO),
            too_long: 0,
        }
    }

    /// Waits this long before the next model call, and only before that one.
    pub(super) const fn pause(&mut self, pause: Duration) {
        self.pause = pause;
    }

    /// A future that performs an effect. Dropping it hangs up on the model or the tool.
    pub(super) fn perform(
        &mut self,
        effect: Effect,
        state: &State,
        history: &[StepContent],
        publisher: &Arc<Publisher>,
    ) -> BoxFuture<'static, Done> {
        match &effect {
            Effect::CallModel { turn, attempt, closing } => {
                let call = self.model_call((*turn, *attempt), *closing, history);
                let shortening = self.shortening(&call, state, history);
                let pause = std::mem::take(&mut self.pause);
                let left = call.timeout;
                let (context, tools) = (Arc::clone(&self.context), Arc::clone(&self.tools));
                let publisher = Arc::clone(publisher);
                Box::pin(async move {
                    tokio::time::sleep(pause).await;
                    let call = ModelCall { timeout: left.saturating_sub(pause), ..call };
                    match shortening {
                        None => ask(&context, &tools, (effect, call), &publisher).await,
                        Some(shortening) => shorten(&context, effect, &call, shortening).await,
                    }
                })
            }
            Effect::CallTool { call_id, attempt } => {
                let request = self.tool_call(state, call_id, *attempt);
                let (context, tools) = (Arc::clone(&self.context), Arc::clone(&self.tools));
                Box::pin(async move {
                    let attempt = request.attempt;
                    let outcome = context.parts.toolbox.call(&tools, &request).await;
                    Done::of(effect, Input::CallEnded { outcome, attempt })
                })
            }
            // Not performed: the driver puts the calls on record itself.
            Effect::StartCalls { call_ids } => {
                let input = Input::CallsStarting { call_ids: call_ids.clone() };
                Box::pin(std::future::ready(Done::of(effect, input)))
            }
        }
    }

    /// What had arrived of the reply in flight, when there is one.
    pub(super) fn partial(&self, publisher: &Publisher, state: &State) -> Option<Reply> {
        let partial = publisher.partial();
        if !state.awaits_reply(partial.turn, partial.attempt) {
            return None;
        }
        let mut parts = Vec::new();
        if !partial.thinking.is_empty() {
            parts.push(ReplyPart::Thinking(ThinkingPart {
                text: partial.thinking,
                signature: None,
                id: None,
                issuer: Some(self.agent.model.provider),
            }));
        }
        if !partial.text.is_empty() {
            parts.push(ReplyPart::Text(TextPart { text: partial.text }));
        }
        let mut reply = Reply {
            provider: Some(self.agent.model.provider),
            model: Some(self.agent.model.name.clone()),
            response_id: None,
            finish_reason: None,
            usage: None,
            state: ReplyState::Interrupted,
            parts,
        };
        sanitise::reply(&mut reply);
        Some(reply)
    }

    /// What is left of the turn's time.
    fn time_left(&mut self, turn: u32) -> Duration {
        let now = self.context.parts.clock.monotonic();
        if self.began.0 != turn {
            self.began = (turn, now);
        }
        let bound = Duration::from_millis(self.agent.model_timeout_ms);
        bound.saturating_sub(now.saturating_sub(self.began.1))
    }

    fn model_call(
        &mut self,
        (turn, attempt): (u32, u32),
        closing: bool,
        history: &[StepContent],
    ) -> ModelCall {
        let input = RenderInput {
            model: &self.agent.model,
            instructions: self.agent.instructions.as_deref(),
            steps: history,
            first_seq: self.first_seq,
            tools: self.tools.definitions(),
            closing,
            framing: &self.framing,
            limits: &self.limits,
            redactor: &self.redactor,
        };
        ModelCall {
            spec: self.agent.model.clone(),
            prompt: render(&input, &self.profile),
            profile: self.profile,
            turn,
            attempt,
            timeout: self.time_left(turn),
        }
    }

    /// Whether a failed call is a reason to make the conversation shorter and ask again. It is once a
    /// turn, for an agent that wants it.
    pub(super) fn shortens(&mut self, done: &Done, state: &State) -> bool {
        let Effect::CallModel { turn, .. } = done.effect else { return false };
        let wants_it = self.agent.context_strategy != ContextStrategy::Error;
        let is_new = !state.is_compacted() && self.too_long != turn;
        let shortens = wants_it && is_new && is_too_long(done);
        if shortens {
            self.too_long = turn;
        }
        shortens
    }

    /// What to do before a call whose prompt does not fit, as far as is known.
    fn shortening(
        &self,
        call: &ModelCall,
        state: &State,
        history: &[StepContent],
    ) -> Option<Shortening> {
        let window = self.profile.context_window;
        if self.too_long != call.turn && compaction::fits(&call.prompt, window) {
            return None;
        }
        if state.is_compacted() && self.too_long == call.turn {
            // It was made shorter because the provider refused it; the provider judges again.
            return None;
        }
        let strategy = Some(self.agent.context_strategy).filter(|_| !state.is_compacted());
        let cut = strategy.and_then(|s| compaction::cut(history, self.first_seq, s, window));
        Some(match cut {
            None => Shortening::Impossible,
            Some(cut) if cut.replaces == Replaces::ToolOutput => {
                Shortening::Drop(cut.without_text())
            }
            Some(cut) => {
                let told = redacted(history, &self.redactor);
                let steps = (&*told, self.first_seq);
                let reader = (&self.framing.tags, window);
                let model = &self.agent.model;
                let prompt = compaction::summary_prompt(model, steps, cut.through_seq, reader);
                let call = ModelCall { prompt, turn: SUMMARY_TURN, ..call.clone() };
                Shortening::Summarise(cut, Box::new(call))
            }
        })
    }

    fn tool_call(&self, state: &State, call_id: &CallId, attempt: u32) -> CallRequest {
        let planned = state.call(call_id).map(|call| &call.planned);
        CallRequest {
            call_id: call_id.clone(),
            name: planned.map_or_else(String::new, |planned| planned.name.clone()),
            arguments: planned.map_or_else(String::new, |planned| planned.arguments.clone()),
            attempt,
            epoch: self.epoch,
        }
    }
}

impl Done {
    fn of(effect: Effect, input: Input) -> Self {
        Self { effect, input, raw_reply: None, operator_detail: None, pause: None }
    }
}

/// Asks the model once.
async fn ask(
    context: &Context,
    tools: &ToolSet,
    (effect, call): (Effect, ModelCall),
    publisher: &Publisher,
) -> Done {
    let (turn, attempt) = (call.turn, call.attempt);
    let mut on_delta = |piece: DeltaPiece| {
        publisher.delta(&Delta { turn, attempt, kind: piece.kind, text: piece.text });
    };
    let deadline = context.parts.clock.monotonic() + call.timeout;
    let answer = context.parts.models.call(&call, &mut on_delta).await;
    publisher.arrived();
    match answer {
        Ok(answer) => heard(context, tools, effect, (turn, attempt), answer),
        Err(error) => {
            let error = for_good(error);
            failed(context, (effect, (turn, attempt)), &error, deadline)
        }
    }
}

fn is_too_long(done: &Done) -> bool {
    let Input::ModelFailed { failure, .. } = &done.input else { return false };
    matches!(failure.cause, FailureCause::Model { kind: ModelErrorKind::ContextWindow, .. })
}

/// Makes the conversation shorter. A summary is a model call of its own, within the turn's time, whose
/// deltas are nobody's answer.
async fn shorten(
    context: &Context,
    effect: Effect,
    asked: &ModelCall,
    shortening: Shortening,
) -> Done {
    let (turn, attempt, provider) = (asked.turn, asked.attempt, asked.spec.provider);
    let deadline = context.parts.clock.monotonic() + asked.timeout;
    let summary = match shortening {
        Shortening::Drop(summary) => Ok(summary),
        Shortening::Summarise(cut, call) => {
            summarise(context, cut, &ModelCall { timeout: asked.timeout, ..*call }).await
        }
        Shortening::Impossible => {
            let what = "nothing in the conversation can be made shorter";
            Err(ModelError::new(provider, ModelErrorKind::ContextWindow, what))
        }
    };
    match summary {
        Ok(summary) => Done::of(effect, Input::Compacted { turn, attempt, summary }),
        Err(error) => failed(context, (effect, (turn, attempt)), &for_good(error), deadline),
    }
}

/// Asks a model for a summary.
pub(super) async fn summarise(
    context: &Context,
    cut: Cut,
    call: &ModelCall,
) -> Result<SummaryStep, ModelError> {
    let answer = context.parts.models.call(call, &mut |_| {}).await?;
    let mut reply = answer.reply;
    sanitise::reply(&mut reply);
    let text = reply.text().filter(|text| !text.trim().is_empty()).ok_or_else(|| {
        let what = "the model was asked for a summary and wrote none";
        ModelError::new(call.spec.provider, ModelErrorKind::UnusableOutput, what)
    })?;
    Ok(SummaryStep { text: Some(text), usage: reply.usage, ..cut.without_text() })
}

/// A call that took all that was left of its turn has failed for good.
fn for_good(error: ModelError) -> ModelError {
    let is_ours = error.kind == ModelErrorKind::Timeout && error.provider_status.is_none();
    ModelError { retryable: error.retryable && !is_ours, ..error }
}

fn heard(
    context: &Context,
    tools: &ToolSet,
    effect: Effect,
    (turn, attempt): (u32, u32),
    answer: ModelAnswer,
) -> Done {
    let mut reply = answer.reply;
    sanitise::reply(&mut reply);
    for part in &mut reply.parts {
        if let ReplyPart::ToolCall(call) = part {
            // Providers reuse ids; ours are unique for good.
            let id = context.parts.ids.sortable().simple();
            call.tool_call_id = CallId(format!("call_{id}"));
        }
    }
    let calls = tools.plan(&reply);
    let verdict = reply.text().and_then(|text| tools.verdict(&text));
    let input = Input::Replied { turn, attempt, reply, calls, verdict };
    Done { raw_reply: Some(answer.response.to_vec()), ..Done::of(effect, input) }
}

fn failed(
    context: &Context,
    (effect, (turn, attempt)): (Effect, (u32, u32)),
    error: &ModelError,
    deadline: Duration,
) -> Done {
    // A pause that outlasts the turn's time leaves nothing to try again in.
    let left = deadline.saturating_sub(context.parts.clock.monotonic());
    let pause = retry::backoff(attempt, error.retry_after_ms, context.jitter());
    let pause = pause.filter(|pause| *pause < left);
    let cause = FailureCause::Model {
        provider: error.provider,
        provider_status: error.provider_status,
        kind: error.kind,
    };
    let failure = Failure { cause, detail: error.to_string() };
    // A provider that asks for more patience than a run has is as good as one that said no.
    let retryable = error.retryable && pause.is_some();
    let input = Input::ModelFailed { turn, attempt, retryable, failure };
    let operator_detail = Some(error.operator_detail.clone());
    Done { operator_detail, pause, ..Done::of(effect, input) }
}
