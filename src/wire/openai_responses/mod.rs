//! OpenAI Responses, stateless: the whole conversation is sent each time and nothing is stored there.
//!
//! Where a host seals its reasoning, it is asked for sealed and goes back sealed, in its place.

mod drafts;
mod format;
mod input;
mod items;
mod reply;
mod request;
mod usage;

use super::assembly::{self, EventStream};
use super::codec::{Codec, DecodeStream, Endpoint, Framing};
use super::{Encoded, Profile, Prompt, WireError};
use crate::domain::message::Reply;
use crate::domain::model::Provider;

/// The codec of OpenAI Responses.
#[derive(Debug, Clone, Copy)]
pub struct OpenaiResponses;

impl Codec for OpenaiResponses {
    fn endpoint(&self, _model: &str, _stream: bool) -> Endpoint {
        Endpoint {
            path: "responses".to_owned(),
            query: &[],
            headers: &[],
            framing: Framing::Events,
        }
    }

    fn encode(&self, prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded {
        request::encode(prompt, profile, stream)
    }

    fn decode(&self, provider: Provider, body: &[u8]) -> Result<Reply, WireError> {
        assembly::decode(reply::ResponsesReply::new(provider), body)
    }

    fn stream(&self, provider: Provider) -> Box<dyn DecodeStream> {
        Box::new(EventStream::new(reply::ResponsesReply::new(provider)))
    }
}

#[cfg(test)]
mod tests;
