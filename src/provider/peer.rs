//! The other side of a call: a server behind a socket, or the scripted model.

use std::error::Error as _;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap};

use super::scripted;
use crate::domain::model::{ModelError, ModelErrorKind, Provider};
use crate::egress::{EgressDenied, refusal_in};

/// An answer whose body is still to come.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) retry_after_ms: Option<String>,
    pub(super) retry_after: Option<String>,
    pub(super) should_retry: Option<String>,
    pub(super) error_type: Option<String>,
    /// How much is left of what is counted, and the span until all of it is there again.
    pub(super) counters: Vec<(String, String)>,
    pub(super) body: Body,
}

/// Where the rest comes from.
#[derive(Debug)]
pub(super) enum Body {
    /// A socket.
    Http(reqwest::Response),
    /// The script.
    Scripted(scripted::Script),
}

impl Peer {
    pub(super) fn http(response: reqwest::Response) -> Self {
        let headers = response.headers();
        Self {
            status: response.status().as_u16(),
            content_type: header(headers, CONTENT_TYPE.as_str()).unwrap_or_default(),
            retry_after_ms: header(headers, "retry-after-ms"),
            retry_after: header(headers, "retry-after"),
            should_retry: header(headers, "x-should-retry"),
            error_type: header(headers, "x-amzn-errortype"),
            counters: ["requests", "tokens"]
                .iter()
                .filter_map(|what| {
                    let remaining = header(headers, &format!("x-ratelimit-remaining-{what}"))?;
                    Some((remaining, header(headers, &format!("x-ratelimit-reset-{what}"))?))
                })
                .collect(),
            body: Body::Http(response),
        }
    }

    /// The next bytes of the body; `None` at its end.
    pub(super) async fn chunk(&mut self, provider: Provider) -> Result<Option<Bytes>, ModelError> {
        match &mut self.body {
            Body::Http(response) => {
                response.chunk().await.map_err(|error| transport(provider, error))
            }
            Body::Scripted(script) => script.chunk(provider),
        }
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// What a failure of the HTTP client is. The address is left out: it may hold what the caller
/// should not see in a log.
pub(super) fn transport(provider: Provider, error: reqwest::Error) -> ModelError {
    if let Some(refusal) = refusal_in(&error) {
        return denied(provider, refusal);
    }
    let kind = if error.is_timeout() { ModelErrorKind::Timeout } else { ModelErrorKind::Transport };
    let error = error.without_url();
    let mut detail = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        detail = format!("{detail}: {cause}");
        source = cause.source();
    }
    ModelError::new(provider, kind, detail)
}

/// An address that an agent names and that is not called.
pub(super) fn denied(provider: Provider, refusal: EgressDenied) -> ModelError {
    ModelError::new(provider, ModelErrorKind::Permission, refusal.to_string())
}
