//! What whole histories look like on the wire, byte for byte.

mod bytes;
mod checks;
mod goldens;
mod histories;
mod spans;

use super::encode;
use crate::domain::model::ModelSpec;
use crate::render::profile::Profile;
use crate::render::prompt::Prompt;
use crate::{domain, wire};

/// The text of a request's messages, without the bracket that ends them.
fn messages(body: &str) -> &str {
    #[derive(serde::Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        messages: &'a serde_json::value::RawValue,
    }
    let body: Body<'_> = serde_json::from_str(body).unwrap();
    body.messages.get().strip_suffix(']').unwrap()
}

/// A prompt as the request that its provider is sent.
fn encoded(prompt: &Prompt, model: &ModelSpec, profile: &Profile) -> String {
    let body = encode(model.provider, prompt, profile, false);
    String::from_utf8(body.body).unwrap()
}
