//! Asking a tool's own server what became of a call whose answer was lost.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, HeaderValue};
use reqwest::{Method, Request, StatusCode};
use serde_json::value::to_raw_value;

use super::CallRequest;
use super::arguments::Arguments;
use super::body::ACCEPTED;
use super::headers::Headers;
use super::http::{FENCE, HttpCall, IDEMPOTENCY_KEY};
use super::secrets::Vault;
use super::template::{UrlTemplate, percent_encode};
use crate::domain::tool::HttpTool;
use crate::domain::wait::CallAnswer;
use crate::egress::Clients;

/// The argument of a probe's URL that is the call's id, whatever the model sent under this name.
pub(super) const CALL_ID: &str = "tool_call_id";

/// What is asked about a call in doubt.
#[derive(Debug)]
pub(super) struct Probe {
    template: UrlTemplate,
    headers: Headers,
    timeout: Duration,
}

impl Probe {
    /// Reads a declaration; `None` without one. What is wrong with it was told when the agent was made.
    pub(super) fn compile(tool: &HttpTool, headers: &Headers, timeout: Duration) -> Option<Self> {
        let template = UrlTemplate::parse(tool.probe_url.as_deref()?).ok()?;
        Some(Self { template, headers: headers.clone(), timeout })
    }

    /// Asks once; `None` when what comes back tells nothing about the call.
    pub(super) async fn ask(
        &self,
        call: &HttpCall,
        outside: (&Clients, Vault<'_>),
        (request, arguments): (&CallRequest, &Arguments),
    ) -> Option<CallAnswer> {
        let asking = self.exchange(call, outside, request, arguments);
        tokio::time::timeout(self.timeout, asking).await.ok().flatten()
    }

    async fn exchange(
        &self,
        call: &HttpCall,
        (clients, vault): (&Clients, Vault<'_>),
        request: &CallRequest,
        arguments: &Arguments,
    ) -> Option<CallAnswer> {
        let mut asked = self.request(request, arguments)?;
        let client = clients.admit(asked.url()).ok()?;
        let (headers, mask) = self.headers.resolve(vault, asked.url()).await.ok()?;
        asked.headers_mut().extend(headers);
        let response = client.execute(asked).await.ok()?;
        match response.status() {
            StatusCode::NOT_FOUND => Some(CallAnswer::Retry),
            status if status.is_success() => {
                let output = call.take(response, &mask).await.ok()?.said;
                Some(CallAnswer::Succeeded { output })
            }
            _ => None,
        }
    }

    fn request(&self, request: &CallRequest, arguments: &Arguments) -> Option<Request> {
        let mut arguments = arguments.clone();
        let id = to_raw_value(request.call_id.as_str()).ok()?;
        arguments.insert(CALL_ID.to_owned(), id);
        let url = self.template.fill(&arguments, &[]).ok()?;
        let mut asked = Request::new(Method::GET, url);
        let key = HeaderValue::from_str(&percent_encode(request.call_id.as_str())).ok()?;
        asked.headers_mut().insert(IDEMPOTENCY_KEY, key);
        asked.headers_mut().insert(FENCE, HeaderValue::from(request.epoch));
        asked.headers_mut().entry(ACCEPT_ENCODING).or_insert(ACCEPTED);
        Some(asked)
    }
}
