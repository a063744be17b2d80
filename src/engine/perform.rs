//! Effects to inputs: asks the model, runs the tools, and says what came of it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::compaction::{Compactor, Shortening, shorten};
pub(super) use super::done::Done;
use super::feed::Publisher;
use super::leases::Freshness;
use super::masks::Masks;
use super::predecessor::{Kept, Predecessor};
use super::prompt::{Asked, Equipped, Prompter, Told};
use super::sent::{Errand, InFlight, Sent};
use super::sub_runs::Family;
use super::{Context, ask, relay, sanitise, traced};
use crate::domain::agent::Metadata;
use crate::domain::budget::{ASSUMED_OUTPUT, Price, WorstCase};
use crate::domain::event::Delta;
use crate::domain::id::{CallId, TenantId};
use crate::domain::ledger::Purpose;
use crate::domain::limits::MODEL_ATTEMPTS;
use crate::domain::message::{Reply, ReplyPart, ReplyState, TextPart, ThinkingPart};
use crate::domain::model::{FinishReason, ModelError, ModelErrorKind, Provider, Usage};
use crate::domain::run::{Failure, FailureCause};
use crate::domain::step::StepContent;
use crate::machine::effect::Effect;
use crate::machine::input::Input;
use crate::machine::state::State;
use crate::provider::{Attempt, ModelCall, retry};
use crate::render::redact::Redactor;
use crate::render::size;
use crate::store::journal::LoadedRun;
use crate::store::lease::Claim;
use crate::tools::{CallRequest, ToolSet};
use crate::wire::DeltaPiece;

/// Performs the effects of one run.
pub(super) struct Performer {
    context: Arc<Context>,
    tenant: TenantId,
    prompter: Prompter,
    predecessor: Predecessor,
    first_seq: i64,
    epoch: i64,
    labels: Metadata,
    freshness: Freshness,
    pause: Duration,
    /// The turn that is under way and when its first attempt here began: `model_timeout_ms` bounds the
    /// turn, retries and pauses included.
    began: (u32, Duration),
    compactor: Compactor,
    family: Family,
    masks: Masks,
    in_flight: Option<InFlight>,
}

impl Performer {
    pub(super) fn new(
        context: &Arc<Context>,
        loaded: &LoadedRun,
        redactor: &Arc<Redactor>,
        (claim, freshness): (&Claim, &Freshness),
    ) -> Self {
        let (equipped, framing) = (Equipped::of(loaded), &loaded.framing);
        Self {
            context: Arc::clone(context),
            tenant: claim.tenant.clone(),
            prompter: Prompter::new(&context.parts.toolbox, equipped, framing, redactor),
            predecessor: Predecessor::of(&claim.tenant, loaded),
            first_seq: loaded.memory_from,
            epoch: claim.epoch,
            labels: loaded.run.metadata.clone(),
            freshness: freshness.clone(),
            pause: Duration::ZERO,
            began: (0, Duration::ZERO),
            compactor: Compactor::of(loaded, redactor),
            family: Family::of(&claim.tenant, loaded),
            masks: Masks::of(&claim.tenant, loaded),
            in_flight: None,
        }
    }

    /// Lets a failed call be tried again where a shorter conversation helps.
    pub(super) fn reconsider(&mut self, done: &mut Done, state: &State, history: &[StepContent]) {
        self.compactor.reconsider(done, state, history);
    }

    /// The tools that the run has from the start.
    pub(super) fn tools(&self) -> &ToolSet {
        self.prompter.own_tools()
    }

    /// Waits this long before the next model call, and only before that one.
    pub(super) const fn pause(&mut self, pause: Duration) {
        self.pause = pause;
    }

    /// A call is over; what it sent is recorded with the next append.
    pub(super) fn sent(&mut self, sent: Option<&Sent>) {
        self.in_flight = None;
        if let Some(sent) = sent {
            self.predecessor.made(&sent.kept);
        }
    }

    /// The next request is compared with this one, whose reply is on record.
    pub(super) fn replied(&mut self, kept: Kept) {
        self.predecessor.replied(kept);
    }

    /// The request that is hung up on, if one is under way.
    pub(super) async fn abandoned(&mut self) -> Option<Sent> {
        let in_flight = self.in_flight.take()?;
        let before = self.predecessor.made_for(in_flight.purpose());
        in_flight.abandoned(&self.context, before).await
    }

