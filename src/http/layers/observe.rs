//! What operators see of requests: a span and a place in the metrics for each.

use std::sync::{Arc, OnceLock};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use crate::instruments::{Instruments, RemoteParent, Requested, Span};

/// The label of a request without a route.
const NO_ROUTE: &str = "none";

/// A method that is not one of those that there are.
const OTHER: &str = "_OTHER";

/// The route of a request, once it is known; it gets out of a handler that panics, too.
#[derive(Debug, Clone, Default)]
struct Route(Arc<OnceLock<MatchedPath>>);

/// Notes the route, inside of what finds it.
pub(super) async fn note_route(request: Request, next: Next) -> Response {
    let extensions = request.extensions();
    if let (Some(Route(slot)), Some(path)) =
        (extensions.get::<Route>(), extensions.get::<MatchedPath>())
    {
        slot.get_or_init(|| path.clone());
    }
    next.run(request).await
}

/// Observes a request from outside of everything else. What it took is told when the head of its answer is
/// there: a stream goes on for as long as its reader wants.
pub(super) async fn observe(
    State(instruments): State<Instruments>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = Route::default();
    request.extensions_mut().insert(route.clone());
    let method = known(request.method());
    let span = instruments.tracer.request(method, || parent(request.headers()));
    let began = Instant::now();
    let response = span.within(next.run(request)).await;
    let (status, took) = (response.status().as_u16(), began.elapsed());
    let route = route.0.get().map(MatchedPath::as_str);
    let label = route.unwrap_or(NO_ROUTE);
    instruments.metrics.requested(Requested { method, route: label, status, took });
    if span.is_on() {
        describe(&span, (method, route), status);
    }
    response
}

/// Says what the conventions want to know of a request, but for its path, which has texts of the caller.
fn describe(span: &Span, (method, route): (&'static str, Option<&str>), status: u16) {
    let verb = if method == OTHER { "HTTP" } else { method };
    span.rename(|| route.map_or_else(|| verb.to_owned(), |route| format!("{verb} {route}")));
    span.set("http.request.method", method);
    span.set("http.response.status_code", i64::from(status));
    if let Some(route) = route {
        span.set("http.route", route.to_owned());
    }
    if status >= 500 {
        span.fail(status.to_string());
    }
}

/// The span of the caller, where exactly one is named.
fn parent(headers: &HeaderMap) -> Option<RemoteParent> {
    let mut given = headers.get_all("traceparent").iter();
    match (given.next(), given.next()) {
        (Some(one), None) => RemoteParent::read(one.to_str().ok()?),
        _ => None,
    }
}

/// The method; a caller may make one up, which becomes neither a label nor an attribute.
fn known(method: &Method) -> &'static str {
    let all = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    all.into_iter().find(|known| method == *known).unwrap_or(OTHER)
}
