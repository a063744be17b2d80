//! Signed tokens (RFC 7519) in their compact form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::Refusal;
use super::jwks::{Algorithm, VerifyingKey};

/// The longest token that is read, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// What a token says of how it is signed. Members that name keys elsewhere are not read at all.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// A token that has been read and not been believed yet.
pub(super) struct Token<'a> {
    /// What is signed.
    message: &'a str,
    signature: Vec<u8>,
    signer: (String, Algorithm),
    claims: Map<String, Value>,
}

impl<'a> Token<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, Refusal> {
        if text.len() > MAX_BYTES {
            return Err("it is too long");
        }
        let (message, signature) = text.rsplit_once('.').ok_or("it is no token")?;
        let (header, claims) = message.split_once('.').ok_or("it is no token")?;
        let header: Header =
            serde_json::from_slice(&bytes(header)?).map_err(|_| "its header cannot be read")?;
        if header.crit.is_some() {
            return Err("it has critical members");
        }
        let algorithm = Algorithm::named(&header.alg).ok_or("its algorithm is not taken")?;
        let kid = header.kid.ok_or("it names no key")?;
        let claims =
            serde_json::from_slice(&bytes(claims)?).map_err(|_| "its claims cannot be read")?;
        Ok(Self { message, signature: bytes(signature)?, signer: (kid, algorithm), claims })
    }

    /// Who it says has signed it, to find the keys that can tell.
    pub(super) fn issuer(&self) -> Result<&str, Refusal> {
        self.claims.get("iss").and_then(Value::as_str).ok_or("it names no issuer")
    }

    /// The key that it says it is signed with, and how.
    pub(super) const fn signer(&self) -> &(String, Algorithm) {
        &self.signer
    }

    /// What it says, if the key has signed that.
    pub(super) fn verified(self, key: &VerifyingKey) -> Result<Map<String, Value>, Refusal> {
        let genuine = key.verifies(self.message.as_bytes(), &self.signature);
        if genuine { Ok(self.claims) } else { Err("its signature is wrong") }
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, Refusal> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| "it is not base64")
}
