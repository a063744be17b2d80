//! What whole histories look like on the wire, byte for byte.

mod bounds;
mod bytes;
mod checks;
mod claims;
mod goldens;
mod histories;
mod proof;
pub(in crate::wire) mod recordings;
mod spans;
mod wires;

use super::encode;
use crate::domain::model::ModelSpec;
use crate::render::profile::Profile;
use crate::render::prompt::Prompt;
use crate::{domain, wire};

/// A prompt as the request that its provider is sent.
fn encoded(prompt: &Prompt, model: &ModelSpec, profile: &Profile) -> String {
    let body = encode(model.provider, prompt, profile, false);
    String::from_utf8(body.body).unwrap()
}

/// A request without the brackets that end it.
fn open(body: &str) -> &str {
    body.trim_end_matches([']', '}'])
}
