//! Steps: the entries of a thread's history.

mod get;
pub(super) mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(get::get))
}