    /// A future that performs an effect, once the lease is young enough for that. Dropping it hangs up
    /// on the model or the tool.
    pub(super) fn perform(
        &mut self,
        effect: Effect,
        state: &State,
        history: &[StepContent],
        publisher: &Arc<Publisher>,
    ) -> BoxFuture<'static, Done> {
        match &effect {
            Effect::CallModel { turn, attempt, closing } => {
                // What is due is due in this state.
                let asked = Asked { turn: *turn, attempt: *attempt, ..Asked::of(state) };
                let call = self.model_call(asked, *closing, history);
                let shortening = self.compactor.shortening(&call, state, history);
                let pause = std::mem::take(&mut self.pause);
                let timeout = call.timeout.saturating_sub(pause);
                let call = Arc::new(ModelCall { timeout, ..call });
                let in_flight = InFlight::of(&call, shortening.as_ref());
                self.in_flight.clone_from(&in_flight);
                let (context, tools) = (Arc::clone(&self.context), self.prompter.tools(history));
                let publisher = Arc::clone(publisher);
                let predecessor = self.predecessor.clone();
                let (freshness, family) = (self.freshness.clone(), self.family.clone());
                Box::pin(async move {
                    tokio::time::sleep(pause).await;
                    freshness.fresh().await;
                    in_flight.inspect(|in_flight| in_flight.begin(&context));
                    let call = (effect, &*call, shortening);
                    let asked = ask_or_shorten(&context, &tools, call, &publisher, &predecessor);
                    let mut done = asked.await;
                    family.settle(&context, &tools, &mut done.input).await;
                    done
                })
            }
            Effect::CallTool { call_id, attempt } => {
                let request = self.tool_call(state, call_id, *attempt);
                let (context, tools) = (Arc::clone(&self.context), self.prompter.tools(history));
                let (freshness, masks) = (self.freshness.clone(), self.masks.at(state.turn()));
                Box::pin(async move {
                    let attempt = request.attempt;
                    freshness.fresh().await;
                    let others = masks.get(&context);
                    let outcome = traced::tool(&context, &tools, &request, others).await;
                    Done::of(effect, Input::CallEnded { outcome, attempt })
                })
            }
            Effect::Probe { call_id, attempt } => {
                let request = self.tool_call(state, call_id, *attempt);
                let (context, tools) = (Arc::clone(&self.context), self.prompter.tools(history));
                let masks = self.masks.at(state.turn());
                Box::pin(async move {
                    let answer = context.parts.toolbox.probe(&tools, &request).await;
                    let answer = masks.answer(&context, answer).await;
                    let CallRequest { call_id, attempt, .. } = request;
                    Done::of(effect, Input::Probed { call_id, attempt, answer })
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
        let (model, _) = self.prompter.model(state.fallback());
        let mut parts = Vec::new();
        if !partial.thinking.is_empty() {
            parts.push(ReplyPart::Thinking(ThinkingPart {
                text: partial.thinking,
                signature: None,
                id: None,
                echo: None,
                issuer: Some(model.provider),
            }));
        }
        if !partial.text.is_empty() {
            parts.push(ReplyPart::Text(TextPart { text: partial.text, echo: None }));
        }
        let mut reply = Reply {
            provider: Some(model.provider),
            host: model.host(),
            model: Some(model.name.clone()),
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
        let bound = Duration::from_millis(self.prompter.agent.model_timeout_ms);
        bound.saturating_sub(now.saturating_sub(self.began.1))
    }

    fn model_call(&mut self, asked: Asked, closing: bool, history: &[StepContent]) -> ModelCall {
        let told = Told { steps: history, first_seq: self.first_seq, closing };
        let timeout = self.time_left(asked.turn);
        self.prompter.call(told, asked, timeout)
    }

    /// The price of the model that is asked, where it is known.
    pub(super) fn price(&self, state: &State) -> Option<Price> {
        self.context.parts.prices.of(self.prompter.model(state.fallback()).0)
    }

    /// The most that the call of a model is foreseen to take which is due in a state.
    pub(super) fn worst_case(&self, state: &State, history: &[StepContent]) -> WorstCase {
        let (first_seq, closing) = (self.first_seq, state.is_closing());
        let told = Told { steps: history, first_seq, closing };
        let call = self.prompter.call(told, Asked::of(state), Duration::ZERO);
        let least = ASSUMED_OUTPUT.max(call.profile.default_max_tokens);
        let most = call.spec.settings.max_output_tokens.unwrap_or(least);
        WorstCase::of(size::of_prompt(&call.prompt), most, self.price(state))
    }

    fn tool_call(&self, state: &State, call_id: &CallId, attempt: u32) -> CallRequest {
        let planned = state.call(call_id).map(|call| &call.planned);
        CallRequest {
            tenant: self.tenant.clone(),
            call_id: call_id.clone(),
            name: planned.map_or_else(String::new, |planned| planned.name.clone()),
            arguments: planned.map_or_else(String::new, |planned| planned.arguments.clone()),
            attempt,
            epoch: self.epoch,
            labels: self.labels.clone(),
        }
    }
}

/// Asks the model once, or makes the conversation shorter where that comes first.
async fn ask_or_shorten(
    context: &Arc<Context>,
    tools: &ToolSet,
    (effect, call, shortening): (Effect, &ModelCall, Option<Shortening>),
    publisher: &Publisher,
    predecessor: &Predecessor,
) -> Done {
    match shortening {
        None => ask(context, tools, (effect, call), publisher, predecessor).await,
        Some(shortening) => shorten(context, effect, call, shortening, predecessor).await,
    }
}

/// Asks the model once.
async fn ask(
    context: &Arc<Context>,
    tools: &ToolSet,
    (effect, call): (Effect, &ModelCall),
    publisher: &Publisher,
    predecessor: &Predecessor,
) -> Done {
    let (turn, attempt) = (call.turn, call.attempt);
    let mut on_delta = |piece: DeltaPiece| {
        publisher.delta(&Delta { turn, attempt, kind: piece.kind, text: piece.text });
    };
    let deadline = context.parts.clock.monotonic() + call.timeout;
    let answer = ask::ask(context, predecessor.tenant(), call, &mut on_delta);
    let before = predecessor.before(context, call.spec.provider);
    let (mut answer, before) = futures::join!(answer, before);
    relay::arrived(context, publisher).await;
    let spent = refuse_failed(&mut answer, call.spec.provider);
    let errand = Errand { turn, attempt, purpose: Purpose::Reply };
    let sent = Sent::of(context, call, errand, (&answer, spent), before).await;
    let done = match answer.outcome {
        Ok(reply) => {
            let reply = Reply { host: call.spec.host(), ..reply };
            read(context, tools, effect, (turn, attempt), reply)
        }
        Err(error) => failed(context, effect, call, &error, deadline),
    };
    Done { sent, spent, ..done }
}

/// Makes a failure of a reply that its provider ended with an error, whatever had come of it, and
/// answers what it took.
pub(super) fn refuse_failed(answer: &mut Attempt, provider: Provider) -> Option<Usage> {
    let failed = answer.outcome.as_ref().ok();
    let failed = failed.filter(|reply| reply.finish_reason == Some(FinishReason::Error))?;
    let usage = failed.usage;
    let what = "the provider names an error as the reason for which its reply ends";
    answer.outcome = Err(ModelError::new(provider, ModelErrorKind::Server, what));
    usage
}

fn read(
    context: &Context,
    tools: &ToolSet,
    effect: Effect,
    (turn, attempt): (u32, u32),
    mut reply: Reply,
) -> Done {
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
    Done::of(effect, input)
}

/// What comes of a model call that failed.
pub(super) fn failed(
    context: &Context,
    effect: Effect,
    call: &ModelCall,
    error: &ModelError,
    deadline: Duration,
) -> Done {
    let (turn, attempt) = (call.turn, call.attempt);
    // A pause that outlasts the turn's time leaves nothing to try again in, as does a call that took
    // all of it.
    let left = deadline.saturating_sub(context.parts.clock.monotonic());
    let pause = pause_before(context, call, error, left);
    let cause = FailureCause::Model {
        provider: error.provider,
        provider_status: error.provider_status,
        kind: error.kind,
    };
    let failure = Failure { cause, detail: error.to_string() };
    let elsewhere = error.kind.may_pass_elsewhere() && !left.is_zero();
    let retryable = pause.is_ok_and(|pause| pause.is_some());
    let input = Input::ModelFailed { turn, attempt, retryable, elsewhere, failure };
    let mut operator_detail = error.operator_detail.clone();
    if pause == Err(NoRetriesLeft) {
        operator_detail.push_str("; it is not tried again: ");
        operator_detail.push_str(NO_RETRIES_LEFT);
    }
    let (operator_detail, pause) = (Some(operator_detail), pause.unwrap_or_default());
    Done { operator_detail, pause, ..Done::of(effect, input) }
}

/// What the operator is told of a failure that is final before its time.
pub(super) const NO_RETRIES_LEFT: &str =
    "the retries of this key or server are used up, which are a tenth of its calls and three";

/// What is called has used up its retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRetriesLeft;

/// How long to wait before a model is asked again that failed so, where that is worth it and ends in the
/// time that is left; a provider that asks for more patience is as good as one that said no.
pub(super) fn pause_before(
    context: &Context,
    call: &ModelCall,
    error: &ModelError,
    left: Duration,
) -> Result<Option<Duration>, NoRetriesLeft> {
    let pause = retry::backoff(call.tries, error.retry_after_ms, context.jitter());
    let pause = pause.filter(|pause| error.retryable && *pause < left);
    match pause.filter(|_| call.tries < MODEL_ATTEMPTS) {
        None => Ok(None),
        Some(pause) if context.parts.models.may_retry(&call.spec) => Ok(Some(pause)),
        Some(_) => Err(NoRetriesLeft),
    }
}
