//! Small public documents, such as the keys of an issuer of tokens.

use reqwest::header::{ACCEPT, HeaderValue, LOCATION};
use reqwest::{Method, Request, Response};
use url::Url;

use super::clients::{Clients, refusal_in};
use super::policy::{EgressDenied, EgressRule};

/// How often a document may say that it is elsewhere.
const MAX_HOPS: usize = 3;

/// A document that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It is where the policy does not let calls go.
    #[error(transparent)]
    Denied(#[from] EgressDenied),
    /// Whoever has it does not give it.
    #[error("the answer has status {0}")]
    Status(u16),
    /// It is larger than it may be.
    #[error("the answer is too large")]
    TooLarge,
    /// It is nowhere in the end.
    #[error("the answer leads from place to place")]
    TooManyHops,
    /// Nobody answers.
    #[error("there is no answer")]
    Unreachable,
}

/// The body behind a URL, at most so many bytes of it. It may be elsewhere, up to three times: every
/// place is judged like the first. The time that this takes is the caller's to bound.
///
/// # Errors
/// When it cannot be had.
pub async fn fetch(clients: &Clients, url: &str, max_bytes: usize) -> Result<Vec<u8>, FetchError> {
    let mut url = Url::parse(url).map_err(|_| EgressDenied::from(EgressRule::Url))?;
    for _ in 0..=MAX_HOPS {
        let response = get(clients, url.clone()).await?;
        let status = response.status();
        if status.is_success() {
            return read(response, max_bytes).await;
        }
        let target = response.headers().get(LOCATION).filter(|_| status.is_redirection());
        let target = target.and_then(|target| url.join(target.to_str().ok()?).ok());
        url = target.ok_or(FetchError::Status(status.as_u16()))?;
    }
    Err(FetchError::TooManyHops)
}

async fn get(clients: &Clients, url: Url) -> Result<Response, FetchError> {
    let client = clients.admit(&url)?;
    let mut request = Request::new(Method::GET, url);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    client.execute(request).await.map_err(|error| match refusal_in(&error) {
        Some(refusal) => refusal.into(),
        None => FetchError::Unreachable,
    })
}

async fn read(mut response: Response, max_bytes: usize) -> Result<Vec<u8>, FetchError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| FetchError::Unreachable)? {
        if body.len() + chunk.len() > max_bytes {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
