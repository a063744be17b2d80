//! Prompt → provider bytes, provider bytes → reply. Pure: no sockets, no clock, no runtime.
//!
//! Every provider has one codec in this layer; this file is the only place that picks one.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod error;
pub mod json;
mod mask;
pub mod openai_chat;
pub mod sse;
#[cfg(test)]
mod tests;

pub use error::{RetryHints, WireError};

// What is encoded, under this layer's name: a sender hands it through without knowing how it was
// rendered.
pub use crate::render::names::ToolNames;
pub use crate::render::profile::Profile;
pub use crate::render::prompt::{Block, Prompt, PromptTurn, Role};

use crate::domain::event::DeltaKind;
use crate::domain::message::Reply;
use crate::domain::model::{ModelError, Provider};

/// A piece of a reply on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaPiece {
    /// What it is a piece of.
    pub kind: DeltaKind,
    /// The piece, never empty.
    pub text: String,
}

/// The request body, byte for byte as it is sent and stored.
pub fn encode(provider: Provider, prompt: &Prompt, profile: &Profile, stream: bool) -> Vec<u8> {
    match provider {
        Provider::Scripted | Provider::Openai => openai_chat::encode(prompt, profile, stream),
    }
}

/// Reads a whole reply: a body of status 200 that is not a stream.
pub fn decode(provider: Provider, body: &[u8]) -> Result<Reply, ModelError> {
    match provider {
        Provider::Scripted | Provider::Openai => openai_chat::decode(provider, body),
    }
    .map_err(|error| error.for_provider(provider))
}

/// Reads the body of an answer whose status says that it is an error.
pub fn classify(provider: Provider, status: u16, hints: &RetryHints, body: &[u8]) -> ModelError {
    match provider {
        Provider::Scripted | Provider::Openai => openai_chat::classify(status, hints, body),
    }
    .for_provider(provider)
}

/// Reads a streamed reply as its bytes arrive, split anywhere.
#[derive(Debug)]
pub struct StreamDecoder {
    provider: Provider,
    codec: Codec,
}

#[derive(Debug)]
enum Codec {
    OpenaiChat(openai_chat::StreamDecoder),
}

impl StreamDecoder {
    /// A decoder that has seen nothing yet.
    pub fn new(provider: Provider) -> Self {
        let codec = match provider {
            Provider::Scripted | Provider::Openai => {
                Codec::OpenaiChat(openai_chat::StreamDecoder::new(provider))
            }
        };
        Self { provider, codec }
    }

    /// Takes the next bytes and gives back what they add to the reply.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<DeltaPiece>, ModelError> {
        match &mut self.codec {
            Codec::OpenaiChat(decoder) => decoder.push(bytes),
        }
        .map_err(|error| error.for_provider(self.provider))
    }

    /// Whether the provider's end marker has come; nothing after it counts.
    pub fn is_done(&self) -> bool {
        match &self.codec {
            Codec::OpenaiChat(decoder) => decoder.is_done(),
        }
    }

    /// Whether what has come so far is a whole reply, even if the end marker never comes.
    pub fn is_complete(&self) -> bool {
        match &self.codec {
            Codec::OpenaiChat(decoder) => decoder.is_complete(),
        }
    }

    /// What has come so far, as an interrupted reply.
    pub fn partial(&self) -> Reply {
        match &self.codec {
            Codec::OpenaiChat(decoder) => decoder.partial(),
        }
    }

    /// The bytes are over: the whole reply, or why there is none.
    pub fn finish(self) -> Result<Reply, ModelError> {
        match self.codec {
            Codec::OpenaiChat(decoder) => decoder.finish(),
        }
        .map_err(|error| error.for_provider(self.provider))
    }
}
