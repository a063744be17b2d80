//! Whether a caller takes what an operation answers with.

use axum::extract::Request;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::guard::refuse_method;
use crate::http::problem::{Problem, ProblemKind};

/// Refuses callers that rule out the media type of the answer.
///
/// Paths that end in `/stream` answer
/// with events and cannot be asked for their headers alone, those that end in `/response` with bytes;
/// all others answer with JSON.
pub async fn check_accept(request: Request, next: Next) -> Response {
    let streams = request.uri().path().ends_with("/stream");
    if streams && request.method() == Method::HEAD {
        return refuse_method(vec!["GET".to_owned(), "POST".to_owned()]).into_response();
    }
    let (kind, subtype) = match request.uri().path().rsplit('/').next() {
        Some("stream") => ("text", "event-stream"),
        Some("response") => ("application", "octet-stream"),
        _ => ("application", "json"),
    };
    if !accepts(request.headers(), kind, subtype) {
        let detail = format!("the answer would be `{kind}/{subtype}`, which `Accept` rules out");
        let offered = format!("{kind}/{subtype}");
        return Problem::new(ProblemKind::NotAcceptable, detail)
            .member(|view| view.allowed = vec![offered])
            .into_response();
    }
    next.run(request).await
}

/// Whether any range of `Accept` covers a media type; no header accepts all.
fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let mut ranges =
        headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    ranges.peek().is_none()
        || ranges.flat_map(|value| value.split(',')).any(|range| covers(range, kind, subtype))
}

fn covers(range: &str, kind: &str, subtype: &str) -> bool {
    let mut pieces = range.split(';').map(str::trim);
    let Some((main, sub)) = pieces.next().and_then(|name| name.split_once('/')) else {
        return false;
    };
    let refused = pieces
        .filter_map(|piece| piece.strip_prefix("q="))
        .any(|weight| weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0));
    let fits = |text: &str, wanted: &str| text == "*" || text.eq_ignore_ascii_case(wanted);
    !refused && fits(main, kind) && fits(sub, subtype)
}
