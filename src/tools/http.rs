//! HTTP tools: one call is one request, and whatever comes of it is an outcome.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response};
use url::Url;

use super::CallRequest;
use super::arguments::{Argument, Arguments, object};
use super::body::{ACCEPTED, End, gather};
use super::declared::Declared;
use super::headers::Headers;
use super::loss::{Loss, UNREACHED, failure};
use super::mask::Mask;
use super::probe::Probe;
use super::response::{Output, read};
use super::secrets::Vault;
use super::shape::escape;
use super::template::{Misfit, UrlTemplate, percent_encode};
use crate::domain::tool::{EffectClass, HttpMethod, HttpTool, OutcomeKind, ToolCallError};
use crate::egress::{Clients, MAX_HEADER_BYTES, Reached, refusal_in};

/// The most bytes of a body that are taken, after decompression.
pub(super) const MAX_BODY: usize = 4 * 1024 * 1024;
/// The most bytes of a failure's body that are taken. It is far more than is told, so that no secret is
/// cut in two before it is looked for.
const MAX_FAILURE: usize = 64 * 1024;
/// Characters of a failure's body that are told.
const MAX_EXCERPT: usize = 1_000;
/// Further tries to connect before anything was sent.
const RECONNECTS: u32 = 2;
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const FENCE: HeaderName = HeaderName::from_static("agentling-fence");

/// An HTTP tool, ready to be called.
#[derive(Debug)]
pub(super) struct HttpCall {
    name: String,
    method: Method,
    arguments_in_body: bool,
    template: UrlTemplate,
    headers: Headers,
    pub(super) effect: EffectClass,
    timeout: Duration,
    output_path: Option<String>,
    pub(super) probe: Option<Probe>,
}

impl HttpCall {
    /// Reads a declaration; what is wrong with it was told when the agent was made.
    pub(super) fn compile(tool: &HttpTool, agent_timeout_ms: u64) -> Result<Self, String> {
        let template = UrlTemplate::parse(&tool.url).map_err(|error| error.to_string())?;
        let headers = Headers::compile(&tool.headers)
            .map_err(|faults| faults.first().map_or_else(String::new, |(_, text)| text.clone()))?;
        let (method, arguments_in_body) = match tool.method {
            HttpMethod::Get => (Method::GET, false),
            HttpMethod::Delete => (Method::DELETE, false),
            HttpMethod::Post => (Method::POST, true),
            HttpMethod::Put => (Method::PUT, true),
            HttpMethod::Patch => (Method::PATCH, true),
        };
        let timeout = Duration::from_millis(tool.timeout_ms.unwrap_or(agent_timeout_ms));
        Ok(Self {
            name: tool.name.clone(),
            method,
            arguments_in_body,
            template,
            probe: Probe::compile(tool, &headers, timeout),
            headers,
            effect: tool.effect,
            timeout,
            output_path: tool.output_path.clone(),
        })
    }

