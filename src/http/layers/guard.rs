//! Turns away requests that no endpoint should see.

use axum::extract::Request;
use axum::http::header::ACCESS_CONTROL_REQUEST_METHOD;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::http::limits;
use crate::http::problem::{Problem, ProblemKind};

/// Methods that endpoints of this server have.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// Checks method, target and headers, then lets the request through.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    if let Err(problem) = check(&request) {
        return problem.into_response();
    }
    if is_preflight(&request) {
        // No origin is allowed, which a preflight learns from the headers that are not there.
        return StatusCode::NO_CONTENT.into_response();
    }
    next.run(request).await
}

fn check(request: &Request) -> Result<(), Problem> {
    if [Method::TRACE, Method::CONNECT].contains(request.method()) {
        return Err(refuse_method(METHODS.map(str::to_owned).to_vec()));
    }
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > limits::URI_BYTES {
        let detail = format!("the request target has more than {} bytes", limits::URI_BYTES);
        let problem = Problem::new(ProblemKind::UriTooLong, detail);
        return Err(problem.member(|view| view.limit = Some(limits::URI_BYTES as u64)));
    }
    check_size(request.headers())
}

fn check_size(headers: &HeaderMap) -> Result<(), Problem> {
    let bytes: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let (over, limit, unit) = if headers.len() > limits::HEADER_COUNT {
        (true, limits::HEADER_COUNT, "headers")
    } else {
        (bytes > limits::HEADER_BYTES, limits::HEADER_BYTES, "bytes of headers")
    };
    if over {
        let detail = format!("the request has more than {limit} {unit}");
        let problem = Problem::new(ProblemKind::HeadersTooLarge, detail);
        return Err(problem.member(|view| view.limit = Some(limit as u64)));
    }
    Ok(())
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a method that a path does not have.
pub(super) fn refuse_method(allowed: Vec<String>) -> Problem {
    let detail = format!("this path takes: {}", allowed.join(", "));
    Problem::new(ProblemKind::MethodNotAllowed, detail).member(|view| view.allowed = allowed)
}
