//! What was erased is gone, whatever a caller wants of it.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::domain::caller::Caller;
use crate::domain::id::TenantId;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::problem::Problem;
use crate::store::erasure::{Erased, was_erased};

/// Answers 410 where an endpoint finds nothing under the id of a thread or a run that was erased.
pub async fn tell_gone(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let asked = asked(&request);
    let response = next.run(request).await;
    let Some((tenant, what)) = asked.filter(|_| response.status() == StatusCode::NOT_FOUND) else {
        return response;
    };
    match was_erased(&app.store, &tenant, what).await {
        Ok(false) => response,
        Ok(true) => Problem::from(AgentlingError::Gone { kind: what.kind() }).into_response(),
        Err(error) => Problem::from(AgentlingError::from(error)).into_response(),
    }
}

/// Which thread or run a path is about, and who asks.
fn asked(request: &Request) -> Option<(TenantId, Erased)> {
    let mut segments = request.uri().path().strip_prefix("/v1/")?.split('/');
    let what = match (segments.next()?, segments.next()?) {
        ("threads", id) => Erased::Thread(id.parse().ok()?),
        ("runs", id) => Erased::Run(id.parse().ok()?),
        _ => return None,
    };
    let caller = request.extensions().get::<Caller>()?;
    Some((caller.tenant.clone(), what))
}
