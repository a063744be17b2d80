//! Layers around the endpoints.

mod accept;
mod answer;
mod gone;
mod guard;
mod observe;
mod params;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tower_http::catch_panic::CatchPanicLayer;

use crate::clock::SharedIds;
use crate::engine::redaction::Redactor;
use crate::error::AgentlingError;
use crate::http::problem::Problem;
use crate::instruments::Instruments;

pub use accept::check_accept;
pub use answer::{RequestId, problem_body};
pub use gone::tell_gone;
pub use params::{Queryless, check_query};

/// Puts the outer layers around a router, the outermost last: whatever happens inside, the answer
/// has its ids, its headers and, if it is an error, the form of a problem.
///
/// The router sits inside as a service of its own. Were the layers put onto it, axum would move them
/// into each route, where the `Allow` header of a refused method is not known yet.
pub fn wrap(router: Router, ids: SharedIds) -> Router {
    wrap_observing(router, ids, Redactor::of_shapes(), Instruments::default())
}

/// The same; problems are redacted, and operators see the requests.
pub fn wrap_observing(
    router: Router,
    ids: SharedIds,
    redactor: Redactor,
    instruments: Instruments,
) -> Router {
    let state = answer::Answers { ids, redactor: Arc::new(redactor) };
    Router::new()
        .fallback_service(router.layer(from_fn(observe::note_route)))
        .layer(from_fn(guard::guard))
        .layer(CatchPanicLayer::custom(after_panic))
        .layer(from_fn_with_state(state, answer::answer))
        .layer(from_fn_with_state(instruments, observe::observe))
}

/// The panic hook has logged where it happened; the caller learns only that it did.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands it over")]
fn after_panic(payload: Box<dyn Any + Send>) -> Response {
    let words = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    Problem::from(AgentlingError::internal(format!("a handler panicked: {words}"))).into_response()
}
