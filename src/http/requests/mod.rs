//! Requests to models: what is known of each, and its bytes.
//!
//! What is known, spans included, holds no text and is read like the steps of a run. The bytes are
//! exact by nature, so no rule of redaction applies to them: they have a scope of their own.

mod body;
mod get;
mod response;
mod spans;
pub(super) mod view;

pub(super) use body::{body_reply, find_body};
pub(super) use response::response_reply;
pub(super) use spans::span_map;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(get::get))
        .routes(routes!(body::body))
        .routes(routes!(spans::spans))
        .routes(routes!(response::response))
}
