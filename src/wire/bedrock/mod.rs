//! Amazon Bedrock's Converse API, which speaks one language for the models of many vendors.

mod blocks;
mod content;
mod files;
mod history;
mod reasoning;
mod reply;
mod request;

use super::assembly;
use super::codec::{Codec, DecodeStream, Endpoint, Framing};
use super::eventstream::FrameStream;
use super::{Encoded, Profile, Prompt, WireError};
use crate::domain::message::Reply;
use crate::domain::model::Provider;

/// The codec of Converse.
#[derive(Debug, Clone, Copy)]
pub struct BedrockConverse;

impl Codec for BedrockConverse {
    fn endpoint(&self, model: &str, stream: bool) -> Endpoint {
        let action = if stream { "converse-stream" } else { "converse" };
        Endpoint {
            path: format!("model/{}/{action}", segment(model)),
            query: &[],
            headers: &[],
            framing: Framing::EventStream,
        }
    }

    fn encode(&self, prompt: &Prompt, profile: &Profile, _stream: bool) -> Encoded {
        request::encode(prompt, profile)
    }

    fn decode(&self, provider: Provider, body: &[u8]) -> Result<Reply, WireError> {
        assembly::decode(reply::ConverseReply::new(provider), body)
    }

    fn stream(&self, provider: Provider) -> Box<dyn DecodeStream> {
        Box::new(FrameStream::new(reply::ConverseReply::new(provider)))
    }
}

/// A model's id as one segment of a path. It may hold colons and, as a resource name, slashes.
fn segment(id: &str) -> String {
    let spelt = |byte: u8| {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    id.bytes().map(spelt).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests;
