//! Ollama's own chat API: one JSON document a line, arguments as objects.

mod reply;
mod request;

use super::asked::asked;
use super::assembly;
use super::codec::{Codec, DecodeStream, Endpoint, Framing};
use super::lines::LineStream;
use super::think::ThinkTags;
use super::{Encoded, Profile, Prompt, WireError};
use crate::domain::message::Reply;
use crate::domain::model::Provider;
use reply::OllamaReply;

/// The codec of Ollama's own chat API.
#[derive(Debug, Clone, Copy)]
pub struct Ollama;

impl Codec for Ollama {
    fn endpoint(&self, _model: &str, _stream: bool) -> Endpoint {
        Endpoint { path: "api/chat".to_owned(), query: &[], headers: &[], framing: Framing::Lines }
    }

    fn encode(&self, prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded {
        request::encode(&asked(prompt, profile), stream)
    }

    fn decode(&self, provider: Provider, body: &[u8]) -> Result<Reply, WireError> {
        assembly::decode(OllamaReply::new(provider, ThinkTags::of_provider(provider)), body)
    }

    fn stream(&self, provider: Provider) -> Box<dyn DecodeStream> {
        let tags = ThinkTags::of_provider(provider);
        Box::new(LineStream::new(OllamaReply::new(provider, tags)))
    }

    fn decode_for(
        &self,
        provider: Provider,
        profile: &Profile,
        body: &[u8],
    ) -> Result<Reply, WireError> {
        assembly::decode(OllamaReply::new(provider, ThinkTags::of_profile(profile)), body)
    }

    fn stream_for(&self, provider: Provider, profile: &Profile) -> Box<dyn DecodeStream> {
        let tags = ThinkTags::of_profile(profile);
        Box::new(LineStream::new(OllamaReply::new(provider, tags)))
    }
}

#[cfg(test)]
mod tests;
