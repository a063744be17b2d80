//! OpenAI Chat Completions, as OpenAI and the many servers that imitate it speak it.

pub(super) mod calls;
mod messages;
mod reply;
mod request;
mod thinking;
mod usage;

use super::assembly::{self, EventStream};
use super::codec::{Codec, DecodeStream, Endpoint, Framing};
use super::think::ThinkTags;
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
        assembly::decode(reply::ChatReply::new(provider, ThinkTags::of_provider(provider)), body)
    }

    fn stream(&self, provider: Provider) -> Box<dyn DecodeStream> {
        let tags = ThinkTags::of_provider(provider);
        Box::new(EventStream::new(reply::ChatReply::new(provider, tags)))
    }

    fn decode_for(
        &self,
        provider: Provider,
        profile: &Profile,
        body: &[u8],
    ) -> Result<Reply, WireError> {
        assembly::decode(reply::ChatReply::new(provider, ThinkTags::of_profile(profile)), body)
    }

    fn stream_for(&self, provider: Provider, profile: &Profile) -> Box<dyn DecodeStream> {
        let tags = ThinkTags::of_profile(profile);
        Box::new(EventStream::new(reply::ChatReply::new(provider, tags)))
    }
}

#[cfg(test)]
mod tests;
