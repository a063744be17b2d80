//! The request that a call makes: its address, its headers and what proves that it may be made.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Request, Url};
use secrecy::{ExposeSecret as _, SecretString};

use super::keys::Proof;
use super::sigv4::{self, Signable};
use super::{ModelCall, ProviderKeys, address, peer};
use crate::domain::model::{ModelError, ModelErrorKind, Provider};
use crate::wire::{self, Framing};

/// What every request body is.
const JSON: &str = "application/json";

/// The request with all its headers, but for those that the client adds by itself.
pub(super) fn of(
    call: &ModelCall,
    http: &Client,
    (keys, own): (&ProviderKeys, Option<&SecretString>),
    body: Bytes,
    now: DateTime<Utc>,
) -> Result<Request, ModelError> {
    let spec = &call.spec;
    let endpoint = wire::endpoint(spec.provider, &spec.name, call.streams());
    let url = address::of_endpoint(spec, keys.region(), &endpoint)?;
    let (accept, encoding) = accepted(call.streams().then_some(endpoint.framing));
    let mut builder = http
        .post(url.clone())
        .header(CONTENT_TYPE, JSON)
        .header(ACCEPT, accept)
        .header(ACCEPT_ENCODING, encoding);
    for (name, value) in endpoint.headers {
        builder = builder.header(*name, *value);
    }
    // A model that brings a key of its own is never shown that of the server.
    let shown = match own {
        Some(key) => Some(ProviderKeys::proof_of(spec.provider, &url, key)),
        None => keys.proof(spec.provider, &url),
    };
    for (name, value) in proof(shown, (&url, &body), now) {
        builder = builder.header(name, secret(spec.provider, &value)?);
    }
    builder.body(body).build().map_err(|error| peer::transport(spec.provider, error))
}

/// The media type and the encoding of the answer that is asked for.
const fn accepted(stream: Option<Framing>) -> (&'static str, &'static str) {
    match stream {
        // A compressed stream arrives late, and cut off it cannot be read at all.
        Some(framing) => (framing.media_type(), "identity"),
        None => (JSON, "gzip"),
    }
}

/// The headers that show that the request may be made.
fn proof(
    shown: Option<Proof<'_>>,
    (url, body): (&Url, &[u8]),
    now: DateTime<Utc>,
) -> Vec<(&'static str, SecretString)> {
    match shown {
        None => Vec::new(),
        Some(Proof::Header(name, value)) => vec![(name, value)],
        Some(Proof::Signature { credentials, region, service }) => {
            let headers = &[(CONTENT_TYPE.as_str(), JSON)];
            let request = Signable { method: "POST", url, headers, body };
            let signed = sigv4::sign(&request, credentials, &region, service, now);
            signed.into_iter().map(|(name, value)| (name, value.into())).collect()
        }
    }
}

/// A value that the HTTP client does not show either.
fn secret(provider: Provider, value: &SecretString) -> Result<HeaderValue, ModelError> {
    let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| {
        let what = "the key for the provider does not fit a header";
        ModelError::new(provider, ModelErrorKind::Auth, what)
    })?;
    value.set_sensitive(true);
    Ok(value)
}
