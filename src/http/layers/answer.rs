//! The outermost layer: request ids, response headers, and the bodies of problems.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

use crate::clock::SharedIds;
use crate::domain::id::ErrorId;
use crate::domain::redaction::RedactionChannel;
use crate::engine::redaction::Redactor;
use crate::http::problem::{MEDIA_TYPE, Problem, ProblemKind};
use crate::http::rates::RateHeaders;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request, the caller's own if it is a harmless text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub String);

impl RequestId {
    fn of(headers: &HeaderMap, ids: &SharedIds) -> Self {
        let given = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok());
        let harmless = given.filter(|text| {
            (1..=64).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        });
        Self(harmless.map_or_else(|| ids.sortable().simple().to_string(), str::to_owned))
    }
}

/// What answers are made with.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    pub(super) ids: SharedIds,
    /// What is kept from problems.
    pub(super) redactor: Arc<Redactor>,
}

/// Answers a request: everything that leaves the server passes here.
pub(super) async fn answer(
    State(answers): State<Answers>,
    mut request: Request,
    next: Next,
) -> Response {
    let ids = &answers.ids;
    let id = RequestId::of(request.headers(), ids);
    // Query strings can hold what must not be logged.
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!("request", id = %id.0, method = %request.method(), path);
    request.extensions_mut().insert(id.clone());
    let response = next.run(request).instrument(span.clone()).await;
    let _entered = span.entered();
    let rates = response.extensions().get::<RateHeaders>().cloned();
    let mut response = match problem_of(&response) {
        Some(problem) => write(problem, &id, &answers),
        None => response,
    };
    add_headers(response.headers_mut(), &id, &path);
    if let Some(rates) = rates {
        rates.add_to(response.headers_mut());
    }
    response
}

/// The problem that a response stands for. Errors that did not come as problems, from the router or
/// a library's layer, become one here, so that none leaves in another form.
fn problem_of(response: &Response) -> Option<Problem> {
    if let Some(problem) = response.extensions().get::<Problem>() {
        return Some(problem.clone());
    }
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    let kind = match status {
        StatusCode::NOT_FOUND => return Some(Problem::not_found()),
        StatusCode::METHOD_NOT_ALLOWED => return Some(method_not_allowed(response.headers())),
        StatusCode::REQUEST_TIMEOUT => ProblemKind::RequestTimeout,
        StatusCode::PAYLOAD_TOO_LARGE => ProblemKind::BodyTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ProblemKind::UnsupportedMediaType,
        _ => ProblemKind::Internal,
    };
    Some(Problem::new(kind, kind.title()))
}

fn method_not_allowed(headers: &HeaderMap) -> Problem {
    let allow = headers.get(ALLOW).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let allowed: Vec<String> = allow
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    super::guard::refuse_method(allowed)
}

/// Writes a problem: gives it its ids, and tells the operator about faults of the server.
fn write(problem: Problem, request: &RequestId, answers: &Answers) -> Response {
    let known = problem.view().error_id;
    let error_id = known.unwrap_or_else(|| ErrorId::from(answers.ids.sortable()));
    // A failure that already has its id was logged where it happened.
    if problem.status().is_server_error() && known.is_none() {
        log(&problem, error_id);
    }
    let problem = problem.member(|view| {
        view.error_id = Some(error_id);
        view.instance = Some(format!("urn:request:{}", request.0));
    });
    let mut response = Response::new(Body::from(problem_body(&problem, &answers.redactor)));
    *response.status_mut() = problem.status();
    add_problem_headers(response.headers_mut(), &problem);
    response
}

/// The body of a problem, without what is kept from problems.
pub fn problem_body(problem: &Problem, redactor: &Redactor) -> String {
    let body = serde_json::to_string(problem.view()).unwrap_or_default();
    redactor.json_text(RedactionChannel::Api, &body).into_owned()
}

fn log(problem: &Problem, error_id: ErrorId) {
    // A server that stops turns everyone away, probes first of all: that is no news.
    if problem.kind() == ProblemKind::Draining {
        return;
    }
    let cause = problem.source().map(|error| chain(error)).unwrap_or_default();
    let problem_slug = problem.kind().slug();
    if problem.status() == StatusCode::SERVICE_UNAVAILABLE {
        turned_away(error_id, problem_slug, &cause);
    } else {
        tracing::error!(%error_id, problem = problem_slug, cause, "a request failed");
    }
}

fn turned_away(error_id: ErrorId, slug: &str, cause: &str) {
    tracing::warn!(%error_id, problem = slug, cause, "a request was turned away");
}

/// An error and what it came from, one after the other.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn add_problem_headers(headers: &mut HeaderMap, problem: &Problem) {
    let view = problem.view();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if let Some(wait) = view.retry_after_ms {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.div_ceil(1_000).max(1)));
    }
    match problem.kind() {
        ProblemKind::Unauthenticated => {
            let challenge = HeaderValue::from_static("Bearer realm=\"agentling\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        ProblemKind::MethodNotAllowed => {
            if let Ok(allow) = HeaderValue::from_str(&view.allowed.join(", ")) {
                headers.insert(ALLOW, allow);
            }
        }
        // The rest of such a body is not read.
        ProblemKind::BodyTooLarge | ProblemKind::RequestTimeout => {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
}

fn add_headers(headers: &mut HeaderMap, id: &RequestId, path: &str) {
    if let Ok(id) = HeaderValue::from_str(&id.0) {
        headers.insert(X_REQUEST_ID, id);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if path.starts_with("/v1/") {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    let policy = HeaderValue::from_static(
        "default-src 'self'; img-src 'self' data:; connect-src 'self'; object-src 'none'; \
         base-uri 'none'; frame-ancestors 'none'",
    );
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
}
