//! OpenAI Chat Completions, as OpenAI and the many servers that imitate it speak it.

mod calls;
mod reply;
mod request;
mod usage;

use super::assembly::{self, EventStream};
use super::codec::{Codec, DecodeStream, Endpoint, Framing};
use super::{Encoded, Profile, Prompt, WireError};
use crate::domain::message::Reply;
use crate::domain::model::Provider;

/// The codec of OpenAI Chat Completions.
#[derive(Debug, Clone, Copy)]
pub struct OpenaiChat;

impl Codec for OpenaiChat {
    fn endpoint(&self, _model: &str, _stream: bool) -> Endpoint {
        Endpoint {
            path: "chat/completions".to_owned(),
            query: &[],
            headers: &[],
            framing: Framing::Events,
        }
    }

    fn encode(&self, prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded {
        request::encode(prompt, profile, stream)
    }

    fn decode(&self, provider: Provider, body: &[u8]) -> Result<Reply, WireError> {
        assembly::decode(reply::ChatReply::new(provider), body)
    }

    fn stream(&self, provider: Provider) -> Box<dyn DecodeStream> {
        Box::new(EventStream::new(reply::ChatReply::new(provider)))
    }
}

#[cfg(test)]
mod tests;