    /// Calls the tool; the time bound covers everything from the first look-up to the last byte.
    pub(super) async fn send(
        &self,
        outside: (&Clients, Vault<'_>),
        call: &CallRequest,
        arguments: &Arguments,
    ) -> Result<Output, ToolCallError> {
        let reached = Reached::default();
        let exchange = reached.note(self.exchange(outside, call, arguments));
        let came = tokio::time::timeout(self.timeout, exchange).await;
        came.unwrap_or_else(|_| Err(self.late(reached.is_so())))
            .map_err(|loss| loss.into_error(self.effect))
    }

    fn late(&self, is_sent: bool) -> Loss {
        let (tool, bound) = (self.name.clone(), self.timeout);
        if is_sent { Loss::Late { tool, bound } } else { Loss::TooLateToSend { tool, bound } }
    }

    async fn exchange(
        &self,
        (clients, vault): (&Clients, Vault<'_>),
        call: &CallRequest,
        arguments: &Arguments,
    ) -> Result<Output, Loss> {
        let mut request = self.request(call, arguments)?;
        let client = clients.admit(request.url()).map_err(Loss::Denied)?;
        let (headers, mask) = self.headers.resolve(vault, request.url()).await?;
        for (name, value) in &headers {
            request.headers_mut().insert(name, value.clone());
        }
        let response = connect(client, request).await.map_err(|error| explained(&error))?;
        self.take(response, &mask).await
    }

    /// The URL with its arguments, unless one of them cannot take its place.
    pub(super) fn url(
        &self,
        arguments: &Arguments,
        extra: &[Argument<'_>],
    ) -> Result<Url, ToolCallError> {
        self.template.fill(arguments, extra).map_err(|misfits| misfit(&misfits))
    }

    fn request(&self, call: &CallRequest, arguments: &Arguments) -> Result<Request, ToolCallError> {
        let in_url: Vec<&str> = self.template.arguments().collect();
        let named = arguments.iter().map(|(name, value)| (name, value.as_ref()));
        let rest = || named.clone().filter(|(name, _)| !in_url.contains(&name.as_str()));
        let extra: Vec<_> = if self.arguments_in_body { Vec::new() } else { rest().collect() };
        let url = self.url(arguments, &extra)?;
        let mut request = Request::new(self.method.clone(), url);
        if self.arguments_in_body {
            let body = object(rest()).map_err(|_| {
                failure(OutcomeKind::Execution, "InvalidTool", "the arguments are not sendable")
            })?;
            *request.body_mut() = Some(body.into());
            let json = HeaderValue::from_static("application/json");
            // A declared type takes its place.
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        // Ids of calls that run here are plain; encoding makes a header value of any other as well.
        let key = HeaderValue::from_str(&percent_encode(call.call_id.as_str())).map_err(|_| {
            failure(OutcomeKind::Execution, "InvalidTool", "the call's id is not sendable")
        })?;
        request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        request.headers_mut().insert(FENCE, HeaderValue::from(call.epoch));
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(ACCEPTED);
        Ok(request)
    }

    /// Reads an answer, without the secrets that it was asked with.
    pub(super) async fn take(&self, mut response: Response, mask: &Mask) -> Result<Output, Loss> {
        let status = response.status();
        let header_bytes: usize =
            response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let fits = header_bytes <= usize::try_from(MAX_HEADER_BYTES).unwrap_or(usize::MAX);
        if !status.is_success() {
            let bound = if fits { MAX_FAILURE } else { 0 };
            let (body, _) = gather(&mut response, bound).await;
            return Err(status_failure(status.as_u16(), &mask.bytes(&body)));
        }
        if !fits {
            return Err(too_large("headers", "are"));
        }
        let declared = Declared::of(response.headers());
        let (body, end) = gather(&mut response, MAX_BODY).await;
        match end {
            End::Reached => {
                let from = (self.name.as_str(), self.output_path.as_deref());
                let output = read(&mask.bytes(&body), &declared, from).map_err(unread)?;
                Ok(output.masked(mask))
            }
            End::Beyond => Err(too_large("body", "is")),
            End::Inflated => Err(too_large("unpacked body", "is")),
            End::Unreadable => Err(Loss::Unread {
                type_name: "InvalidResponse",
                text: "the tool's answer is packed in a way that cannot be read".to_owned(),
            }),
            End::Broken(error) => Err(explained(&error)),
        }
    }
}

/// What an error of the client says about the call: whether anything can have happened.
fn explained(error: &reqwest::Error) -> Loss {
    match refusal_in(error) {
        Some(refusal) => Loss::Denied(refusal),
        None if error.is_connect() => Loss::NotSent(UNREACHED.to_owned()),
        None => Loss::Lost,
    }
}

/// Sends a request, trying again as long as no connection came about: nothing was sent then.
async fn connect(client: &reqwest::Client, request: Request) -> Result<Response, reqwest::Error> {
    for _ in 0..RECONNECTS {
        let Some(copy) = request.try_clone() else { break };
        match client.execute(copy).await {
            Err(error) if may_connect_again(&error) => {
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            ended => return ended,
        }
    }
    client.execute(request).await
}

fn may_connect_again(error: &reqwest::Error) -> bool {
    error.is_connect() && !error.is_timeout() && refusal_in(error).is_none()
}

fn status_failure(status: u16, body: &[u8]) -> Loss {
    let excerpt: String = String::from_utf8_lossy(body).chars().take(MAX_EXCERPT).collect();
    let colon = if excerpt.is_empty() { "" } else { ": " };
    let text = format!("the tool answered with status {status}{colon}{excerpt}");
    Loss::Refused { type_name: "HttpStatus", text }
}

fn too_large(part: &str, verb: &str) -> Loss {
    let text = format!("the {part} of the tool's answer {verb} larger than allowed");
    Loss::Unread { type_name: "ResponseTooLarge", text }
}

/// An answer that came, and is not what the declaration of the tool says.
fn unread(error: ToolCallError) -> Loss {
    Loss::Unread { type_name: error.type_name, text: error.message }
}

fn misfit(misfits: &[Misfit]) -> ToolCallError {
    let told: Vec<_> = misfits
        .iter()
        .map(|misfit| format!("/{} {}", escape(&misfit.argument), misfit.text))
        .collect();
    failure(OutcomeKind::InvalidArguments, "InvalidArguments", told.join("; "))
}
