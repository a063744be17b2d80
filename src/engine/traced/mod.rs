//! What is traced and counted of runs, of calls of models and of calls of tools: spans by the `GenAI`
//! conventions of OpenTelemetry.

mod content;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Context;
use crate::domain::id::AgentId;
use crate::domain::model::{FinishReason, Provider};
use crate::domain::outcome::OutcomeKind;
use crate::domain::redaction::RedactionChannel;
use crate::domain::run::{FailureCause, RunFacts};
use crate::domain::tool::ToolOutcome;
use crate::instruments::{Conversation, Kind, Span};
use crate::provider::{Attempt, ModelCall};
use crate::render::prompt::MarkedText;
use crate::render::redact::Redactor;
use crate::store::journal::LoadedRun;
use crate::store::lease::Claim;
use crate::tools::mask::Mask;
use crate::tools::{CallRequest, ToolSet};

const OPERATION: &str = "gen_ai.operation.name";
const PROVIDER: &str = "gen_ai.provider.name";
const MODEL: &str = "gen_ai.request.model";

/// The span of what a worker does of a run between a claim and its end here.
pub(super) fn run(
    context: &Context,
    (claim, began): (&Claim, DateTime<Utc>),
    loaded: &LoadedRun,
    redactor: &Arc<Redactor>,
) -> Span {
    if claim.last_fault.is_some() {
        context.parts.instruments.metrics.taken_over();
    }
    let (agent, run) = (&loaded.agent, &loaded.run);
    let conversation = || {
        let (thread, own) = (run.thread_id.to_string(), Arc::clone(redactor));
        let server = context.parts.redaction.of_server();
        // What looks like a credential goes too, before anything is cut, which could hide it.
        let redact = move |text: &str| {
            let text = own.json_text(RedactionChannel::Trace, text);
            server.json_text(RedactionChannel::Trace, &text).into_owned()
        };
        (
            format!("invoke_agent {}", agent.name),
            Conversation { id: thread, redact: Arc::new(redact) },
        )
    };
    let span = context.parts.instruments.tracer.conversation(began.into(), conversation);
    if span.is_on() {
        span.set(OPERATION, "invoke_agent");
        span.set(PROVIDER, provider(agent.model.provider));
        span.set(MODEL, agent.model.name.clone());
        span.set("gen_ai.agent.name", agent.name.clone());
        if let Some(id) = run.agent_id.as_ref().map(AgentId::to_string) {
            span.set("gen_ai.agent.id", id);
        }
        span.set("agentling.run.id", run.id.to_string());
        span.set("agentling.run.claim", claim.epoch);
    }
    span
}

/// Says how a run stands that this worker leaves, and counts it where it has ended.
pub(super) fn left(context: &Context, span: &Span, (is_ended, facts): (bool, &RunFacts)) {
    span.set("agentling.run.status", facts.status.label());
    if let Some(failure) = &facts.failure {
        span.fail(cause(&failure.cause));
    }
    if is_ended {
        context.parts.instruments.metrics.run_ended(facts.status);
    }
}

const fn cause(cause: &FailureCause) -> &'static str {
    match cause {
        FailureCause::Model { kind, .. } => kind.label(),
        FailureCause::RunTimeout => "run_timeout",
        FailureCause::RunPoisoned => "run_poisoned",
        FailureCause::Internal => "internal",
    }
}

/// The span of asking a model once.
pub(super) fn model(context: &Context, call: &ModelCall) -> Span {
    let instruments = &context.parts.instruments;
    if call.tries > 1 {
        instruments.metrics.model_retried(call.spec.provider);
    }
    let span = instruments.tracer.span(Kind::Client, || format!("chat {}", call.spec.name));
    if span.is_on() {
        span.set(OPERATION, "chat");
        span.set(PROVIDER, provider(call.spec.provider));
        span.set(MODEL, call.spec.name.clone());
        span.set("agentling.run.turn", i64::from(call.turn));
        span.set("agentling.run.attempt", i64::from(call.attempt));
        let settings = &call.prompt.settings;
        if let Some(most) = settings.max_output_tokens {
            span.set("gen_ai.request.max_tokens", i64::from(most));
        }
        if let Some(temperature) = settings.temperature {
            span.set("gen_ai.request.temperature", temperature);
        }
        let system = call.prompt.system.as_ref().map(MarkedText::as_str);
        if let Some(system) = system {
            span.content("gen_ai.system_instructions", |redact| content::system(system, redact));
        }
        span.content("gen_ai.input.messages", |redact| content::input(&call.prompt, redact));
    }
    span
}

