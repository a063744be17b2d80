//! Anthropic Messages.
//!
//! A request alternates between user and assistant turns, begins with the user and ends with them, and
//! a turn of the user begins with the results of the calls before it. What lies between two turns of
//! the model is therefore told as one turn of the user, with one entry of the system behind it on models
//! that take such entries: they take them nowhere else.

mod block;
mod history;
mod messages;
mod reply;
mod request;
mod thinking;
mod usage;

use super::assembly::{self, EventStream};
use super::codec::{Codec, DecodeStream, Endpoint, Framing};
use super::{Encoded, Profile, Prompt, WireError};
use crate::domain::message::Reply;
use crate::domain::model::Provider;

/// The codec of Anthropic Messages.
#[derive(Debug, Clone, Copy)]
pub struct AnthropicMessages;

impl Codec for AnthropicMessages {
    fn endpoint(&self, _model: &str, _stream: bool) -> Endpoint {
        Endpoint {
            path: "messages".to_owned(),
            query: &[],
            headers: &[("anthropic-version", "2023-06-01")],
            framing: Framing::Events,
        }
    }

    fn encode(&self, prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded {
        request::encode(prompt, profile, stream)
    }

    fn decode(&self, provider: Provider, body: &[u8]) -> Result<Reply, WireError> {
        assembly::decode(reply::MessageReply::new(provider), body)
    }

    fn stream(&self, provider: Provider) -> Box<dyn DecodeStream> {
        Box::new(EventStream::new(reply::MessageReply::new(provider)))
    }
}

#[cfg(test)]
mod tests;
