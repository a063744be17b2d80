//! Gemini `generateContent`, at Google's own API and on Google Cloud.

mod arguments;
mod contents;
mod reply;
mod request;
mod schema;
mod usage;

use super::assembly::{self, EventStream};
use super::codec::{Codec, DecodeStream, Endpoint, Framing};
use super::{Encoded, Profile, Prompt, WireError};
use crate::domain::message::Reply;
use crate::domain::model::Provider;

/// The codec of Gemini `generateContent`.
#[derive(Debug, Clone, Copy)]
pub struct GeminiGenerate;

/// What a model's name may begin with that says which collection it is in.
const COLLECTIONS: &[&str] = &["models/", "tunedModels/"];

impl Codec for GeminiGenerate {
    fn endpoint(&self, model: &str, stream: bool) -> Endpoint {
        let named = COLLECTIONS.iter().find_map(|all| Some((*all, model.strip_prefix(all)?)));
        let (collection, name) = named.unwrap_or(("models/", model));
        let name = percent_encoded(name);
        let (method, query): (_, &[_]) = if stream {
            ("streamGenerateContent", &[("alt", "sse")])
        } else {
            ("generateContent", &[])
        };
        let path = format!("{collection}{name}:{method}");
        Endpoint { path, query, headers: &[], framing: Framing::Events }
    }

    fn encode(&self, prompt: &Prompt, profile: &Profile, _stream: bool) -> Encoded {
        request::encode(prompt, profile)
    }

    fn decode(&self, provider: Provider, body: &[u8]) -> Result<Reply, WireError> {
        assembly::decode(reply::GeminiReply::new(provider), body)
    }

    fn stream(&self, provider: Provider) -> Box<dyn DecodeStream> {
        Box::new(EventStream::new(reply::GeminiReply::new(provider)))
    }
}

/// A name as one segment of a path.
fn percent_encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
        }
    }
    out
}

fn hex_digit(n: u8) -> char {
    char::from_digit(n.into(), 16).unwrap_or_default().to_ascii_uppercase()
}

#[cfg(test)]
mod tests;
