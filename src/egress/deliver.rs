//! Telling somebody something, without interest in more of the answer than its status.

use reqwest::header::HeaderMap;
use reqwest::{Method, Request};
use url::Url;

use super::clients::{Clients, refusal_in};
use super::fetch::FetchError;

/// Posts a body. The time that this takes is the caller's to bound.
///
/// # Errors
/// When it is not taken.
pub async fn deliver(
    clients: &Clients,
    url: &Url,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<(), FetchError> {
    let client = clients.admit(url)?;
    let mut request = Request::new(Method::POST, url.clone());
    *request.headers_mut() = headers;
    *request.body_mut() = Some(body.into());
    let answer = client.execute(request).await.map_err(|error| match refusal_in(&error) {
        Some(refusal) => refusal.into(),
        None => FetchError::Unreachable,
    })?;
    let status = answer.status();
    if status.is_success() { Ok(()) } else { Err(FetchError::Status(status.as_u16())) }
}
