//! What every wire's codec can do.

use std::fmt::Debug;

use super::failure;
use super::{DeltaPiece, Encoded, Profile, Prompt, RetryHints, WireError};
use crate::domain::message::Reply;
use crate::domain::model::Provider;

/// Where a request goes, below the provider's base address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The path without a leading slash, percent-encoded.
    pub path: String,
    /// Parameters of the query.
    pub query: &'static [(&'static str, &'static str)],
    /// Headers that the wire asks for beside the key.
    pub headers: &'static [(&'static str, &'static str)],
    /// How the answer to this request is framed when it is a stream.
    pub framing: Framing,
}

/// How a streamed answer is cut into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON document a line.
    Lines,
    /// Amazon's binary event stream.
    EventStream,
}

impl Framing {
    /// The media type that says so.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Events => "text/event-stream",
            Self::Lines => "application/x-ndjson",
            Self::EventStream => "application/vnd.amazon.eventstream",
        }
    }
}

/// One wire: how a request is spelt and a reply is read. Codecs hold nothing.
pub trait Codec: Debug + Sync {
    /// Where a request goes. The model's name is any text.
    fn endpoint(&self, model: &str, stream: bool) -> Endpoint;

    /// The request body. The same prompt gives the same bytes, and the body of a longer conversation
    /// begins with that of the shorter one up to where the shorter one's conversation ends.
    fn encode(&self, prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded;

    /// Reads a whole reply: a body of status 200 that is not a stream.
    ///
    /// # Errors
    /// When the body is an error, or cannot be read.
    fn decode(&self, provider: Provider, body: &[u8]) -> Result<Reply, WireError>;

    /// The same of a model whose profile is known, for wires on which it says how to read.
    ///
    /// # Errors
    /// When the body is an error, or cannot be read.
    fn decode_for(
        &self,
        provider: Provider,
        _profile: &Profile,
        body: &[u8],
    ) -> Result<Reply, WireError> {
        self.decode(provider, body)
    }

    /// Reads the body of an answer whose status says that it is an error.
    fn classify(&self, status: u16, hints: &RetryHints, body: &[u8]) -> WireError {
        failure::classify(status, hints, body)
    }

    /// A decoder for a streamed reply that has seen nothing yet.
    fn stream(&self, provider: Provider) -> Box<dyn DecodeStream>;

    /// The same for a model whose profile is known, for wires on which it says how to read.
    fn stream_for(&self, provider: Provider, _profile: &Profile) -> Box<dyn DecodeStream> {
        self.stream(provider)
    }
}

/// Reads one streamed reply as its bytes arrive, split anywhere.
pub trait DecodeStream: Debug + Send {
    /// Takes the next bytes and gives back what they add to the reply. What is wrong behind something
    /// that they add ends the reply and is said the next time that anything is asked.
    ///
    /// # Errors
    /// When they are an error of the provider, or cannot be read.
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<DeltaPiece>, WireError>;

    /// Whether the end marker or an error has come; nothing after it counts.
    fn is_done(&self) -> bool;

    /// Whether what has come so far is a whole reply, even if the end marker never comes.
    fn is_complete(&self) -> bool;

    /// What has come so far, as an interrupted reply.
    fn partial(&self) -> Reply;

    /// The bytes are over.
    ///
    /// # Errors
    /// When what came is no whole reply.
    fn finish(self: Box<Self>) -> Result<Reply, WireError>;
}
