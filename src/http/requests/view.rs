//! A request to a model as callers see it.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::id::{RequestId, RunId, ThreadId};
use crate::domain::ledger::{
    AgentPart, LedgerEntry, Origin, Place, Purpose, RequestOutcome, Span, SpanSource, Voice,
};
use crate::domain::model::{ModelErrorKind, Provider};
use crate::http::time::Time;
use crate::store::ledger::StoredBody;

/// One request to a model and what came of it. What is null is not known, or there was none.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ModelRequest)]
pub(crate) struct ModelRequestView {
    /// Its id.
    id: RequestId,
    /// The thread.
    thread_id: ThreadId,
    /// The run that sent it; null for a summary that a caller asked for.
    run_id: Option<RunId>,
    /// `seq` of the step that came of it.
    step_seq: Option<i64>,
    /// The turn that it was sent for; 0 without a run.
    turn: u32,
    /// The attempt at what it was sent for, from 1.
    attempt: u32,
    /// What was asked for.
    purpose: Purpose,
    /// Who was asked.
    provider: Option<Provider>,
    /// Path and query of the address.
    #[schema(examples("/v1/chat/completions"))]
    endpoint: Option<String>,
    /// The names of its headers, in lower case. Their values are kept nowhere.
    header_names: Vec<String>,
    /// What was known of the model behind its address when the request was rendered.
    #[schema(value_type = Option<Object>)]
    profile: Option<Value>,
    /// The version of the renderer.
    renderer: Option<u32>,
    /// The SHA-256 of its body.
    sha256: Option<String>,
    /// How long its body was.
    bytes: Option<u64>,
    /// When it was sent.
    sent_at: Option<Time>,
    /// Milliseconds until the first byte of the answer's body.
    first_byte_ms: Option<u64>,
    /// Milliseconds in all.
    took_ms: Option<u64>,
    /// The status of the answer.
    status: Option<u16>,
    /// What became of it.
    outcome: RequestOutcome,
    /// Why it failed.
    error: Option<ModelErrorKind>,
    /// The media type of the answer, as its server named it.
    response_type: Option<String>,
}

impl From<LedgerEntry> for ModelRequestView {
    fn from(entry: LedgerEntry) -> Self {
        Self {
            id: entry.id,
            thread_id: entry.thread_id,
            run_id: entry.run_id,
            step_seq: entry.step_seq,
            turn: entry.turn,
            attempt: entry.attempt,
            purpose: entry.purpose,
            provider: entry.provider,
            endpoint: entry.endpoint,
            header_names: entry.header_names,
            profile: entry.profile,
            renderer: entry.renderer,
            sha256: entry.sha256.map(|sha256| sha256.to_string()),
            bytes: entry.bytes,
            sent_at: entry.sent_at.map(Time::from),
            first_byte_ms: entry.first_byte_ms,
            took_ms: entry.took_ms,
            status: entry.status,
            outcome: entry.outcome,
            error: entry.error,
            response_type: entry.response_type,
        }
    }
}

/// Where the bytes of a request come from.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = SpanMap)]
pub(crate) struct SpanMapView {
    /// How long the body is.
    bytes: u64,
    /// Its SHA-256.
    sha256: String,
    /// The offset at which the conversation begins.
    conversation_at: u64,
    /// The spans, in order. They tile the body: each begins where the one before it ends.
    spans: Vec<SpanView>,
}

impl From<StoredBody> for SpanMapView {
    fn from(body: StoredBody) -> Self {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        Self {
            bytes: count(body.request.body.len()),
            sha256: body.sha256.to_string(),
            conversation_at: count(body.request.conversation_at),
            spans: body.request.spans.into_iter().map(SpanView::from).collect(),
        }
    }
}

/// A range of a request's bytes with one origin.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Span)]
pub(crate) struct SpanView {
    /// The offset of its first byte.
    start: u64,
    /// The offset after its last byte.
    end: u64,
    /// What it comes from.
    source: SpanSource,
    /// What of the agent, where it comes from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_part: Option<AgentPart>,
    /// `seq` of the step, where it comes from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    step_seq: Option<i64>,
    /// The index of the step's part, from 0: of a task's input, of a reply, or of an action's outcomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<u32>,
    /// Who speaks; absent for syntax.
    #[serde(skip_serializing_if = "Option::is_none")]
    voice: Option<Voice>,
    /// The innermost frame that it stands in or is the tag of.
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<String>,
    /// Whether characters of it were escaped so that it cannot be read as a tag.
    escaped: bool,
    /// Whether it holds placeholders in place of what is kept from the model.
    redacted: bool,
    /// Whether its middle was left out.
    truncated: bool,
}

impl From<Span> for SpanView {
    fn from(span: Span) -> Self {
        let Span { start, end, origin } = span;
        let Origin { place, voice, frame, escaped, redacted, truncated } = origin;
        let (source, agent_part, step_seq, part) = match place {
            Place::Wire => (SpanSource::Wire, None, None, None),
            Place::Agent { part } => (SpanSource::Agent, Some(part), None, None),
            Place::Step { seq, part } => (SpanSource::Step, None, Some(seq), Some(part)),
        };
        let frame = frame.map(std::borrow::Cow::into_owned);
        Self {
            start,
            end,
            source,
            agent_part,
            step_seq,
            part,
            voice,
            frame,
            escaped,
            redacted,
            truncated,
        }
    }
}
