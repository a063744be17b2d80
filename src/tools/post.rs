//! Telling endpoints of events: one request, of whose answer only the status counts.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Request};
use url::Url;

use crate::domain::webhook::{Attempted, DeliveryError};
use crate::egress::{Clients, EgressDenied, EgressRule, refusal_in};

/// What an endpoint is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Where it goes.
    pub url: String,
    /// Headers beside that of the type, which is JSON.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The bound of everything, from the first look-up to the status.
    pub timeout: Duration,
}

pub(super) fn parsed(url: &str) -> Result<Url, EgressDenied> {
    Url::parse(url).map_err(|_| EgressRule::Url.into())
}

pub(super) async fn send(clients: &Clients, post: Post) -> Attempted {
    let timeout = post.timeout;
    let exchange = tokio::time::timeout(timeout, exchange(clients, post)).await;
    exchange.unwrap_or_else(|_| Attempted::failed(DeliveryError::Timeout))
}

async fn exchange(clients: &Clients, post: Post) -> Attempted {
    let Ok(url) = parsed(&post.url) else { return Attempted::failed(DeliveryError::Denied) };
    let Ok(client) = clients.admit(&url) else { return Attempted::failed(DeliveryError::Denied) };
    let mut request = Request::new(Method::POST, url);
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in post.headers {
        // Values are ids, numbers and base64 of our own, so they are always valid.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    *request.body_mut() = Some(post.body.into());
    match client.execute(request).await {
        // The body is not read: dropping the answer hangs up.
        Ok(answer) => Attempted::answered(answer.status().as_u16()),
        Err(error) if refusal_in(&error).is_some() => Attempted::failed(DeliveryError::Denied),
        Err(error) if error.is_timeout() => Attempted::failed(DeliveryError::Timeout),
        Err(_) => Attempted::failed(DeliveryError::Unreachable),
    }
}
