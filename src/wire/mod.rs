//! Prompt → provider bytes, provider bytes → reply. Pure: no sockets, no clock, no runtime.
//!
//! Every wire has one codec in this layer; this file is the only place that picks one.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod anthropic;
mod asked;
pub mod assembly;
pub mod bedrock;
mod claude;
mod codec;
pub mod error;
pub mod eventstream;
pub mod failure;
pub mod gemini;
pub mod json;
pub mod lines;
mod mask;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod schema;
pub mod sse;
#[cfg(test)]
mod tests;
pub mod think;
pub mod writer;

pub use codec::{Codec, DecodeStream, Endpoint, Framing};
pub use error::{RetryHints, WireError};
pub use writer::Encoded;

// What is encoded, under this layer's name: a sender hands it through without knowing how it was
// rendered.
pub use crate::render::names::ToolNames;
pub use crate::render::profile::Profile;
pub use crate::render::prompt::{Block, MarkedText, Prompt, PromptTurn, Role};
pub use crate::render::proof::FramingViolation;

use crate::domain::event::DeltaKind;
use crate::domain::ledger::{AgentPart, Place};
use crate::domain::message::Reply;
use crate::domain::model::{ModelError, Provider};
use crate::domain::provider::Wire;
use crate::domain::redaction::PLACEHOLDER_START;
use crate::render::proof;

/// A piece of a reply on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaPiece {
    /// What it is a piece of.
    pub kind: DeltaKind,
    /// The piece, never empty.
    pub text: String,
}

/// The codec of a wire.
const fn codec(wire: Wire) -> &'static dyn Codec {
    match wire {
        Wire::AnthropicMessages => &anthropic::AnthropicMessages,
        Wire::OpenaiResponses => &openai_responses::OpenaiResponses,
        Wire::GeminiGenerate => &gemini::GeminiGenerate,
        Wire::OpenaiChat => &openai_chat::OpenaiChat,
        Wire::BedrockConverse => &bedrock::BedrockConverse,
        Wire::OllamaChat => &ollama::Ollama,
    }
}

/// The request body, byte for byte as it is sent and stored, and where its bytes come from.
pub fn encode(provider: Provider, prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded {
    let mut encoded = codec(provider.wire()).encode(prompt, profile, stream);
    mark_redacted(&mut encoded, &prompt.redacted);
    encoded
}

/// Says of the pieces of a declaration whether redaction changed them: codecs know of its texts alone.
fn mark_redacted(encoded: &mut Encoded, parts: &[AgentPart]) {
    if parts.is_empty() {
        return;
    }
    let Encoded { body, spans, .. } = encoded;
    let offset = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    for span in spans {
        let is_changed =
            matches!(&span.origin.place, Place::Agent { part } if parts.contains(part));
        let bytes = body.get(offset(span.start)..offset(span.end)).unwrap_or_default();
        let holds = || memchr::memmem::find(bytes, PLACEHOLDER_START.as_bytes()).is_some();
        span.origin.redacted |= is_changed && holds();
    }
}

/// Checks the frames of a request before it is sent; see [`crate::render::proof`].
///
/// # Errors
/// What breaks a frame.
pub fn prove(prompt: &Prompt, encoded: &Encoded) -> Result<(), FramingViolation> {
    proof::prove(&encoded.body, &encoded.spans, &prompt.tags.names())
}

/// Where a request goes, below the provider's base address.
pub fn endpoint(provider: Provider, model: &str, stream: bool) -> Endpoint {
    codec(provider.wire()).endpoint(model, stream)
}

/// Reads a whole reply: a body of status 200 that is not a stream.
pub fn decode(provider: Provider, body: &[u8]) -> Result<Reply, ModelError> {
    let reply = codec(provider.wire()).decode(provider, body);
    reply.map_err(|error| error.for_provider(provider))
}

/// The same of a model whose profile is known.
pub fn decode_for(provider: Provider, profile: &Profile, body: &[u8]) -> Result<Reply, ModelError> {
    let reply = codec(provider.wire()).decode_for(provider, profile, body);
    reply.map_err(|error| error.for_provider(provider))
}

/// Reads the body of an answer whose status says that it is an error.
pub fn classify(provider: Provider, status: u16, hints: &RetryHints, body: &[u8]) -> ModelError {
    codec(provider.wire()).classify(status, hints, body).for_provider(provider)
}

/// Reads a streamed reply as its bytes arrive, split anywhere.
#[derive(Debug)]
pub struct StreamDecoder {
    provider: Provider,
    decoder: Box<dyn DecodeStream>,
}

impl StreamDecoder {
    /// A decoder that has seen nothing yet.
    pub fn new(provider: Provider) -> Self {
        Self { provider, decoder: codec(provider.wire()).stream(provider) }
    }

    /// One for a model whose profile is known.
    pub fn for_profile(provider: Provider, profile: &Profile) -> Self {
        Self { provider, decoder: codec(provider.wire()).stream_for(provider, profile) }
    }

    /// Takes the next bytes and gives back what they add to the reply.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<DeltaPiece>, ModelError> {
        self.decoder.push(bytes).map_err(|error| error.for_provider(self.provider))
    }

    /// Whether the provider's end marker has come; nothing after it counts.
    pub fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// Whether what has come so far is a whole reply, even if the end marker never comes.
    pub fn is_complete(&self) -> bool {
        self.decoder.is_complete()
    }

    /// What has come so far, as an interrupted reply.
    pub fn partial(&self) -> Reply {
        self.decoder.partial()
    }

    /// The bytes are over: the whole reply, or why there is none.
    pub fn finish(self) -> Result<Reply, ModelError> {
        self.decoder.finish().map_err(|error| error.for_provider(self.provider))
    }
}