/// Says what came of asking a model.
pub(super) fn answered(context: &Context, span: &Span, call: &ModelCall, attempt: &Attempt) {
    let (metrics, asked) = (&context.parts.instruments.metrics, call.spec.provider);
    let reply = attempt.outcome.as_ref();
    let failed = reply.err().map(|error| error.kind);
    metrics.model_called(asked, failed, (attempt.took, attempt.first_byte_after));
    let usage = reply.ok().and_then(|reply| reply.usage);
    if let Some(usage) = usage {
        metrics.tokens(asked, usage);
        span.set("gen_ai.usage.input_tokens", number(usage.input));
        span.set("gen_ai.usage.output_tokens", number(usage.output));
        span.set("gen_ai.usage.cache_read.input_tokens", number(usage.cache_read));
        span.set("gen_ai.usage.cache_creation.input_tokens", number(usage.cache_write));
    }
    if let Some(kind) = failed {
        span.fail(kind.label());
    }
    if let Some(status) = attempt.status {
        span.set("http.response.status_code", i64::from(status));
    }
    let Ok(reply) = reply else { return };
    if span.is_on() {
        if let Some(model) = &reply.model {
            span.set("gen_ai.response.model", model.clone());
        }
        if let Some(id) = &reply.response_id {
            span.set("gen_ai.response.id", id.clone());
        }
        if let Some(reason) = reply.finish_reason.map(FinishReason::label) {
            span.set_all("gen_ai.response.finish_reasons", reason);
        }
        span.content("gen_ai.output.messages", |redact| content::output(reply, redact));
    }
}

/// Runs a call of a tool to its end, as a span.
pub(super) async fn tool(
    context: &Context,
    tools: &ToolSet,
    request: &CallRequest,
    others: impl Future<Output = Mask>,
) -> ToolOutcome {
    let instruments = &context.parts.instruments;
    // A name that no tool has is a text of the model's.
    let kind = tools.kind(&request.name);
    let name = if kind == UNKNOWN { UNKNOWN } else { request.name.as_str() };
    let span = instruments.tracer.span(Kind::Internal, || format!("execute_tool {name}"));
    if span.is_on() {
        span.set(OPERATION, "execute_tool");
        span.set("gen_ai.tool.name", name.to_owned());
        span.set("gen_ai.tool.type", kind_of(kind));
        span.set("gen_ai.tool.call.id", request.call_id.0.clone());
        span.set("agentling.tool.attempt", i64::from(request.attempt));
        span.content("gen_ai.tool.call.arguments", |redact| {
            content::cut(redact(&request.arguments))
        });
    }
    let began = context.parts.clock.monotonic();
    let outcome = context.parts.toolbox.call_among(tools, request, others);
    let outcome = span.within(Box::pin(outcome)).await;
    let took = context.parts.clock.monotonic().saturating_sub(began);
    called(context, &span, (kind, took), &outcome);
    outcome
}

/// What a tool is that is not there.
const UNKNOWN: &str = crate::tools::UNKNOWN_KIND;

fn called(
    context: &Context,
    span: &Span,
    (kind, took): (&'static str, Duration),
    outcome: &ToolOutcome,
) {
    context.parts.instruments.metrics.tool_called(kind, outcome.kind, took);
    if outcome.kind != OutcomeKind::Success {
        span.fail(outcome.kind.label());
    }
    span.content("gen_ai.tool.call.result", |redact| content::result(outcome, redact));
}

/// The kinds of tools in the words of the conventions.
fn kind_of(kind: &str) -> &'static str {
    match kind {
        "http" | "mcp" => "extension",
        "memory" => "datastore",
        _ => "function",
    }
}

/// Providers in the words of the conventions, which have none for some of them.
const fn provider(provider: Provider) -> &'static str {
    match provider {
        Provider::Openai | Provider::OpenaiResponses => "openai",
        Provider::Anthropic => "anthropic",
        Provider::Gemini => "gcp.gemini",
        Provider::Vertex => "gcp.vertex_ai",
        Provider::Bedrock => "aws.bedrock",
        Provider::Xai => "x_ai",
        Provider::Mistral => "mistral_ai",
        Provider::Groq => "groq",
        Provider::Deepseek => "deepseek",
        Provider::Azure => "azure.ai.openai",
        Provider::Scripted | Provider::Openrouter | Provider::Ollama => provider.label(),
    }
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
